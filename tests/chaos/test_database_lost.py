"""A database that goes away is waited for: its callers are told so, and nothing is lost."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import httpx
import pytest

from tests.support.clients import GatewayClient, NodeAgent, wait_for
from tests.support.databases import SERVICES
from tests.support.runs import SETTLED_AFTER_FAULTS_SECONDS, outcome, scenario_run
from tests.support.stack import Stack

pytestmark = pytest.mark.kafka


@asynccontextmanager
async def _cut_off(admin_dsn: str, database: str) -> AsyncIterator[None]:
    """Ends the database's connections and refuses new ones."""
    admin = await asyncpg.connect(admin_dsn)
    try:
        await admin.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", database
        )
        try:
            yield
        finally:
            await admin.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")
    finally:
        await admin.close()


@pytest.mark.parametrize("name", SERVICES)
async def test_reports_sent_while_a_database_is_away_are_billed_when_it_is_back(
    name: str, admin_dsn: str, stack: Stack, operator: GatewayClient, agent: NodeAgent
) -> None:
    stack.require_own()
    service = stack.services[name]
    run = scenario_run("mode-switch")
    await run.open_accounts(operator)
    reports = run.reports(copies=2, shuffle=random.Random(3))
    await agent.report(reports[: len(reports) // 2])
    async with _cut_off(admin_dsn, stack.databases[name].name), httpx.AsyncClient() as probe:
        await agent.report(reports[len(reports) // 2 :])

        async def readiness() -> httpx.Response:
            return await probe.get(f"{service.url}/readyz")

        lost = await wait_for(readiness, lambda seen: seen.status_code == 503)
        assert lost.json()["code"] == "not_ready"
        assert "database" in lost.json()["detail"]
        assert (await probe.get(f"{service.url}/healthz")).status_code == 200
    await service.wait_ready()
    seen = await outcome(run, operator, timeout=SETTLED_AFTER_FAULTS_SECONDS)
    assert seen == run.answer


async def test_a_caller_hears_that_the_wallet_is_away_and_when_to_come_back(
    admin_dsn: str, stack: Stack, operator: GatewayClient
) -> None:
    stack.require_own()
    async with (
        _cut_off(admin_dsn, stack.databases["wallet"].name),
        httpx.AsyncClient(base_url=stack.gateway_url, headers=operator.http.headers) as impatient,
    ):
        response = await impatient.get("/v1/accounts/anyone/balance")
        assert response.status_code in (404, 503)
        response = await impatient.post(
            "/v1/holds",
            json={
                "account_id": "anyone",
                "sku": "rtx-4090",
                "quantity": 1,
                "mode": "gpu",
                "purchase": "on_demand",
                "seconds": 60,
                "reference": "start-1",
            },
        )
        assert response.status_code in (404, 503)
    await stack.services["wallet"].wait_ready()
