"""Usage that waits for a price, for those who can give it one."""

from collections.abc import Sequence

from services.pricing.domain.unpriced import UnpricedUsage
from services.pricing.storage import unpriced
from shared.database import Database
from shared.errors import Invalid
from shared.pages import decode_cursor, encode_cursor
from shared.time import from_epoch, parse_epoch


class ListUnpriced:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(
        self, sku: str | None, limit: int, cursor: str | None
    ) -> tuple[Sequence[UnpricedUsage], str | None]:
        """A page and the cursor of the next, None on the last. Raises Invalid for a foreign cursor."""
        after = _position(cursor) if cursor else unpriced.BEFORE_ALL
        async with self._database.reading() as connection:
            found = await unpriced.page(connection, sku, after, limit + 1)
        page = found[:limit]
        if len(found) == len(page):
            return page, None
        last = page[-1].fact
        return page, encode_cursor(last.account_id, last.resource_id, parse_epoch(last.hour))


def _position(cursor: str) -> unpriced.Key:
    account_id, resource_id, hour = decode_cursor(cursor, str, str, int)
    try:
        return str(account_id), str(resource_id), from_epoch(int(hour))
    except OverflowError:
        raise Invalid("the cursor is not one that this list gave out", field="cursor") from None
