"""The price book in force at an instant."""

from datetime import datetime

from services.pricing.domain.published import PublishedBook
from services.pricing.storage import price_books
from shared.database import Database
from shared.errors import NotFound
from shared.time import Clock, format_instant


class FindBook:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def __call__(self, at: datetime | None) -> PublishedBook:
        """Now, where `at` is None. Raises NotFound before the first book."""
        instant = at or self._clock()
        async with self._database.reading() as connection:
            book = await price_books.book_at(connection, instant)
        if book is None:
            raise NotFound(f"no price book was in force at {format_instant(instant)}")
        return book
