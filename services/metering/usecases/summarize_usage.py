"""How much of what an account used in a period."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from services.metering.domain.usage import (
    Group,
    GroupUsage,
    Position,
    UsageQuery,
    checked_period,
    format_groups,
    parse_groups,
    parse_zone,
    period_of,
    position_types,
    slice_period,
)
from services.metering.storage.usage import read_usage
from shared.database import Database
from shared.errors import Invalid
from shared.pages import decode_cursor, encode_cursor


class UsagePage(NamedTuple):
    query: UsageQuery
    groups: list[GroupUsage]
    next_cursor: str | None


async def summarize_usage(
    database: Database,
    *,
    account_id: str,
    start: datetime | None,
    end: datetime | None,
    group_by: str,
    time_zone: str,
    limit: int,
    cursor: str | None,
    now: datetime,
) -> UsagePage:
    """One page of the account's usage, none for an account that has none. Raises Invalid.

    A cursor carries the period of the first page: without `end` that was until then, not until now.
    """
    groups = parse_groups(group_by)
    zone = parse_zone(time_zone)
    if cursor is None:
        first_second, end_second = period_of(start, end, now, zone)
        after = None
    else:
        first_second, end_second, after = _continue(cursor, groups, zone)
    query = UsageQuery(account_id, first_second, end_second, groups, zone)
    async with database.reading() as connection:
        found = await read_usage(connection, query, slice_period(query), after, limit + 1)
    page = found[:limit]
    more = len(found) > limit
    return UsagePage(query, page, _cursor(query, page[-1].position) if more else None)


def _cursor(query: UsageQuery, position: Position) -> str:
    name = _list_name(query.groups, query.zone)
    return encode_cursor(name, query.first_second, query.end_second, *position)


def _continue(cursor: str, groups: Sequence[Group], zone: ZoneInfo) -> tuple[int, int, Position]:
    name, first_second, end_second, *position = decode_cursor(cursor, str, int, int, *position_types(groups))
    if name != _list_name(groups, zone):
        raise Invalid("the cursor belongs to another group_by or time_zone", field="cursor")
    return *checked_period(int(first_second), int(end_second)), tuple(position)


def _list_name(groups: Sequence[Group], zone: ZoneInfo) -> str:
    return f"{format_groups(groups)} {zone.key}"
