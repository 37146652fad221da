"""A migrated wallet database, emptied for each test, and a context on it with a clock that stands still."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from services.wallet.usecases.context import Context
from services.wallet.usecases.prove_ledger import prove_ledger
from tests.support.databases import DatabaseUrls, MakeDatabase
from tests.support.wallet import MovingClock, make_context

TABLES = "account, lot, lot_boundary, charge, unsettled_hour, entry, transfer, allocation, hold, outbox"


@pytest.fixture(scope="session")
async def wallet_urls(make_database: MakeDatabase) -> DatabaseUrls:
    return await make_database("wallet")


@pytest.fixture(scope="session")
async def owner(wallet_urls: DatabaseUrls) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(wallet_urls.owner_url.replace("+asyncpg", ""))
    yield connection
    await connection.close()


@pytest.fixture
def clock() -> MovingClock:
    return MovingClock()


@pytest.fixture
async def context(
    wallet_urls: DatabaseUrls, owner: asyncpg.Connection, clock: MovingClock
) -> AsyncIterator[Context]:
    """After the test the whole database must still be proven right."""
    async with owner.transaction():
        # Append-only tables refuse TRUNCATE but to a replica.
        await owner.execute("SET LOCAL session_replication_role = replica")
        await owner.execute(f"TRUNCATE {TABLES}")
    made = make_context(wallet_urls.role_url, clock)
    yield made
    findings = await prove_ledger(made)
    await made.database.close()
    assert findings == []


@pytest.fixture
async def role(wallet_urls: DatabaseUrls) -> AsyncIterator[asyncpg.Connection]:
    """A connection with the rights of the service's own role."""
    connection = await asyncpg.connect(wallet_urls.role_url.replace("+asyncpg", ""))
    yield connection
    await connection.close()
