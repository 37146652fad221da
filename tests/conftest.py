"""Fixtures that name what a test needs: a database, a broker, a running system, names nobody else uses."""

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.support.clients import GatewayClient, NodeAgent, node_agent
from tests.support.databases import (
    MakeDatabase,
    database_factory,
    postgres_dsn,
    required_environment,
    unique_suffix,
)
from tests.support.stack import Stack, running_stack

SUITES = ("unit", "property", "contract", "integration", "e2e", "chaos")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The quick suites first, and the running system only once it is needed."""
    tests = Path(__file__).parent
    items.sort(key=lambda item: SUITES.index(item.path.relative_to(tests).parts[0]))


@pytest.fixture(scope="session")
def admin_dsn() -> str:
    """The PostgreSQL administrator's DSN (asyncpg)."""
    return postgres_dsn()


@pytest.fixture(scope="session")
async def make_database(admin_dsn: str) -> AsyncIterator[MakeDatabase]:
    """Awaited as `make_database("wallet")`, gives DatabaseUrls; wrap it in your own fixture."""
    async with database_factory(admin_dsn) as make:
        yield make


@pytest.fixture(scope="session")
def kafka_bootstrap() -> str:
    return required_environment("KAFKA_BOOTSTRAP")


@pytest.fixture
def unique_name() -> Callable[[str], str]:
    """A topic, group, account or reference that no other test uses: `unique_name("usage")`."""

    def name(prefix: str) -> str:
        return f"{prefix}-{unique_suffix()}"

    return name


STACK_SETTINGS = {
    "WALLET_SWEEP_EVERY_SECONDS": "0.2",
    "WALLET_SETTLE_QUIET_SECONDS": "1",
    "GATEWAY_KEY_CACHE_SECONDS": "0.5",
    "GATEWAY_BODY_SECONDS_MAX": "2",
}
"""What makes a test quicker than production without changing what it does."""


@pytest.fixture(scope="session")
async def stack(make_database: MakeDatabase, kafka_bootstrap: str) -> AsyncIterator[Stack]:
    """The system that OPERATOR_KEY opens, if there is such a key, else one of our own.

    Topics have fixed names, so a broker carries one stack: it lives as long as the session.
    """
    key = os.environ.get("OPERATOR_KEY")
    if key:
        yield Stack(os.environ["GATEWAY_URL"], kafka_bootstrap, key, {}, {})
        return
    async with running_stack(make_database, kafka_bootstrap, STACK_SETTINGS) as running:
        yield running


@pytest.fixture(scope="session")
async def operator(stack: Stack) -> AsyncIterator[GatewayClient]:
    async with GatewayClient(stack.gateway_url, stack.operator_key) as client:
        yield client


@pytest.fixture(scope="session")
async def agent(stack: Stack) -> AsyncIterator[NodeAgent]:
    async with node_agent(stack.kafka_bootstrap) as reporting:
        yield reporting
