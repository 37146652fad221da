"""What planned usage would cost."""

import asyncio
from collections.abc import Sequence

from services.pricing.domain.quotes import Quote, QuoteItem, quote
from services.pricing.storage import price_books
from services.pricing.usecases.load_pricer import LoadPricer
from shared.database import Database


class QuoteUsage:
    def __init__(self, database: Database, load_pricer: LoadPricer) -> None:
        self._database = database
        self._load_pricer = load_pricer

    async def __call__(self, items: Sequence[QuoteItem]) -> Quote:
        """Raises QuoteRefused or NoPrice, naming the item."""
        async with self._database.reading() as connection:
            head = await price_books.read_head(connection)
            pricer = await self._load_pricer(connection, head.version)
        # A hundred different years take a quarter of a second: batches must not wait behind them.
        return await asyncio.to_thread(quote, pricer, items)
