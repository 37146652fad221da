"""Instants. The clock is an input; the wire speaks RFC 3339 with whole hours and seconds in UTC."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

SECONDS_PER_HOUR = 3600
YEAR_FIRST = 1900
YEAR_LAST = 9998
"""A clock that was never set says year 1, and the ends of the calendar are PostgreSQL's infinities."""

Clock = Callable[[], datetime]
"""Tells the present instant, aware, in UTC."""


def system_clock() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - the one place that reads the clock


def parse_instant(text: str) -> datetime:
    """An RFC 3339 date-time with any offset, as an aware instant in UTC.

    Digits past the microsecond are cut, never rounded: a second must not begin early (R2).
    Raises ValueError for anything else, among it a date-time without an offset.
    """
    if (
        len(text) < len("2026-01-01T00:00:00Z")
        or text[4] != "-"
        or text[7] != "-"
        or text[10] not in "Tt "
        or text[13] != ":"
        or text[16] != ":"
    ):
        raise ValueError("not an RFC 3339 date-time such as 2026-03-10T15:00:00Z")
    try:
        instant = datetime.fromisoformat(text[:-1] + "Z" if text[-1] == "z" else text)
    except ValueError:
        raise ValueError("not an RFC 3339 date-time such as 2026-03-10T15:00:00Z") from None
    if instant.tzinfo is None:
        raise ValueError("an RFC 3339 date-time needs an offset, such as Z or +08:00")
    if not YEAR_FIRST <= instant.year <= YEAR_LAST:
        raise ValueError(f"outside the years {YEAR_FIRST} to {YEAR_LAST}")
    return instant if instant.tzinfo is UTC else instant.astimezone(UTC)


def format_instant(instant: datetime) -> str:
    """RFC 3339 in UTC with `Z`, and a fraction only where there is one."""
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


@lru_cache(maxsize=65536)
def format_epoch(seconds: int) -> str:
    """Whole seconds since 1970 as RFC 3339; cached, since a batch repeats few hours."""
    return format_instant(from_epoch(seconds))


@lru_cache(maxsize=65536)
def parse_epoch(text: str) -> int:
    """The whole second (floor) of an RFC 3339 instant, since 1970."""
    return epoch_second(parse_instant(text))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def epoch_second(instant: datetime) -> int:
    """floor(instant) in seconds since 1970, exact before 1970 and in far years too."""
    return (instant - _EPOCH) // _SECOND


@lru_cache(maxsize=65536)
def from_epoch(seconds: int) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)


def hour_of(second: int) -> int:
    """The start of the UTC hour that holds a second, both since 1970."""
    return second - second % SECONDS_PER_HOUR
