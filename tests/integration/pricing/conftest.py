"""A pricing database as new for each test, and the service's parts on it."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import httpx
import pytest
from sqlalchemy import text

from services.pricing.api.routes import Operations, build_api
from services.pricing.consumers import UsageMeteredConsumer
from services.pricing.usecases.find_book import FindBook
from services.pricing.usecases.list_books import ListBooks
from services.pricing.usecases.list_unpriced import ListUnpriced
from services.pricing.usecases.load_pricer import LoadPricer
from services.pricing.usecases.publish_book import PublishBook
from services.pricing.usecases.quote_usage import QuoteUsage
from services.pricing.usecases.rate_usage import RateUsage
from shared.database import Database
from tests.support.clocks import SettableClock
from tests.support.databases import DatabaseUrls, fresh_database

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
# As if just migrated: only the default book, nothing unpriced. The owner alone may set the trigger aside.
_RESET = (
    "ALTER TABLE price_book DISABLE TRIGGER price_book_append_only",
    "DELETE FROM price_book WHERE version > 1",
    "ALTER TABLE price_book ENABLE TRIGGER price_book_append_only",
    "TRUNCATE unpriced_usage, republish_request",
)


@pytest.fixture(scope="session")
async def migrated(admin_dsn: str) -> AsyncIterator[DatabaseUrls]:
    async with fresh_database(admin_dsn, "pricing") as urls:
        yield urls


@pytest.fixture(scope="session")
async def owner(migrated: DatabaseUrls) -> AsyncIterator[Database]:
    owner = Database(migrated.owner_url, pool_size=1)
    yield owner
    await owner.close()


@pytest.fixture
async def database(migrated: DatabaseUrls, owner: Database) -> AsyncIterator[Database]:
    """As the service's role, with no more rights than it has."""
    database = Database(migrated.role_url, pool_size=8)
    yield database
    await database.close()
    async with owner.transaction() as connection:
        for statement in _RESET:
            await connection.execute(text(statement))


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOW)


@pytest.fixture
def load_pricer() -> LoadPricer:
    return LoadPricer()


@pytest.fixture
def publish_book(database: Database, clock: SettableClock) -> PublishBook:
    return PublishBook(database, clock)


@pytest.fixture
def list_unpriced(database: Database) -> ListUnpriced:
    return ListUnpriced(database)


@pytest.fixture
def rate_usage(database: Database, load_pricer: LoadPricer) -> RateUsage:
    return RateUsage(database, load_pricer)


@pytest.fixture
def consumer(rate_usage: RateUsage) -> UsageMeteredConsumer:
    return UsageMeteredConsumer(rate_usage)


@pytest.fixture
async def api(
    database: Database, load_pricer: LoadPricer, clock: SettableClock
) -> AsyncIterator[httpx.AsyncClient]:
    app = build_api(
        Operations(
            find_book=FindBook(database, clock),
            list_books=ListBooks(database),
            publish_book=PublishBook(database, clock),
            quote_usage=QuoteUsage(database, load_pricer),
            list_unpriced=ListUnpriced(database),
        )
    )
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://pricing.test"
    ) as client:
        yield client
