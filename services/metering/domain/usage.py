"""The usage query: what to group by, and how a period is cut into hours and local hours, days or months."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from typing import Final, Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from shared.errors import Invalid
from shared.time import SECONDS_PER_HOUR, epoch_second, from_epoch

PERIOD_DAYS_MAX: Final = 400
PERIOD_END_SECOND_MAX: Final = epoch_second(datetime(2200, 1, 1, tzinfo=UTC))
GROUPS_MAX: Final = 8
GROUP_BY_DEFAULT: Final = "day,sku"
TIME_ZONE_DEFAULT: Final = "Asia/Shanghai"

TimeUnit = Literal["hour", "day", "month"]
Field = Literal["sku", "mode", "purchase", "resource"]

TIME_UNITS: Final[tuple[TimeUnit, ...]] = ("hour", "day", "month")
FIELDS: Final[tuple[Field, ...]] = ("sku", "mode", "purchase", "resource")
_LABEL: Final = re.compile(r"label:([^\x00-\x1f\x7f]{1,64})")
_GROUPS_KNOWN: Final = "hour, day, month, sku, mode, purchase, resource, label:<key>"


class ByTime(NamedTuple):
    unit: TimeUnit


class ByField(NamedTuple):
    field: Field


class ByLabel(NamedTuple):
    key: str


Group = ByTime | ByField | ByLabel


class Slice(NamedTuple):
    """Seconds [start, end) of one UTC hour that lie in one bucket, which is named by its first second."""

    hour: int
    bucket: int
    start: int
    end: int


class UsageQuery(NamedTuple):
    """Usage in [first_second, end_second), whole seconds since 1970, so that periods that adjoin tile."""

    account_id: str
    first_second: int
    end_second: int
    groups: tuple[Group, ...]
    zone: ZoneInfo


Position = tuple[str | int, ...]
"""Where a group stands in the order: its bucket, field, or (whether the label is absent, its value)."""


class GroupUsage(NamedTuple):
    """Seconds of use, and those seconds times the quantity in use, of one group."""

    position: Position
    seconds: int
    card_seconds: int


def position_types(groups: Sequence[Group]) -> list[type[str] | type[int]]:
    """The types of the values in a position."""
    types: list[type[str | int]] = []
    for group in groups:
        match group:
            case ByTime():
                types.append(int)
            case ByField():
                types.append(str)
            case ByLabel():
                types += [int, str]
    return types


def parse_groups(text: str) -> tuple[Group, ...]:
    """The groups of a comma list such as "day,sku,label:project". Raises Invalid with what is wrong."""
    groups = tuple(_group(name.strip()) for name in text.split(","))
    if len(groups) > GROUPS_MAX:
        raise Invalid(f"group_by takes at most {GROUPS_MAX} groups", field="group_by")
    if len(set(groups)) != len(groups):
        raise Invalid("group_by names a group twice", field="group_by")
    if sum(isinstance(group, ByTime) for group in groups) > 1:
        raise Invalid("group_by takes one of hour, day and month", field="group_by")
    return groups


def format_groups(groups: Sequence[Group]) -> str:
    return ",".join(_group_name(group) for group in groups)


def parse_zone(name: str) -> ZoneInfo:
    """An IANA time zone. Raises Invalid when there is no such zone."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid(
            f"time_zone {name[:64]!r} is not an IANA time zone such as Asia/Shanghai", field="time_zone"
        ) from None


def period_of(start: datetime | None, end: datetime | None, now: datetime, zone: ZoneInfo) -> tuple[int, int]:
    """[first, end) in whole seconds. Without an end: until now; without a start: from its local month's.

    Raises Invalid as checked_period does.
    """
    end_second = epoch_second(now if end is None else end)
    if start is not None:
        return checked_period(epoch_second(start), end_second)
    checked_period(end_second - 1, end_second)
    return checked_period(max(0, _bucket_around(end_second - 1, "month", zone)[0]), end_second)


def checked_period(first_second: int, end_second: int) -> tuple[int, int]:
    """Raises Invalid for an empty, reversed or overlong period and for years nobody was billed in."""
    if first_second < 0 or end_second > PERIOD_END_SECOND_MAX:
        raise Invalid("from and to lie in the years 1970 to 2199", field="from")
    if first_second >= end_second:
        raise Invalid("from must be at least a second before to", field="from")
    if end_second - first_second > PERIOD_DAYS_MAX * 24 * SECONDS_PER_HOUR:
        raise Invalid(f"a period is at most {PERIOD_DAYS_MAX} days", field="from")
    return first_second, end_second


def time_unit_of(groups: Sequence[Group]) -> TimeUnit | None:
    return next((group.unit for group in groups if isinstance(group, ByTime)), None)


def slice_period(query: UsageQuery) -> list[Slice]:
    """The period in slices that lie in one UTC hour and one bucket; without a time unit one bucket, 0.

    Local days of 23 or 25 hours hold the real seconds whose local time lies in them (R4), and zones
    whose offset is not whole hours cut UTC hours in two.
    """
    unit = time_unit_of(query.groups)
    if unit is None:
        return list(_hours_of(query.first_second, query.end_second, bucket=0))
    return list(chain.from_iterable(_bucket_slices(query, unit)))


def bucket_label(bucket: int, unit: TimeUnit, zone: ZoneInfo) -> str:
    """How people call a bucket: "2026-03-10T15:00:00+08:00", "2026-03-10" or "2026-03"."""
    local = from_epoch(bucket).astimezone(zone)
    match unit:
        case "hour":
            return local.isoformat()
        case "day":
            return local.date().isoformat()
        case "month":
            return local.date().isoformat()[: len("2026-03")]


def _bucket_slices(query: UsageQuery, unit: TimeUnit) -> Iterator[Iterator[Slice]]:
    second = query.first_second
    while second < query.end_second:
        bucket, bucket_end = _bucket_around(second, unit, query.zone)
        end = min(bucket_end, query.end_second)
        yield _hours_of(second, end, bucket)
        second = end


def _hours_of(second: int, end_second: int, bucket: int) -> Iterator[Slice]:
    while second < end_second:
        start = second % SECONDS_PER_HOUR
        hour = second - start
        end = min(end_second - hour, SECONDS_PER_HOUR)
        yield Slice(hour, bucket, start, end)
        second = hour + end


def _bucket_around(second: int, unit: TimeUnit, zone: ZoneInfo) -> tuple[int, int]:
    """The local hour, day or month that holds a second, as [first, end)."""
    local = from_epoch(second).astimezone(zone)
    if unit == "hour":
        first = second - (local.minute * 60 + local.second)
        return first, first + SECONDS_PER_HOUR
    day = local.date()
    if unit == "day":
        return _first_second_of(day, zone), _first_second_of(day + timedelta(days=1), zone)
    month = day.replace(day=1)
    next_month = (month + timedelta(days=31)).replace(day=1)
    return _first_second_of(month, zone), _first_second_of(next_month, zone)


def _first_second_of(day: date, zone: ZoneInfo) -> int:
    """Where midnight is skipped this is the second that follows it; where it comes twice, the first."""
    return epoch_second(datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC))


def _group(name: str) -> Group:
    for unit in TIME_UNITS:
        if name == unit:
            return ByTime(unit)
    for field in FIELDS:
        if name == field:
            return ByField(field)
    if label := _LABEL.fullmatch(name):
        return ByLabel(label[1])
    raise Invalid(f"group_by knows {_GROUPS_KNOWN}; not {name[:80]!r}", field="group_by")


def _group_name(group: Group) -> str:
    match group:
        case ByTime(name) | ByField(name):
            return name
        case ByLabel(key):
            return f"label:{key}"
