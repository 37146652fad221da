"""Adding covered seconds, and reading resource-hours back."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.metering.domain.coverage import format_multirange
from services.metering.domain.facts import StoredWindow
from services.metering.domain.folding import HourKey, Window
from shared.time import from_epoch

ROWS_PER_STATEMENT_MAX: Final = 10_000
"""Bounds the memory of a statement: a batch of day-long reports folds to 25 windows for each."""

# Ordered by the key, so that two writers that meet wait for each other and never deadlock. Coverage that
# is contained already leaves the row untouched: a repeat costs no write and no revision.
_ADD: Final = text(
    """
    INSERT INTO usage_window AS stored
        (account_id, resource_id, hour, since, state_hash, state, coverage, revision)
    SELECT account_id, resource_id, hour, since, CAST(digest AS uuid), state, CAST(coverage AS int4multirange), 1
    FROM unnest(CAST(:account_ids AS text[]), CAST(:resource_ids AS text[]), CAST(:hours AS timestamptz[]),
                CAST(:sinces AS timestamptz[]), CAST(:digests AS text[]), CAST(:states AS text[]),
                CAST(:coverages AS text[]))
      AS added (account_id, resource_id, hour, since, digest, state, coverage)
    ORDER BY account_id COLLATE "C", resource_id COLLATE "C", hour, since, digest COLLATE "C"
    ON CONFLICT (account_id, resource_id, hour, since, state_hash) DO UPDATE
        SET coverage = stored.coverage + excluded.coverage, revision = stored.revision + 1
        WHERE NOT stored.coverage @> excluded.coverage
    """
)

_READ: Final = text(
    """
    SELECT wanted.position, stored.since, stored.state, CAST(stored.coverage AS text), stored.revision
    FROM unnest(CAST(:account_ids AS text[]), CAST(:resource_ids AS text[]), CAST(:hours AS timestamptz[]))
         WITH ORDINALITY AS wanted (account_id, resource_id, hour, position)
    JOIN usage_window AS stored
      ON stored.account_id = wanted.account_id AND stored.resource_id = wanted.resource_id
     AND stored.hour = wanted.hour
    """
)


async def add_coverage(connection: AsyncConnection, windows: Sequence[Window]) -> int:
    """Adds the windows' seconds to their rows; returns how many rows that changed.

    Each key may be among the windows once (fold_reports sees to that).
    """
    if len(windows) <= ROWS_PER_STATEMENT_MAX:
        return await _add(connection, windows)
    ordered = sorted(windows, key=_key_order)
    return sum(
        [
            await _add(connection, ordered[first : first + ROWS_PER_STATEMENT_MAX])
            for first in range(0, len(ordered), ROWS_PER_STATEMENT_MAX)
        ]
    )


async def read_hours(connection: AsyncConnection, keys: Sequence[HourKey]) -> list[list[StoredWindow]]:
    """All rows of each resource-hour, in the order of `keys`; each hour's rows are from one snapshot."""
    stored: list[list[StoredWindow]] = [[] for _ in keys]
    for first in range(0, len(keys), ROWS_PER_STATEMENT_MAX):
        wanted = keys[first : first + ROWS_PER_STATEMENT_MAX]
        rows = await connection.execute(
            _READ,
            {
                "account_ids": [key.account_id for key in wanted],
                "resource_ids": [key.resource_id for key in wanted],
                "hours": [from_epoch(key.hour) for key in wanted],
            },
        )
        for position, since, state, coverage, revision in rows.all():
            stored[first + position - 1].append(StoredWindow(since, state, coverage, revision))
    return stored


async def _add(connection: AsyncConnection, windows: Sequence[Window]) -> int:
    changed = await connection.execute(
        _ADD,
        {
            "account_ids": [window.account_id for window in windows],
            "resource_ids": [window.resource_id for window in windows],
            "hours": [from_epoch(window.hour) for window in windows],
            "sinces": [window.since for window in windows],
            "digests": [window.state.digest for window in windows],
            "states": [window.state.canonical for window in windows],
            "coverages": [format_multirange(window.ranges) for window in windows],
        },
    )
    return changed.rowcount


def _key_order(window: Window) -> tuple[str, str, int, object, str]:
    return window.account_id, window.resource_id, window.hour, window.since, window.state.digest
