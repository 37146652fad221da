"""Which usage has to be rated again because a book came after it was rated (R3, R5)."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from shared.contracts.usage import FUTURE_SECONDS_MAX
from shared.time import epoch_second, from_epoch, hour_of

RATED_AHEAD_MAX: Final = timedelta(seconds=FUTURE_SECONDS_MAX + 60)
"""How far after a book's publication a second may lie that was rated before it.

Reports reach FUTURE_SECONDS_MAX ahead; the minute is for clocks that differ and for the commit.
"""
EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""No usage is older, and PostgreSQL and Python do not agree on what lies far before."""


@dataclass(frozen=True, slots=True)
class RepublishRequest:
    """Metering is to tell the facts of [first_hour, until) again, without `until` of all that follows."""

    price_book: int
    first_hour: datetime
    until: datetime | None

    @property
    def reference(self) -> str:
        return f"price-book-{self.price_book}"


def changes_rated_seconds(effective_from: datetime, published_at: datetime) -> bool:
    return effective_from < published_at + RATED_AHEAD_MAX


def republish_request(
    price_book: int, effective_from: datetime, next_effective_from: datetime | None
) -> RepublishRequest:
    """The hours that the book holds for: until `next_effective_from`, where another one takes over."""
    first_hour = from_epoch(hour_of(epoch_second(max(effective_from, EARLIEST))))
    until = None if next_effective_from is None else max(next_effective_from, first_hour + timedelta(hours=1))
    return RepublishRequest(price_book, first_hour, until)
