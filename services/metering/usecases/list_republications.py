"""What was asked to be told again, the newest first, and how far it has come."""

from collections.abc import Sequence
from datetime import datetime

from services.metering.domain.republishing import Republication
from services.metering.storage import republications
from shared.database import Database
from shared.errors import Invalid
from shared.pages import decode_cursor, encode_cursor
from shared.time import format_instant, parse_instant


async def list_republications(
    database: Database, limit: int, cursor: str | None
) -> tuple[Sequence[Republication], str | None]:
    """A page and the cursor of the next, None on the last. Raises Invalid for a foreign cursor."""
    before = None if cursor is None else _position(cursor)
    async with database.reading() as connection:
        found = await republications.page_before(connection, before, limit + 1)
    page = found[:limit]
    if len(found) == len(page):
        return page, None
    return page, encode_cursor(format_instant(page[-1].requested_at), page[-1].reference)


def _position(cursor: str) -> tuple[datetime, str]:
    requested_at, reference = decode_cursor(cursor, str, str)
    try:
        return parse_instant(str(requested_at)), str(reference)
    except ValueError:
        raise Invalid("the cursor is not one that this list gave out", field="cursor") from None
