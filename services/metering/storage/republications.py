"""republish: what was asked to be told again; and the walk over usage_window's keys."""

from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import text
from sqlalchemy.engine import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from services.metering.domain.folding import HourKey
from services.metering.domain.republishing import HourSpan, Republication
from shared.time import epoch_second

WALK_LOCK_KEY: Final = 7_305_814_201

_COLUMNS: Final = (
    "reference, first_hour, until_hour, requested_at, told_account_id, told_resource_id, told_hour,"
    " hours_told, finished_at"
)
_ADD: Final = text(
    """
    INSERT INTO republish (reference, first_hour, until_hour, requested_at)
    VALUES (:reference, :first_hour, :until_hour, :requested_at)
    ON CONFLICT (reference) DO NOTHING
    """
)
_FIND: Final = text(f"SELECT {_COLUMNS} FROM republish WHERE reference = :reference")
_OLDEST: Final = text(
    f"""
    SELECT {_COLUMNS} FROM republish
    WHERE finished_at IS NULL
    ORDER BY requested_at, reference
    LIMIT 1
    """
)
_PAGE: Final = text(
    f"""
    SELECT {_COLUMNS} FROM republish
    WHERE (requested_at, reference) < (CAST(:requested_at AS timestamptz), CAST(:reference AS text))
    ORDER BY requested_at DESC, reference DESC
    LIMIT :limit
    """
)
_NEWEST: Final = text(
    f"SELECT {_COLUMNS} FROM republish ORDER BY requested_at DESC, reference DESC LIMIT :limit"
)
_COUNT_UNFINISHED: Final = text("SELECT count(*) FROM republish WHERE finished_at IS NULL")
_STORE: Final = text(
    """
    UPDATE republish
    SET told_account_id = coalesce(:account_id, told_account_id),
        told_resource_id = coalesce(:resource_id, told_resource_id),
        told_hour = coalesce(to_timestamp(CAST(:hour AS bigint)), told_hour),
        hours_told = hours_told + :hours,
        finished_at = :finished_at
    WHERE reference = :reference
    """
)

# From each key to the next one by the primary key alone: the next hour of the same resource that is
# wanted, else the first hour of the next resource, wanted or not.
_WALK: Final = text(
    """
    WITH RECURSIVE walk (account_id, resource_id, hour, step) AS (
        SELECT CAST(:account_id AS text) COLLATE "C", CAST(:resource_id AS text) COLLATE "C",
               to_timestamp(CAST(:hour AS bigint)), 0
        UNION ALL
        SELECT next.account_id, next.resource_id, next.hour, walk.step + 1
        FROM walk CROSS JOIN LATERAL (
            SELECT * FROM (
                SELECT account_id, resource_id, hour FROM usage_window
                WHERE account_id = walk.account_id AND resource_id = walk.resource_id
                  AND hour > walk.hour AND hour >= :first_hour
                  AND hour < coalesce(CAST(:until_hour AS timestamptz), 'infinity')
                ORDER BY account_id, resource_id, hour
                LIMIT 1
            ) AS same_resource
            UNION ALL
            SELECT * FROM (
                SELECT account_id, resource_id, hour FROM usage_window
                WHERE (account_id, resource_id) > (walk.account_id, walk.resource_id)
                ORDER BY account_id, resource_id, hour
                LIMIT 1
            ) AS next_resource
            ORDER BY account_id, resource_id, hour
            LIMIT 1
        ) AS next
        WHERE walk.step < :steps
    )
    SELECT account_id, resource_id, CAST(extract(epoch FROM hour) AS bigint) AS hour,
           hour >= :first_hour AND hour < coalesce(CAST(:until_hour AS timestamptz), 'infinity') AS is_wanted
    FROM walk WHERE step > 0 ORDER BY step
    """
)
_BEFORE_ALL: Final[HourKey] = ("", "", 0)


class Stretch(NamedTuple):
    """A piece of the walk: resource-hours to tell, the last key it came to, whether any may follow.

    `last` is None where there was no key left at all.
    """

    keys: list[HourKey]
    last: HourKey | None
    is_end: bool


async def add(connection: AsyncConnection, reference: str, hours: HourSpan, requested_at: datetime) -> bool:
    """Whether the reference is new; what it named before is left as it is."""
    added = await connection.execute(
        _ADD,
        {
            "reference": reference,
            "first_hour": hours.first_hour,
            "until_hour": hours.until_hour,
            "requested_at": requested_at,
        },
    )
    return added.rowcount == 1


async def find(connection: AsyncConnection, reference: str) -> Republication:
    return _republication((await connection.execute(_FIND, {"reference": reference})).one())


async def page_before(
    connection: AsyncConnection, before: tuple[datetime, str] | None, limit: int
) -> list[Republication]:
    """The newest first."""
    if before is None:
        rows = await connection.execute(_NEWEST, {"limit": limit})
    else:
        requested_at, reference = before
        rows = await connection.execute(
            _PAGE, {"requested_at": requested_at, "reference": reference, "limit": limit}
        )
    return [_republication(row) for row in rows]


async def try_lock_walk(connection: AsyncConnection) -> bool:
    """One walk at a time, until the transaction ends: it is background work, two would only be in the way."""
    found = await connection.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": WALK_LOCK_KEY})
    return bool(found)


async def oldest_unfinished(connection: AsyncConnection) -> Republication | None:
    row = (await connection.execute(_OLDEST)).one_or_none()
    return None if row is None else _republication(row)


async def count_unfinished(connection: AsyncConnection) -> int:
    return int(await connection.scalar(_COUNT_UNFINISHED) or 0)


async def next_keys(
    connection: AsyncConnection, hours: HourSpan, after: HourKey | None, steps: int
) -> Stretch:
    """The next resource-hours within `hours`, in the order of the key, after at most `steps` steps.

    Each step is two descents of the primary key (20 to 30 us measured), to a wanted hour or to a
    resource, so the cost is that of the hours told and of the resources there ever were; hours out of the
    span are never read. Neither an index on `hour`, which each insert of the hot path would pay for,
    nor a scan of all the months that are kept.
    """
    account_id, resource_id, hour = after or _BEFORE_ALL
    rows = (
        await connection.execute(
            _WALK,
            {
                "account_id": account_id,
                "resource_id": resource_id,
                "hour": hour,
                "first_hour": hours.first_hour,
                "until_hour": hours.until_hour,
                "steps": steps,
            },
        )
    ).all()
    visited = [(row.account_id, row.resource_id, row.hour) for row in rows]
    keys = [key for key, row in zip(visited, rows, strict=True) if row.is_wanted]
    return Stretch(keys, visited[-1] if visited else None, is_end=len(rows) < steps)


async def store_progress(
    connection: AsyncConnection, reference: str, stretch: Stretch, finished_at: datetime | None
) -> None:
    """All of the stretch has been told, and with `finished_at` everything."""
    account_id, resource_id, hour = stretch.last or (None, None, None)
    await connection.execute(
        _STORE,
        {
            "reference": reference,
            "account_id": account_id,
            "resource_id": resource_id,
            "hour": hour,
            "hours": len(stretch.keys),
            "finished_at": finished_at,
        },
    )


def _republication(
    row: "Row[Any]",
) -> Republication:
    told = row.told_hour is not None
    return Republication(
        reference=row.reference,
        hours=HourSpan(row.first_hour, row.until_hour),
        requested_at=row.requested_at,
        position=(row.told_account_id, row.told_resource_id, epoch_second(row.told_hour)) if told else None,
        hours_told=row.hours_told,
        finished_at=row.finished_at,
    )
