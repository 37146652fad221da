"""Adding covered seconds, and reading resource-hours back.

Rows travel as one array per column, in both directions: a tenth of the cost of a Python object per row.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.metering.domain.coverage import format_multirange
from services.metering.domain.facts import StoredWindows
from services.metering.domain.folding import HourKey, WindowKey, Windows
from shared.contracts.facts import Range

ROWS_PER_STATEMENT_MAX: Final = 10_000
"""Bounds the memory of a statement: a batch of day-long reports folds to 25 windows for each."""

# Ordered by the key, so that two writers that meet wait for each other and never deadlock. Coverage that
# is contained already leaves the row untouched: a repeat costs no write and no revision.
_ADD: Final = text(
    """
    INSERT INTO usage_window AS stored
        (account_id, resource_id, hour, since, state_hash, state, coverage, revision)
    SELECT account_id, resource_id, to_timestamp(hour), since,
           CAST(digest AS uuid), state, CAST(coverage AS int4multirange), 1
    FROM unnest(CAST(:account_ids AS text[]), CAST(:resource_ids AS text[]), CAST(:hours AS bigint[]),
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
    SELECT coalesce(array_agg(CAST(wanted.position AS int)), '{}'),
           coalesce(array_agg(stored.since), '{}'),
           coalesce(array_agg(stored.state), '{}'),
           coalesce(array_agg(CAST(stored.coverage AS text)), '{}'),
           coalesce(array_agg(stored.revision), '{}')
    FROM unnest(CAST(:account_ids AS text[]), CAST(:resource_ids AS text[]), CAST(:hours AS bigint[]))
         WITH ORDINALITY AS wanted (account_id, resource_id, hour, position)
    JOIN usage_window AS stored
      ON stored.account_id = wanted.account_id AND stored.resource_id = wanted.resource_id
     AND stored.hour = to_timestamp(wanted.hour)
    """
)


async def add_coverage(connection: AsyncConnection, windows: Windows) -> int:
    """Adds the windows' seconds to their rows; returns how many rows that changed."""
    rows = list(windows.items())
    if len(rows) > ROWS_PER_STATEMENT_MAX:
        rows.sort(key=_key_order)  # across statements too
    changed = 0
    for first in range(0, len(rows), ROWS_PER_STATEMENT_MAX):
        changed += await _add(connection, rows[first : first + ROWS_PER_STATEMENT_MAX])
    return changed


async def read_hours(connection: AsyncConnection, keys: Sequence[HourKey]) -> StoredWindows:
    """All rows of the resource-hours as one snapshot has them; `positions` count from 0.

    At most ROWS_PER_STATEMENT_MAX keys, each once.
    """
    account_ids, resource_ids, hours = zip(*keys, strict=True)
    found = await connection.execute(
        _READ,
        {"account_ids": list(account_ids), "resource_ids": list(resource_ids), "hours": list(hours)},
    )
    positions, sinces, states, coverages, revisions = found.one()
    return StoredWindows([position - 1 for position in positions], sinces, states, coverages, revisions)


async def _add(connection: AsyncConnection, rows: Sequence[tuple[WindowKey, list[Range]]]) -> int:
    keys = [key for key, _ in rows]
    account_ids, resource_ids, hours, sinces, states = zip(*keys, strict=True)
    changed = await connection.execute(
        _ADD,
        {
            "account_ids": list(account_ids),
            "resource_ids": list(resource_ids),
            "hours": list(hours),
            "sinces": list(sinces),
            "digests": [state.digest for state in states],
            "states": [state.canonical for state in states],
            "coverages": [format_multirange(ranges) for _, ranges in rows],
        },
    )
    return changed.rowcount


def _key_order(row: tuple[WindowKey, list[Range]]) -> tuple[str, str, int, object, str]:
    account_id, resource_id, hour, since, state = row[0]
    return account_id, resource_id, hour, since, state.digest
