"""A book that changes what may have been rated makes metering tell it again; the real metering is asked."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from services.pricing.clients.metering import MeteringClient
from services.pricing.domain.document import BookDocument
from services.pricing.storage import republish_requests
from services.pricing.usecases import ask_metering
from services.pricing.usecases.ask_metering import AskMetering
from services.pricing.usecases.publish_book import PublishBook
from shared.database import Database
from shared.errors import Unavailable
from tests.support.books import book_body
from tests.support.clients import wait_for
from tests.support.clocks import SettableClock
from tests.support.databases import MakeDatabase
from tests.support.stack import ServiceProcess, free_ports

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
async def metering(
    make_database: MakeDatabase, kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ServiceProcess]:
    """Its API alone, so that what it was asked for stays undone."""
    urls = await make_database("metering")
    (port,) = free_ports(1)
    environment = {
        "KAFKA_BOOTSTRAP": kafka_bootstrap,
        "METERING_PORT": str(port),
        "METERING_DATABASE_URL": urls.role_url,
        "METERING_MIGRATION_URL": urls.owner_url,
    }
    log: Path = tmp_path_factory.mktemp("metering") / "metering.log"
    service = ServiceProcess("metering", port, environment, log, role="api")
    service.start()
    await service.wait_ready()
    yield service
    await service.end(signal.SIGTERM)


@pytest.fixture(autouse=True)
async def nothing_asked(metering: ServiceProcess) -> None:
    """Every test numbers its books from 2, so metering must not remember another test's."""
    owner = Database(metering.environment["METERING_MIGRATION_URL"], pool_size=1)
    async with owner.transaction() as connection:
        await connection.execute(text("TRUNCATE republish"))
    await owner.close()


@pytest.fixture
async def client(metering: ServiceProcess) -> AsyncIterator[MeteringClient]:
    client = MeteringClient(metering.url)
    yield client
    await client.close()


@pytest.fixture
def ask(database: Database, client: MeteringClient, clock: SettableClock) -> AskMetering:
    return AskMetering(database, client, clock, poll_seconds=0.02)


def document(effective_from: str, **changes: Any) -> BookDocument:
    return BookDocument.model_validate(book_body(effective_from=effective_from, **changes))


async def asked(metering: ServiceProcess) -> list[tuple[str, str, str | None]]:
    """What metering was asked for, the first first."""
    async with httpx.AsyncClient(base_url=metering.url) as client:
        items = (await client.get("/v1/republish")).json()["items"]
    return sorted((item["reference"], item["from"], item["to"]) for item in items)


async def unasked(database: Database) -> list[str]:
    async with database.reading() as connection:
        return [request.reference for request in await republish_requests.unasked(connection, 100)]


@asynccontextmanager
async def running(ask: AskMetering) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(ask.run(stop))
    yield
    stop.set()
    await asyncio.wait_for(task, 10)


async def test_the_default_book_asks_for_nothing(ask: AskMetering, metering: ServiceProcess) -> None:
    assert await ask()
    assert await asked(metering) == []


async def test_a_correction_asks_once_for_the_hours_it_changes(
    ask: AskMetering, database: Database, publish_book: PublishBook, metering: ServiceProcess
) -> None:
    await publish_book(document("2026-03-09T08:30:00.25Z", correction=True))
    assert await unasked(database) == ["price-book-2"]
    assert await ask()
    assert await unasked(database) == []
    assert await asked(metering) == [("price-book-2", "2026-03-09T08:00:00Z", None)]
    assert await ask()
    assert len(await asked(metering)) == 1


async def test_a_correction_ends_where_the_next_book_takes_over(
    ask: AskMetering, publish_book: PublishBook, metering: ServiceProcess
) -> None:
    await publish_book(document("2026-03-10T10:00:00Z", correction=True))
    await publish_book(document("2026-03-09T08:15:00Z", correction=True))
    await publish_book(document("2026-03-09T08:15:00Z", correction=True))
    await publish_book(document("2026-03-09T08:45:00Z", correction=True))
    assert await ask()
    assert await asked(metering) == [
        ("price-book-2", "2026-03-10T10:00:00Z", None),
        ("price-book-3", "2026-03-09T08:00:00Z", "2026-03-10T10:00:00Z"),
        ("price-book-4", "2026-03-09T08:00:00Z", "2026-03-10T10:00:00Z"),
        ("price-book-5", "2026-03-09T08:00:00Z", "2026-03-10T10:00:00Z"),
    ]


@pytest.mark.parametrize(
    ("effective_from", "is_asked"),
    [
        ("2026-03-10T12:00:00Z", True),
        ("2026-03-10T12:05:59.999999Z", True),
        ("2026-03-10T12:06:00Z", False),
        ("2026-03-11T12:00:00Z", False),
    ],
)
async def test_a_book_asks_where_reports_may_have_been_ahead_of_it(
    ask: AskMetering,
    publish_book: PublishBook,
    metering: ServiceProcess,
    effective_from: str,
    is_asked: bool,
) -> None:
    await publish_book(document(effective_from))
    assert await ask()
    expected = [("price-book-2", "2026-03-10T12:00:00Z", None)] if is_asked else []
    assert await asked(metering) == expected


async def test_a_correction_from_before_all_usage_is_taken(
    ask: AskMetering, publish_book: PublishBook, metering: ServiceProcess
) -> None:
    await publish_book(document("0001-01-01T00:00:00Z", correction=True))
    await publish_book(document("0001-01-01T00:00:00Z", correction=True))
    await publish_book(document("9999-12-31T23:30:00Z"))
    await publish_book(document("2026-03-10T11:00:00Z", correction=True))
    assert await ask()
    assert await asked(metering) == [
        ("price-book-2", "1970-01-01T00:00:00Z", "2025-12-31T16:00:00Z"),
        ("price-book-3", "1970-01-01T00:00:00Z", "2025-12-31T16:00:00Z"),
        ("price-book-5", "2026-03-10T11:00:00Z", None),
    ]


async def test_a_book_that_was_refused_asks_for_nothing(database: Database, api: httpx.AsyncClient) -> None:
    refused = await api.post("/v1/price-books", json=book_body(effective_from="2026-03-10T11:00:00Z"))
    assert refused.status_code == 422
    assert await unasked(database) == []


async def test_metering_that_is_away_is_asked_once_it_is_back(
    ask: AskMetering, database: Database, publish_book: PublishBook, metering: ServiceProcess
) -> None:
    await metering.end(signal.SIGTERM)
    await publish_book(document("2026-03-10T11:00:00Z", correction=True))
    with pytest.raises(Unavailable, match="metering does not answer"):
        await ask()
    async with running(ask):
        assert await unasked(database) == ["price-book-2"]
        metering.start()
        await metering.wait_ready()
        assert await wait_for(lambda: unasked(database), lambda seen: not seen) == []
    assert await asked(metering) == [("price-book-2", "2026-03-10T11:00:00Z", None)]


async def test_an_answer_that_was_lost_is_asked_for_again(
    ask: AskMetering,
    client: MeteringClient,
    database: Database,
    publish_book: PublishBook,
    metering: ServiceProcess,
) -> None:
    await publish_book(document("2026-03-10T11:00:00Z", correction=True))
    async with database.reading() as connection:
        (request,) = await republish_requests.unasked(connection, 100)
    await client.republish(request)  # and here the worker dies
    await asyncio.gather(*(ask() for _ in range(4)))
    assert await unasked(database) == []
    assert len(await asked(metering)) == 1


async def test_a_refused_request_stays_and_the_others_are_made(
    ask: AskMetering, database: Database, publish_book: PublishBook, metering: ServiceProcess
) -> None:
    async with httpx.AsyncClient(base_url=metering.url) as other:
        taken = {"reference": "price-book-2", "from": "2020-01-01T00:00:00Z"}
        assert (await other.post("/v1/republish", json=taken)).status_code == 201
    for hour in (10, 11):
        await publish_book(document(f"2026-03-10T{hour}:00:00Z", correction=True))
    assert not await ask()
    assert await unasked(database) == ["price-book-2"]
    assert [reference for reference, _, _ in await asked(metering)] == ["price-book-2", "price-book-3"]


def test_the_wait_for_metering_grows_to_its_limit(ask: AskMetering) -> None:
    waits = [0.02]
    for _ in range(12):
        waits.append(ask._longer(waits[-1]))
    assert waits[1] == 0.04
    assert waits[-1] == ask_metering.WAIT_SECONDS_MAX


async def test_the_service_itself_cannot_change_what_is_to_be_asked(database: Database) -> None:
    async def change() -> None:
        async with database.transaction() as connection:
            await connection.execute(text("UPDATE republish_request SET first_hour = now()"))

    with pytest.raises(DBAPIError, match="permission denied"):
        await change()
