"""No second and no micro-yuan is lost or billed twice while parts of the system die."""

import asyncio
import random
import signal

import pytest

from tests.support.clients import GatewayClient, NodeAgent
from tests.support.runs import SETTLED_AFTER_FAULTS_SECONDS, ScenarioRun, deliver_mixed, outcome, scenario_run
from tests.support.scenarios import scenario_names
from tests.support.stack import Stack

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
async def test_every_scenario_comes_out_right_while_services_are_ended(
    number: signal.Signals, stack: Stack, operator: GatewayClient, agent: NodeAgent
) -> None:
    stack.require_own()
    runs = [scenario_run(name) for name in scenario_names()]
    for run in runs:
        await run.open_accounts(operator)
    async with asyncio.TaskGroup() as both:
        both.create_task(deliver_mixed(_all_shuffled(runs, seed=int(number)), operator, agent))
        both.create_task(_end_each(stack, number))
    for run in runs:
        seen = await outcome(run, operator, timeout=SETTLED_AFTER_FAULTS_SECONDS)
        assert seen == run.answer, run.stream["name"]


def _all_shuffled(runs: list[ScenarioRun], seed: int) -> list[dict[str, object]]:
    reports = [report for run in runs for report in run.reports(copies=2)]
    random.Random(seed).shuffle(reports)
    return reports


async def _end_each(stack: Stack, number: signal.Signals) -> None:
    for name in ("metering", "pricing", "wallet", "gateway", "wallet", "metering"):
        await stack.restart(name, number)
