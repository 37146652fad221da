"""How old is what a customer sees: one report sent through Kafka until GET balance shows it."""

import asyncio
from datetime import timedelta
from time import perf_counter
from typing import Final

import asyncpg

from benchmarks.load import MICRO_PER_CARD_HOUR, REPORT_SECONDS, Fleet, last_whole_hour
from benchmarks.results import Result
from benchmarks.stages import Bench, publishing
from shared.contracts.topics import (
    ACCOUNT_OPENED,
    ACCOUNT_STANDING,
    CHARGE_RATED,
    USAGE_METERED,
    USAGE_REPORTED,
)
from shared.kafka import Publisher
from shared.time import system_clock
from tests.support.clients import GatewayClient, NodeAgent, node_agent, wait_for
from tests.support.databases import database_factory, unique_suffix
from tests.support.ledger import micro
from tests.support.reports import JsonObject, usage_event
from tests.support.stack import Stack, running_stack

WARM_REPORTS: Final = 10
TICK_SECONDS: Final = 0.1
MICRO_PER_REPORT: Final = 100 * 9_900_000 * REPORT_SECONDS // 3_600
LOST_SECONDS: Final = 30.0
DRAIN_SECONDS: Final = 300.0
LOOK_SECONDS: Final = 0.005
LOOK_UNDER_LOAD_SECONDS: Final = 0.05
_GROUPS: Final = (
    ("metering", USAGE_REPORTED),
    ("pricing", USAGE_METERED),
    ("wallet", CHARGE_RATED),
    ("wallet", ACCOUNT_OPENED),
    ("gateway", ACCOUNT_STANDING),
)


async def idle(bench: Bench) -> Result:
    """Single reports on an idle system, one after the other."""
    return await _measure(bench, reports_per_second=0, probes=200, wanted_seconds=0.3)


async def under_5000(bench: Bench) -> Result:
    return await _measure(bench, reports_per_second=5_000, probes=100, wanted_seconds=1.0)


async def under_10000(bench: Bench) -> Result:
    return await _measure(bench, reports_per_second=10_000, probes=60, wanted_seconds=3.0)


async def _measure(bench: Bench, *, reports_per_second: int, probes: int, wanted_seconds: float) -> Result:
    for group, topic in _GROUPS:
        await bench.skip_backlog(group, topic)
    traffic = Traffic(reports_per_second)
    look_seconds = LOOK_UNDER_LOAD_SECONDS if reports_per_second else LOOK_SECONDS
    async with (
        database_factory(bench.postgres_dsn) as make_database,
        running_stack(make_database, bench.kafka.bootstrap, {}) as stack,
        GatewayClient(stack.gateway_url, stack.operator_key) as operator,
        node_agent(stack.kafka_bootstrap) as agent,
        publishing(bench.kafka) as publisher,
    ):
        async with asyncio.TaskGroup() as beside:
            beside.create_task(traffic.run(publisher))
            seconds = sorted(await _probe(operator, agent, max(30, int(probes * bench.scale)), look_seconds))
            traffic.stop()
        await _all_charged(stack, traffic)
    load = f"{reports_per_second:,} reports/s" if reports_per_second else "idle"
    return Result(
        f"report -> visible balance, {load}, linger 0.05 s: p99",
        seconds[int(len(seconds) * 0.99)],
        "s",
        wanted_seconds,
        at_most=True,
        details={
            "probes": len(seconds),
            "p50 s": seconds[len(seconds) // 2],
            "worst s": seconds[-1],
            **traffic.details(),
        },
    )


class Traffic:
    """A fleet of ten instances for each report per second, each of which reports every ten seconds."""

    def __init__(self, reports_per_second: int) -> None:
        self.prefix = f"fleet-{unique_suffix()}"
        self._rate = reports_per_second
        self._fleet = Fleet(
            self.prefix, last_whole_hour(system_clock()), max(1, reports_per_second * REPORT_SECONDS)
        )
        self._sent = 0
        self._seconds = 0.0
        self._stopping = False

    @property
    def amount_micro(self) -> int:
        """What the fleet owes: every instance the floor of its own seconds."""
        turns, further = divmod(self._sent, self._fleet.instances)
        due = [MICRO_PER_CARD_HOUR * REPORT_SECONDS * count // 3_600 for count in (turns, turns + 1)]
        return (self._fleet.instances - further) * due[0] + further * due[1]

    def stop(self) -> None:
        self._stopping = True

    def details(self) -> dict[str, float | int | str]:
        if not self._rate:
            return {}
        return {"instances": self._fleet.instances, "sent per second": self._sent / self._seconds}

    async def run(self, publisher: Publisher) -> None:
        began = perf_counter()
        while self._rate and not self._stopping:
            due = int(self._rate * (perf_counter() - began))
            await publisher.publish(self._fleet.reports(self._sent, due))
            self._sent = due
            await asyncio.sleep(TICK_SECONDS)
        self._seconds = perf_counter() - began


async def _all_charged(stack: Stack, traffic: Traffic) -> None:
    """Nothing of the traffic may be missing either, to the micro-yuan."""
    owner_url = stack.databases["wallet"].owner_url
    connection = await asyncpg.connect(owner_url.replace("postgresql+asyncpg://", "postgresql://", 1))

    async def charged() -> int:
        query = "SELECT sum(amount) FROM charge WHERE starts_with(account_id, $1)"
        return int(await connection.fetchval(query, traffic.prefix) or 0)

    try:
        found = await wait_for(charged, lambda seen: seen == traffic.amount_micro, timeout=DRAIN_SECONDS)
    finally:
        await connection.close()
    assert found == traffic.amount_micro, f"{found} micro-yuan charged, {traffic.amount_micro} due"


async def _probe(operator: GatewayClient, agent: NodeAgent, count: int, look_seconds: float) -> list[float]:
    """Seconds of each probe. One not seen in LOST_SECONDS ends the probing: the system is behind."""
    account_id = f"bench-{unique_suffix()}"
    await operator.post(
        "/v1/accounts", {"account_id": account_id, "name": "bench", "kind": "personal", "trial": False}
    )
    await operator.post(
        f"/v1/accounts/{account_id}/top-ups", {"amount": "100000", "channel": "bank", "reference": "bench"}
    )
    available = micro((await operator.balance(account_id))["available"])
    taken: list[float] = []
    for event in _reports(account_id, WARM_REPORTS + count):
        began = perf_counter()
        await agent.report([event])
        available -= MICRO_PER_REPORT
        try:
            await asyncio.wait_for(_seen(operator, account_id, available, look_seconds), LOST_SECONDS)
        except TimeoutError:
            return [*taken[WARM_REPORTS:], LOST_SECONDS]
        taken.append(perf_counter() - began)
    return taken[WARM_REPORTS:]


async def _seen(operator: GatewayClient, account_id: str, available: int, look_seconds: float) -> None:
    while (seen := micro((await operator.balance(account_id))["available"])) != available:
        assert seen > available, f"{account_id} was charged {available - seen} micro-yuan too much"
        await asyncio.sleep(look_seconds)


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
