"""The usage query: seconds per group, with conflicts resolved exactly as in the facts."""

from collections.abc import Iterator, Sequence
from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.metering.domain.usage import (
    ByField,
    ByLabel,
    ByTime,
    Group,
    GroupUsage,
    Position,
    Slice,
    UsageQuery,
)
from shared.time import from_epoch, hour_of

# `owned` is domain/resolution.py in SQL: a row keeps what no row of greater precedence covers, the later
# `since` first, of equal ones the smaller canonical JSON. States are parsed once for each that is left
# after summing, not once per row.
_USAGE: Final = """
    WITH slice AS (
        SELECT to_timestamp(hour) AS hour, bucket, int4range(first_second, end_second) AS seconds
        FROM unnest(CAST(:slice_hours AS bigint[]), CAST(:slice_buckets AS bigint[]),
                    CAST(:slice_starts AS int[]), CAST(:slice_ends AS int[]))
          AS cut (hour, bucket, first_second, end_second)
    ), owned AS (
        SELECT resource_id, hour, state, coverage - coalesce(range_agg(coverage) OVER (
                   PARTITION BY resource_id, hour ORDER BY since DESC, state
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), '{{}}') AS seconds
        FROM usage_window
        WHERE account_id = :account_id AND hour >= :first_hour AND hour < :end
    ), summed AS MATERIALIZED (
        SELECT bucket, {resource} AS resource_id, state, sum(piece.seconds) AS seconds
        FROM owned JOIN slice USING (hour)
        CROSS JOIN LATERAL (
            SELECT sum(upper(run) - lower(run)) AS seconds
            FROM unnest(owned.seconds * int4multirange(slice.seconds)) AS run
        ) AS piece
        WHERE piece.seconds > 0
        GROUP BY 1, 2, 3
    ), grouped AS (
        SELECT {columns}, CAST(sum(seconds) AS bigint) AS seconds,
               CAST(sum(seconds * CAST(fields ->> 'quantity' AS bigint)) AS bigint) AS card_seconds
        FROM summed CROSS JOIN LATERAL CAST(state AS jsonb) AS fields
        GROUP BY {names}
    )
    SELECT {names}, seconds, card_seconds FROM grouped {after} ORDER BY {names} LIMIT :groups_max
"""


async def read_usage(
    connection: AsyncConnection,
    query: UsageQuery,
    slices: Sequence[Slice],
    after: Position | None,
    groups_max: int,
) -> list[GroupUsage]:
    """The first groups behind `after` that have any seconds, in the order of their columns."""
    columns = [column for number, group in enumerate(query.groups) for column in _columns(group, number)]
    names = ", ".join(f"column_{number}" for number in range(len(columns)))
    behind = ", ".join(f":after_{number}" for number in range(len(columns)))
    statement = _USAGE.format(
        resource="resource_id" if ByField("resource") in query.groups else "CAST(NULL AS text)",
        columns=", ".join(f"{column} AS column_{number}" for number, column in enumerate(columns)),
        names=names,
        after=f"WHERE ({names}) > ({behind})" if after is not None else "",
    )
    rows = await connection.execute(
        text(statement),
        {
            "account_id": query.account_id,
            "first_hour": from_epoch(hour_of(query.first_second)),
            "end": from_epoch(query.end_second),
            "slice_hours": [cut.hour for cut in slices],
            "slice_buckets": [cut.bucket for cut in slices],
            "slice_starts": [cut.start for cut in slices],
            "slice_ends": [cut.end for cut in slices],
            "groups_max": groups_max,
            **{f"label_{number}": group.key for number, group in _labels(query.groups)},
            **{f"after_{number}": value for number, value in enumerate(after or ())},
        },
    )
    return [GroupUsage(tuple(row[:-2]), row[-2], row[-1]) for row in rows.all()]


def _columns(group: Group, number: int) -> list[str]:
    """What a group is ordered and told apart by; an absent label comes after every value."""
    match group:
        case ByTime():
            return ["bucket"]
        case ByField("resource"):
            return ["resource_id"]
        case ByField(field):
            return [f"(fields ->> '{field}') COLLATE \"C\""]
        case ByLabel():
            label = f"(fields -> 'labels' ->> CAST(:label_{number} AS text))"
            return [f"CAST({label} IS NULL AS int)", f"coalesce({label}, '') COLLATE \"C\""]


def _labels(groups: Sequence[Group]) -> Iterator[tuple[int, ByLabel]]:
    for number, group in enumerate(groups):
        if isinstance(group, ByLabel):
            yield number, group
