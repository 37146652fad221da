"""How old is what a customer sees: one report sent through Kafka until GET balance shows it."""

import asyncio
from datetime import timedelta
from time import perf_counter
from typing import Final

from benchmarks.results import Result
from benchmarks.stages import Bench
from shared.contracts.topics import (
    ACCOUNT_OPENED,
    ACCOUNT_STANDING,
    CHARGE_RATED,
    USAGE_METERED,
    USAGE_REPORTED,
)
from shared.time import system_clock
from tests.support.clients import GatewayClient, NodeAgent, node_agent
from tests.support.databases import database_factory, unique_suffix
from tests.support.ledger import micro
from tests.support.reports import JsonObject, usage_event
from tests.support.stack import running_stack

REPORTS: Final = 200
WARM_REPORTS: Final = 10
REPORT_SECONDS: Final = 10
MICRO_PER_REPORT: Final = 100 * 9_900_000 * REPORT_SECONDS // 3_600
LOST_SECONDS: Final = 30.0
_GROUPS: Final = (
    ("metering", USAGE_REPORTED),
    ("pricing", USAGE_METERED),
    ("wallet", CHARGE_RATED),
    ("wallet", ACCOUNT_OPENED),
    ("gateway", ACCOUNT_STANDING),
)


async def report_to_balance(bench: Bench) -> Result:
    """Single reports on an idle system, one after the other."""
    for group, topic in _GROUPS:
        await bench.skip_backlog(group, topic)
    async with (
        database_factory(bench.postgres_dsn) as make_database,
        running_stack(make_database, bench.kafka.bootstrap, {}) as stack,
        GatewayClient(stack.gateway_url, stack.operator_key) as operator,
        node_agent(stack.kafka_bootstrap) as agent,
    ):
        seconds = sorted(await _probe(operator, agent, max(50, int(REPORTS * bench.scale))))
    return Result(
        "report -> visible balance, idle, linger 0.05 s: p99",
        seconds[int(len(seconds) * 0.99)],
        "s",
        0.3,
        at_most=True,
        details={"reports": len(seconds), "p50 s": seconds[len(seconds) // 2], "worst s": seconds[-1]},
    )


async def _probe(operator: GatewayClient, agent: NodeAgent, count: int) -> list[float]:
    account_id = f"bench-{unique_suffix()}"
    await operator.post(
        "/v1/accounts", {"account_id": account_id, "name": "bench", "kind": "personal", "trial": False}
    )
    await operator.post(
        f"/v1/accounts/{account_id}/top-ups", {"amount": "100000", "channel": "bank", "reference": "bench"}
    )
    available = micro((await operator.balance(account_id))["available"])
    taken = []
    for event in _reports(account_id, WARM_REPORTS + count):
        began = perf_counter()
        await agent.report([event])
        available -= MICRO_PER_REPORT
        await _seen(operator, account_id, available)
        taken.append(perf_counter() - began)
    return taken[WARM_REPORTS:]


async def _seen(operator: GatewayClient, account_id: str, available: int) -> None:
    async with asyncio.timeout(LOST_SECONDS):
        while (seen := micro((await operator.balance(account_id))["available"])) != available:
            assert seen > available, f"{account_id} was charged {available - seen} micro-yuan too much"


def _reports(account_id: str, count: int) -> list[JsonObject]:
    """Adjoining reports of one resource that ended a while ago."""
    boot = system_clock().replace(microsecond=0) - timedelta(seconds=REPORT_SECONDS * count)
    return [
        usage_event(
            account_id=account_id,
            since=boot,
            start=boot + timedelta(seconds=REPORT_SECONDS * number),
            end=boot + timedelta(seconds=REPORT_SECONDS * (number + 1)),
            sku="h100-80g",
            quantity=100,
            event_id=f"bench/{number}",
        )
        for number in range(count)
    ]
