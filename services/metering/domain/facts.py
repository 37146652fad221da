"""The facts of resource-hours, built from all of their rows."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from services.metering.domain.coverage import parse_multirange
from services.metering.domain.folding import HourKey
from services.metering.domain.resolution import Claim, resolve_claims
from services.metering.domain.state import fields_of
from shared.contracts.facts import Range, Segment, UsageMetered
from shared.time import format_epoch


class StoredWindows(NamedTuple):
    """Rows of usage_window, column by column; `positions` say which of the wanted hours a row is of.

    `coverages` are PostgreSQL's text of the multiranges.
    """

    positions: Sequence[int]
    sinces: Sequence[datetime]
    states: Sequence[str]
    coverages: Sequence[str]
    revisions: Sequence[int]


class Conflict(NamedTuple):
    """Seconds of an hour that more than one state claims; each losing claim counts."""

    key: HourKey
    seconds: int


def metered_hours(
    keys: Sequence[HourKey], stored: StoredWindows
) -> tuple[list[UsageMetered], list[Conflict]]:
    """The whole truth about each resource-hour; `stored` are all of their rows as one snapshot saw them.

    A fact's revision is the sum of its rows' revisions. Each change of a row adds one, so of two
    snapshots with equal sums neither saw a change that the other did not, and their facts are equal.
    """
    facts = []
    conflicts = []
    rows_of_hours = _rows_by_position(stored.positions, len(keys))
    for key, rows in zip(keys, rows_of_hours, strict=True):
        account_id, resource_id, hour = key
        if len(rows) == 1:  # nearly always: one state per hour, nothing to resolve
            row = rows[0]
            revision = stored.revisions[row]
            segments = [_segment(stored.states[row], parse_multirange(stored.coverages[row]))]
        else:
            revision = sum(stored.revisions[row] for row in rows)
            resolved = resolve_claims(list(_claims(stored, rows)))
            segments = [_segment(state, ranges) for state, ranges in resolved.owned.items()]
            if resolved.conflict_seconds:
                conflicts.append(Conflict(key, resolved.conflict_seconds))
        facts.append(UsageMetered(account_id, resource_id, format_epoch(hour), revision, segments))
    return facts, conflicts


def _rows_by_position(positions: Sequence[int], hours: int) -> list[tuple[int, ...]]:
    rows: list[tuple[int, ...]] = [()] * hours
    for row, position in enumerate(positions):
        rows[position] += (row,)
    return rows


def _claims(stored: StoredWindows, rows: Iterable[int]) -> Iterable[Claim]:
    for row in rows:
        yield Claim(stored.sinces[row], stored.states[row], parse_multirange(stored.coverages[row]))


def _segment(canonical_state: str, ranges: list[Range]) -> Segment:
    state = fields_of(canonical_state)
    return Segment(state.sku, state.quantity, state.mode, state.purchase, state.labels, ranges)
