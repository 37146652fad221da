"""A migrated metering database, emptied for each test, used with the rights of metering's role."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text

from shared.database import Database
from tests.support.databases import DatabaseUrls, MakeDatabase


@pytest.fixture(scope="session")
async def metering_urls(make_database: MakeDatabase) -> DatabaseUrls:
    return await make_database("metering")


@pytest.fixture(scope="session")
async def owner_database(metering_urls: DatabaseUrls) -> AsyncIterator[Database]:
    database = Database(metering_urls.owner_url, pool_size=2)
    yield database
    await database.close()


@pytest.fixture
async def database(metering_urls: DatabaseUrls, owner_database: Database) -> AsyncIterator[Database]:
    async with owner_database.transaction() as connection:
        await connection.execute(text("TRUNCATE usage_window, republish"))
    database = Database(metering_urls.role_url)
    yield database
    await database.close()
