"""All price books, the newest first."""

from collections.abc import Sequence
from typing import Final

from services.pricing.domain.published import PublishedBook
from services.pricing.storage import price_books
from shared.database import Database
from shared.pages import decode_cursor, encode_cursor

_AFTER_ALL: Final = 2**62


class ListBooks:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, limit: int, cursor: str | None) -> tuple[Sequence[PublishedBook], str | None]:
        """A page and the cursor of the next, None on the last. Raises Invalid for a foreign cursor."""
        before = int(decode_cursor(cursor, int)[0]) if cursor else _AFTER_ALL
        async with self._database.reading() as connection:
            found = await price_books.books_before(connection, min(before, _AFTER_ALL), limit + 1)
        page = found[:limit]
        return page, encode_cursor(page[-1].version) if len(found) > limit else None
