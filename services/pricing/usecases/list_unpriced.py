"""Usage that waits for a price, for those who can give it one."""

from collections.abc import Sequence

from services.pricing.domain.unpriced import UnpricedSeconds
from services.pricing.storage import unpriced
from shared.database import Database
from shared.errors import Invalid
from shared.pages import decode_cursor, encode_cursor
from shared.time import epoch_second, from_epoch


class ListUnpriced:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(
        self, sku: str | None, limit: int, cursor: str | None
    ) -> tuple[Sequence[UnpricedSeconds], str | None]:
        """A page and the cursor of the next, None on the last. Raises Invalid for a foreign cursor."""
        after, after_sku = _position(cursor) if cursor else (unpriced.BEFORE_ALL, "")
        async with self._database.reading() as connection:
            found = await unpriced.page(connection, sku, after, after_sku, limit + 1)
        page = found[:limit]
        if len(found) == len(page):
            return page, None
        last = page[-1]
        return page, encode_cursor(last.account_id, last.resource_id, epoch_second(last.hour), last.sku)


def _position(cursor: str) -> tuple[unpriced.Key, str]:
    account_id, resource_id, hour, sku = decode_cursor(cursor, str, str, int, str)
    try:
        return (str(account_id), str(resource_id), from_epoch(int(hour))), str(sku)
    except OverflowError:
        raise Invalid("the cursor is not one that this list gave out", field="cursor") from None
