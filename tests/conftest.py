"""Fixtures that name what a test needs: a database, a broker, names nobody else uses."""

from collections.abc import AsyncIterator, Callable

import pytest

from tests.support.databases import (
    MakeDatabase,
    database_factory,
    postgres_dsn,
    required_environment,
    unique_suffix,
)


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
