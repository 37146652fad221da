"""price_book: append-only; a row is a document as published."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy import text
from sqlalchemy.engine import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from services.pricing.domain.document import BookDocument
from services.pricing.domain.published import PublishedBook

PUBLISH_LOCK_KEY: Final = 7_305_814_101

_HEAD = text(
    """
    SELECT coalesce((SELECT max(version) FROM price_book), 0) AS version,
           EXISTS (SELECT FROM unpriced_usage) AS any_unpriced
    """
)
_SINCE = text(
    """
    SELECT DISTINCT ON (effective_from) version, CAST(document AS text) AS document
    FROM price_book
    WHERE version > :version
    ORDER BY effective_from, version DESC
    """
)
_COLUMNS = "version, published_at, CAST(document AS text) AS document"
_AT = text(
    f"""
    SELECT {_COLUMNS} FROM price_book
    WHERE effective_from <= :at
    ORDER BY effective_from DESC, version DESC
    LIMIT 1
    """
)
_NEXT_EFFECTIVE_FROM = text(
    "SELECT min(effective_from) FROM price_book WHERE effective_from > :effective_from"
)
_PAGE = text(
    f"""
    SELECT {_COLUMNS} FROM price_book
    WHERE version < :before
    ORDER BY version DESC
    LIMIT :limit
    """
)
_INSERT = text(
    """
    INSERT INTO price_book (version, effective_from, published_at, document)
    SELECT coalesce(max(version), 0) + 1, :effective_from, :published_at, CAST(:document AS jsonb)
    FROM price_book
    RETURNING version
    """
)


class Head(NamedTuple):
    """The newest version (0: none yet), and whether any usage waits for a price."""

    version: int
    any_unpriced: bool


async def read_head(connection: AsyncConnection) -> Head:
    row = (await connection.execute(_HEAD)).one()
    return Head(row.version, row.any_unpriced)


async def documents_since(connection: AsyncConnection, version: int) -> Mapping[int, BookDocument]:
    """Books after `version`, by version; without those that a later one of the same instant shadows."""
    rows = await connection.execute(_SINCE, {"version": version})
    return {row.version: BookDocument.model_validate_json(row.document) for row in rows}


async def book_at(connection: AsyncConnection, at: datetime) -> PublishedBook | None:
    row = (await connection.execute(_AT, {"at": at})).one_or_none()
    return None if row is None else _published(row)


async def next_effective_from(connection: AsyncConnection, effective_from: datetime) -> datetime | None:
    """When the book that is in force from this instant on is followed by another; None if it is the last."""
    found: datetime | None = await connection.scalar(_NEXT_EFFECTIVE_FROM, {"effective_from": effective_from})
    return found


async def books_before(connection: AsyncConnection, version: int, limit: int) -> list[PublishedBook]:
    """The newest first."""
    rows = await connection.execute(_PAGE, {"before": version, "limit": limit})
    return [_published(row) for row in rows]


async def lock_publishing(connection: AsyncConnection) -> None:
    """One publication at a time, until the transaction ends: versions become visible in their order."""
    await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": PUBLISH_LOCK_KEY})


async def add_book(
    connection: AsyncConnection, document: BookDocument, published_at: datetime
) -> PublishedBook:
    """Under the lock of `lock_publishing`."""
    version = await connection.scalar(
        _INSERT,
        {
            "effective_from": document.effective_from,
            "published_at": published_at,
            "document": document.model_dump_json(exclude_none=True),
        },
    )
    return PublishedBook(int(version), published_at, document)


def _published(row: "Row[tuple[int, datetime, str]]") -> PublishedBook:
    return PublishedBook(row.version, row.published_at, BookDocument.model_validate_json(row.document))
