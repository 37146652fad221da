from datetime import datetime
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from services.gateway.clients.sibling import Query, Sibling
from services.gateway.domain.answers import Answer
from services.gateway.domain.holds import QuotedLine
from shared.errors import Unavailable
from shared.money import parse_cny
from shared.time import format_instant


class TrialCredit(NamedTuple):
    amount_micro: int
    days: int


class PricingClient(Sibling):
    """What a second costs."""

    async def price_book(self, at: datetime | None) -> Answer:
        return await self.get("/v1/price-book", {"at": None if at is None else format_instant(at)})

    async def price_books(self, query: Query) -> Answer:
        return await self.get("/v1/price-books", query)

    async def publish(self, book: Any) -> Answer:
        return await self.post("/v1/price-books", book)

    async def quote(self, items: Any) -> Answer:
        return await self.post("/v1/quotes", {"items": items})

    async def unpriced(self, query: Query) -> Answer:
        return await self.get("/v1/unpriced", query)

    async def trial_credit(self, registered_at: datetime) -> TrialCredit:
        """As the book in force at that instant has it; as today's, if none was. Raises Unavailable."""
        answer = await self.price_book(registered_at)
        if answer.status == HTTPStatus.NOT_FOUND:
            answer = await self.price_book(None)
        if answer.status != HTTPStatus.OK:
            raise Unavailable(
                "the price book that holds the trial's terms cannot be read just now; try again"
            )
        trial = msgspec.json.decode(answer.body, type=_Book).trial_credit
        return TrialCredit(0, 0) if trial is None else TrialCredit(parse_cny(trial.amount), trial.days)


def quoted_lines(answer: Answer) -> list[QuotedLine]:
    """The lines of a quote's items."""
    quote = msgspec.json.decode(answer.body, type=_Quote)
    return [line for item in quote.items for line in item.lines]


class _Trial(msgspec.Struct):
    amount: str
    days: int


class _Book(msgspec.Struct):
    trial_credit: _Trial | None = None


class _QuotedItem(msgspec.Struct):
    lines: list[QuotedLine]


class _Quote(msgspec.Struct):
    items: list[_QuotedItem]
