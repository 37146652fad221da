"""The whole truth about resource-hours, built from all of their rows."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from services.metering.domain.coverage import format_multirange, parse_multirange
from services.metering.domain.folding import HourKey
from services.metering.domain.resolution import Claim, resolve_claims


class StoredWindows(NamedTuple):
    """Rows of usage_window, column by column; `positions` say which of the wanted hours a row is of.

    `coverages` are PostgreSQL's text of the multiranges.
    """

    positions: Sequence[int]
    sinces: Sequence[datetime]
    states: Sequence[str]
    coverages: Sequence[str]
    revisions: Sequence[int]


class MeteredHour(NamedTuple):
    """Which seconds of a resource-hour were used, and how: what usage.metered.v1 says.

    `segments` are (canonical state, multirange text) in the order of the states; no second is in two.
    """

    key: HourKey
    revision: int
    segments: list[tuple[str, str]]


class Conflict(NamedTuple):
    """Seconds of an hour that more than one state claims; each losing claim counts."""

    key: HourKey
    seconds: int


def metered_hours(keys: Sequence[HourKey], stored: StoredWindows) -> tuple[list[MeteredHour], list[Conflict]]:
    """Of each resource-hour; `stored` are all of their rows as one snapshot saw them.

    The revision is the sum of the rows' revisions. Each change of a row adds one, so of two snapshots
    with equal sums neither saw a change that the other did not, and what they tell is equal.
    """
    hours = []
    conflicts = []
    for key, rows in zip(keys, _rows_by_position(stored.positions, len(keys)), strict=True):
        if len(rows) == 1:  # nearly always: one state per hour, nothing to resolve
            row = rows[0]
            segments = [(stored.states[row], stored.coverages[row])]
            hours.append(MeteredHour(key, stored.revisions[row], segments))
            continue
        resolved = resolve_claims(list(_claims(stored, rows)))
        segments = [(state, format_multirange(ranges)) for state, ranges in resolved.owned.items()]
        hours.append(MeteredHour(key, sum(stored.revisions[row] for row in rows), segments))
        if resolved.conflict_seconds:
            conflicts.append(Conflict(key, resolved.conflict_seconds))
    return hours, conflicts


def _rows_by_position(positions: Sequence[int], hours: int) -> list[tuple[int, ...]]:
    rows: list[tuple[int, ...]] = [()] * hours
    for row, position in enumerate(positions):
        rows[position] += (row,)
    return rows


def _claims(stored: StoredWindows, rows: Iterable[int]) -> Iterable[Claim]:
    for row in rows:
        yield Claim(stored.sinces[row], stored.states[row], parse_multirange(stored.coverages[row]))
