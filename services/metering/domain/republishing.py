"""A request to tell the facts of a period again, and how far it has come."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from services.metering.domain.folding import HourKey
from shared.errors import Invalid
from shared.time import SECONDS_PER_HOUR, epoch_second, from_epoch, hour_of

FIRST_HOUR: Final = 0
LAST_HOUR: Final = epoch_second(datetime(9999, 12, 31, 23, tzinfo=UTC))
"""No usage lies outside of these, and PostgreSQL and Python do not agree on what lies far outside."""


@dataclass(frozen=True, slots=True)
class HourSpan:
    """Hours in [first_hour, until_hour), both whole; without `until_hour` up to the newest there is."""

    first_hour: datetime
    until_hour: datetime | None


@dataclass(frozen=True, slots=True)
class Republication:
    """`position` is the last resource-hour dealt with; those after it, in the key's order, are to come."""

    reference: str
    hours: HourSpan
    requested_at: datetime
    position: HourKey | None
    hours_told: int
    finished_at: datetime | None


def whole_hours(start: datetime, end: datetime | None) -> HourSpan:
    """The hours that [start, end) touches. Raises Invalid when there are none."""
    if end is not None and end <= start:
        raise Invalid("from must be before to", field="from")
    first_hour = max(FIRST_HOUR, hour_of(epoch_second(start)))
    if end is None:
        return HourSpan(from_epoch(first_hour), None)
    end_hour = hour_of(epoch_second(end))
    if from_epoch(end_hour) < end:
        end_hour += SECONDS_PER_HOUR
    until_hour = max(end_hour, first_hour + SECONDS_PER_HOUR)
    return HourSpan(from_epoch(first_hour), from_epoch(until_hour) if until_hour <= LAST_HOUR else None)
