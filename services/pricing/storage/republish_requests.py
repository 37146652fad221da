"""republish_request: what metering is to tell again, and whether it knows."""

from datetime import datetime
from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.pricing.domain.republishing import RepublishRequest

_ADD: Final = text(
    """
    INSERT INTO republish_request (price_book, first_hour, until)
    VALUES (:price_book, :first_hour, :until)
    """
)
_UNASKED: Final = text(
    """
    SELECT price_book, first_hour, until FROM republish_request
    WHERE asked_at IS NULL
    ORDER BY price_book
    LIMIT :limit
    """
)
_MARK_ASKED: Final = text(
    "UPDATE republish_request SET asked_at = :asked_at WHERE price_book = :price_book AND asked_at IS NULL"
)


async def add(connection: AsyncConnection, request: RepublishRequest) -> None:
    await connection.execute(
        _ADD,
        {
            "price_book": request.price_book,
            "first_hour": request.first_hour,
            "until": request.until,
        },
    )


async def unasked(connection: AsyncConnection, limit: int) -> list[RepublishRequest]:
    """The oldest first."""
    rows = await connection.execute(_UNASKED, {"limit": limit})
    return [RepublishRequest(row.price_book, row.first_hour, row.until) for row in rows]


async def mark_asked(connection: AsyncConnection, price_book: int, asked_at: datetime) -> None:
    await connection.execute(_MARK_ASKED, {"price_book": price_book, "asked_at": asked_at})
