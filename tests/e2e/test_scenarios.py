"""Every scenario comes out to the micro-yuan: reports in, REST out, however the reports travel."""

import asyncio
import random
import signal
from collections.abc import Iterator
from itertools import count

import pytest

from tests.support.clients import GatewayClient, NodeAgent, wait_for
from tests.support.databases import unique_suffix
from tests.support.oracle import expected_of
from tests.support.reports import JsonObject
from tests.support.runs import STREAM_DAYS_MAX, ScenarioRun, Settled, shanghai_midnight
from tests.support.scenarios import Expected, Stream, load_scenario, random_stream, scenario_names
from tests.support.stack import Stack

pytestmark = pytest.mark.kafka

USUAL_DAYS_PAST = 6
RANDOM_SEEDS = (11, 12, 13)
SETTLED_SECONDS = 30.0
SETTLED_AFTER_RESTARTS_SECONDS = 120.0


def _days_apart() -> Iterator[int]:
    """Runs that change prices get days of their own, so that no other run is rated by their books."""
    return count(USUAL_DAYS_PAST + 2 + STREAM_DAYS_MAX, STREAM_DAYS_MAX + 1)


_priced_days = _days_apart()


def _run(stream: Stream, expected: Expected) -> ScenarioRun:
    days_past = next(_priced_days) if stream.get("price_changes") else USUAL_DAYS_PAST
    return ScenarioRun(stream, expected, f"{stream['name']}-{unique_suffix()}", shanghai_midnight(days_past))


def _scenario_run(name: str) -> ScenarioRun:
    scenario = load_scenario(name)
    return _run(scenario, scenario["expected"])


async def _outcome(run: ScenarioRun, operator: GatewayClient, *, timeout: float = SETTLED_SECONDS) -> Settled:
    return await wait_for(lambda: run.observe(operator), lambda seen: seen == run.answer, timeout=timeout)


@pytest.mark.parametrize("name", scenario_names())
async def test_as_delivered_over_kafka(name: str, operator: GatewayClient, agent: NodeAgent) -> None:
    run = _scenario_run(name)
    await run.open_accounts(operator)
    await agent.report(run.reports())
    assert await _outcome(run, operator) == run.answer


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", scenario_names())
async def test_twice_and_shuffled_over_http_and_both_modes_of_kafka(
    name: str, seed: int, operator: GatewayClient, agent: NodeAgent
) -> None:
    run = _scenario_run(name)
    await run.open_accounts(operator)
    await _deliver_mixed(run.reports(copies=2, shuffle=random.Random(seed)), operator, agent)
    assert await _outcome(run, operator) == run.answer


@pytest.mark.parametrize("seed", RANDOM_SEEDS)
async def test_random_streams_against_the_oracle(
    seed: int, operator: GatewayClient, agent: NodeAgent
) -> None:
    stream = random_stream(seed)
    run = _run(stream, expected_of(stream))
    await run.open_accounts(operator)
    await _deliver_mixed(run.reports(), operator, agent)
    assert await _outcome(run, operator) == run.answer


async def test_reports_may_arrive_before_the_account_is_opened(
    operator: GatewayClient, agent: NodeAgent
) -> None:
    run = _scenario_run("trial-on-4090")
    reports = run.reports()
    await agent.report(reports[: len(reports) // 2])
    await run.open_accounts(operator)
    await agent.report(reports[len(reports) // 2 :])
    assert await _outcome(run, operator) == run.answer


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
async def test_while_services_are_restarted(
    number: signal.Signals, stack: Stack, operator: GatewayClient, agent: NodeAgent
) -> None:
    if not stack.services:
        pytest.fail("needs a stack of its own: unset OPERATOR_KEY", pytrace=False)
    chance = random.Random(int(number))
    runs = [_scenario_run(name) for name in scenario_names()]
    for run in runs:
        await run.open_accounts(operator)
    reports = [report for run in runs for report in run.reports(copies=2)]
    chance.shuffle(reports)
    async with asyncio.TaskGroup() as both:
        both.create_task(_deliver_mixed(reports, operator, agent))
        both.create_task(_restart_each(stack, number))
    for run in runs:
        seen = await _outcome(run, operator, timeout=SETTLED_AFTER_RESTARTS_SECONDS)
        assert seen == run.answer, run.stream["name"]


async def _restart_each(stack: Stack, number: signal.Signals) -> None:
    for name in ("metering", "pricing", "wallet", "gateway", "wallet", "metering"):
        await stack.restart(name, number)


async def _deliver_mixed(reports: list[JsonObject], operator: GatewayClient, agent: NodeAgent) -> None:
    """A third each over HTTP, Kafka structured and Kafka binary, all at once."""
    async with asyncio.TaskGroup() as roads:
        roads.create_task(operator.post_events(reports[0::3]))
        roads.create_task(agent.report(reports[1::3], "structured"))
        roads.create_task(agent.report(reports[2::3], "binary"))
