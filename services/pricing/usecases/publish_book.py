"""Publish a price book: checked whole, numbered, on record for ever."""

import logging

from sqlalchemy.ext.asyncio import AsyncConnection

from services.pricing.domain.book import build_book, refuse_rewriting_the_past
from services.pricing.domain.document import BookDocument
from services.pricing.domain.published import PublishedBook
from services.pricing.domain.republishing import changes_rated_seconds, republish_request
from services.pricing.storage import price_books, republish_requests
from shared.database import Database
from shared.time import Clock, format_instant

log = logging.getLogger(__name__)


class PublishBook:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def __call__(self, document: BookDocument) -> PublishedBook:
        """Raises BookRefused with every problem found.

        The same document twice makes two versions; whether a request is a repetition is known to the
        gateway (Idempotency-Key).
        """
        book = build_book(document)
        async with self._database.transaction() as connection:
            await price_books.lock_publishing(connection)
            # Read under the lock: what was still to come when the request arrived may have passed (R5).
            now = self._clock()
            refuse_rewriting_the_past(book, now)
            published = await price_books.add_book(connection, document, now)
            await self._remember_to_ask(connection, published)
        log.info(
            "price book %d published, in force from %s%s",
            published.version,
            format_instant(document.effective_from),
            " as a correction" if document.correction else "",
        )
        return published

    async def _remember_to_ask(self, connection: AsyncConnection, published: PublishedBook) -> None:
        """Where seconds of the book may have been rated already, metering tells them again (R3, R5)."""
        effective_from = published.document.effective_from
        if changes_rated_seconds(effective_from, published.published_at):
            following = await price_books.next_effective_from(connection, effective_from)
            request = republish_request(published.version, effective_from, following)
            await republish_requests.add(connection, request)
