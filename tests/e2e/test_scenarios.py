"""Every scenario comes out to the micro-yuan: reports in, REST out, however the reports travel."""

import random

import pytest

from tests.support.clients import GatewayClient, NodeAgent
from tests.support.oracle import expected_of
from tests.support.runs import deliver_mixed, outcome, run_of, scenario_run
from tests.support.scenarios import random_stream, scenario_names

pytestmark = pytest.mark.kafka

RANDOM_SEEDS = (11, 12, 13)


@pytest.mark.parametrize("name", scenario_names())
async def test_as_delivered_over_kafka(name: str, operator: GatewayClient, agent: NodeAgent) -> None:
    run = scenario_run(name)
    await run.open_accounts(operator)
    await agent.report(run.reports())
    assert await outcome(run, operator) == run.answer


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", scenario_names())
async def test_twice_and_shuffled_over_http_and_both_modes_of_kafka(
    name: str, seed: int, operator: GatewayClient, agent: NodeAgent
) -> None:
    run = scenario_run(name)
    await run.open_accounts(operator)
    await deliver_mixed(run.reports(copies=2, shuffle=random.Random(seed)), operator, agent)
    assert await outcome(run, operator) == run.answer


@pytest.mark.parametrize("seed", RANDOM_SEEDS)
async def test_random_streams_against_the_oracle(
    seed: int, operator: GatewayClient, agent: NodeAgent
) -> None:
    stream = random_stream(seed)
    run = run_of(stream, expected_of(stream))
    await run.open_accounts(operator)
    await deliver_mixed(run.reports(), operator, agent)
    assert await outcome(run, operator) == run.answer


async def test_reports_may_arrive_before_the_account_is_opened(
    operator: GatewayClient, agent: NodeAgent
) -> None:
    run = scenario_run("trial-on-4090")
    reports = run.reports()
    await agent.report(reports[: len(reports) // 2])
    await run.open_accounts(operator)
    await agent.report(reports[len(reports) // 2 :])
    assert await outcome(run, operator) == run.answer
