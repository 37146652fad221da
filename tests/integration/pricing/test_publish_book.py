"""Publishing: numbered one by one, on record for ever, in force at its instant."""

import asyncio
from functools import partial
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from services.pricing.domain.book import BookRefused
from services.pricing.domain.document import BookDocument
from services.pricing.storage import price_books
from services.pricing.usecases.publish_book import PublishBook
from shared.database import Database
from shared.time import parse_instant
from tests.support.books import DEFAULT_BOOK, book_body, repriced, sku_body
from tests.support.clients import wait_for
from tests.support.clocks import SettableClock

TOMORROW = "2026-03-11T12:00:00Z"

WAITING_FOR_LOCK = text(
    """
    SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
    WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()
    """
)


def document(**changes: Any) -> BookDocument:
    return BookDocument.model_validate(book_body(**{"effective_from": TOMORROW, **changes}))


async def test_a_new_database_holds_the_default_book_as_version_1(api: httpx.AsyncClient) -> None:
    book = (await api.get("/v1/price-book")).json()
    assert book.pop("version") == 1
    assert book.pop("published_at").endswith("Z")
    assert book == DEFAULT_BOOK | {"effective_from": "2025-12-31T16:00:00Z"}


async def test_a_book_is_published_and_in_force_from_its_instant(api: httpx.AsyncClient) -> None:
    body = repriced({"rtx-4090": "1.80"}, effective_from="2026-03-11T20:00:00+08:00")
    answer = await api.post("/v1/price-books", json=body)
    assert answer.status_code == 201
    book = answer.json()
    assert book["version"] == 2
    assert book["published_at"] == "2026-03-10T12:00:00Z"
    assert book["effective_from"] == TOMORROW

    async def version(at: str) -> int:
        found: int = (await api.get("/v1/price-book", params={"at": at})).json()["version"]
        return found

    assert await version("2026-03-11T11:59:59.999999Z") == 1
    assert await version("2026-03-11T19:59:59.999999+08:00") == 1
    assert await version("2026-03-11T20:00:00+08:00") == 2
    assert (await api.get("/v1/price-book")).json()["version"] == 1
    before = await api.get("/v1/price-book", params={"at": "2025-12-31T15:59:59Z"})
    assert (before.status_code, before.json()["code"]) == (404, "not_found")


async def test_a_book_that_was_read_can_be_edited_and_published(api: httpx.AsyncClient) -> None:
    book = (await api.get("/v1/price-book")).json()
    answer = await api.post("/v1/price-books", json={**book, "effective_from": TOMORROW})
    assert (answer.status_code, answer.json()["version"]) == (201, 2)


async def test_the_same_document_twice_is_two_versions_and_the_later_is_in_force(
    api: httpx.AsyncClient,
) -> None:
    for price, version in (("1.80", 2), ("1.90", 3), ("1.80", 4)):
        body = repriced({"rtx-4090": price}, effective_from=TOMORROW)
        assert (await api.post("/v1/price-books", json=body)).json()["version"] == version
    assert (await api.get("/v1/price-book", params={"at": TOMORROW})).json()["version"] == 4


async def test_versions_are_listed_the_newest_first(api: httpx.AsyncClient) -> None:
    for _ in range(4):
        await api.post("/v1/price-books", json=book_body(effective_from=TOMORROW))
    seen: list[int] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await api.get("/v1/price-books", params={"limit": "2", **cursor})).json()
        seen += [book["version"] for book in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert seen == [5, 4, 3, 2, 1]
    assert (await api.get("/v1/price-books", params={"cursor": "nonsense"})).status_code == 422
    assert (await api.get("/v1/price-books", params={"limit": "501"})).status_code == 422


async def test_books_published_at_once_are_numbered_without_gap_or_repetition(
    publish_book: PublishBook,
) -> None:
    published = await asyncio.gather(*(publish_book(document()) for _ in range(20)))
    assert sorted(book.version for book in published) == list(range(2, 22))


async def test_a_book_whose_instant_passes_while_it_waits_is_refused(
    database: Database, publish_book: PublishBook, clock: SettableClock
) -> None:
    async with database.transaction() as connection:
        await price_books.lock_publishing(connection)
        waiting = asyncio.create_task(publish_book(document()))
        assert await wait_for(partial(connection.scalar, WAITING_FOR_LOCK), lambda waits: waits == 1) == 1
        clock.now = parse_instant("2026-03-11T12:00:01Z")
    with pytest.raises(BookRefused, match="effective_from"):
        await waiting


async def test_the_past_is_changed_by_a_correction_only(api: httpx.AsyncClient) -> None:
    past = "2026-03-10T11:59:59Z"
    refused = await api.post("/v1/price-books", json=book_body(effective_from=past))
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_price_book")
    assert refused.json()["detail"].startswith("effective_from: ")
    body = book_body(effective_from=past, correction=True)
    assert (await api.post("/v1/price-books", json=body)).status_code == 201
    assert (await api.get("/v1/price-book")).json()["correction"] is True


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"skus": [sku_body("x", price="1e3")]}, "price"),
        ({"skus": [sku_body("x", price="0.0000001")]}, "price"),
        ({"skus": [sku_body("x"), sku_body("x")], "rules": []}, "skus[1].sku"),
        ({"skus": [sku_body("x", price=None)], "rules": []}, "skus[0].price"),
        (
            {"skus": [sku_body("x", price=None, price_of={"sku": "x", "ratio": "1"})], "rules": []},
            "skus[0].price_of",
        ),
        ({"rules": [{"rule": "r", "factor": "0", "when": {}}]}, "factor"),
        ({"rules": [{"rule": "r", "factor": "1", "when": {"skus": ["y"]}}]}, "rules[0].when.skus[0]"),
        ({"rules": [{"rule": "r", "factor": "1", "when": {"kinds": ["cpu"]}}]}, "kinds"),
        ({"time_zone": "Asia/Nowhere"}, "time_zone"),
        ({"effective_from": "2026-03-11T12:00:00"}, "effective_from"),
        ({"currency": "USD"}, "currency"),
    ],
)
async def test_a_faulty_book_is_refused_whole_and_its_fault_named(
    api: httpx.AsyncClient, changes: dict[str, Any], path: str
) -> None:
    answer = await api.post("/v1/price-books", json=book_body(**{"effective_from": TOMORROW, **changes}))
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert path in answer.json()["detail"]
    assert (await api.get("/v1/price-books")).json()["items"][0]["version"] == 1


@pytest.mark.parametrize(
    "statement",
    ["UPDATE price_book SET document = '{}'", "DELETE FROM price_book", "TRUNCATE price_book"],
)
async def test_a_published_book_cannot_be_changed(
    owner: Database, database: Database, statement: str
) -> None:
    with pytest.raises(DBAPIError, match="permission denied"):
        async with database.transaction() as connection:
            await connection.execute(text(statement))
    with pytest.raises(DBAPIError, match="append-only"):
        async with owner.transaction() as connection:
            await connection.execute(text(statement))
