"""Have the price books at hand, compiled; read again only when one was published."""

from sqlalchemy.ext.asyncio import AsyncConnection

from services.pricing.domain.book import Book, build_book
from services.pricing.domain.rating import Pricer
from services.pricing.storage import price_books


class LoadPricer:
    """Shared by all who rate in this process. Books never change once published, so none is read twice."""

    def __init__(self) -> None:
        self._books: dict[int, Book] = {}
        self._pricer = Pricer({})

    async def __call__(self, connection: AsyncConnection, head: int) -> Pricer:
        """A pricer that knows at least the books up to version `head`."""
        if self._pricer.head < head:
            documents = await price_books.documents_since(connection, self._pricer.head)
            # What another caller read meanwhile is in self._books by now: the union knows at least as much.
            self._books = self._books | {version: build_book(it) for version, it in documents.items()}
            self._pricer = Pricer(self._books)
        return self._pricer
