"""The fact of a resource-hour, built from all of its rows."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from services.metering.domain.coverage import parse_multirange
from services.metering.domain.folding import HourKey
from services.metering.domain.resolution import Claim, Resolved, resolve_claims
from services.metering.domain.state import fields_of
from shared.contracts.facts import Segment, UsageMetered
from shared.time import format_epoch


class StoredWindow(NamedTuple):
    """A row of usage_window without its key; `coverage` is PostgreSQL's text of the multirange."""

    since: datetime
    canonical_state: str
    coverage: str
    revision: int


class HourMetered(NamedTuple):
    fact: UsageMetered
    conflict_seconds: int


def metered_hour(key: HourKey, windows: Sequence[StoredWindow]) -> HourMetered:
    """The whole truth about a resource-hour; `windows` are all of its rows as one snapshot saw them.

    The revision is the sum of the rows' revisions. Each change of a row adds one, so of two snapshots
    with equal sums neither saw a change that the other did not, and their facts are equal.
    """
    resolved = _resolve(windows)
    fact = UsageMetered(
        account_id=key.account_id,
        resource_id=key.resource_id,
        hour=format_epoch(key.hour),
        revision=sum([window.revision for window in windows]),
        segments=list(_segments(resolved)),
    )
    return HourMetered(fact, resolved.conflict_seconds)


def _resolve(windows: Sequence[StoredWindow]) -> Resolved:
    return resolve_claims(
        [
            Claim(window.since, window.canonical_state, parse_multirange(window.coverage))
            for window in windows
        ]
    )


def _segments(resolved: Resolved) -> Iterable[Segment]:
    for canonical_state, ranges in resolved.owned.items():
        state = fields_of(canonical_state)
        yield Segment(state.sku, state.quantity, state.mode, state.purchase, state.labels, ranges)
