"""Which state owns a second that several claim (R2, DESIGN 3)."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from services.metering.domain.coverage import mask_of, ranges_of
from shared.contracts.facts import Range


class Claim(NamedTuple):
    """The seconds that reports of one `since` and state cover in a resource-hour."""

    since: datetime
    canonical_state: str
    ranges: list[Range]


class Resolved(NamedTuple):
    """`owned` maps each canonical state to its seconds, in the order of the states; no second is in two.

    `conflict_seconds` counts every claim on a second that another state owns.
    """

    owned: dict[str, list[Range]]
    conflict_seconds: int


def resolve_claims(claims: Sequence[Claim]) -> Resolved:
    """The later `since` owns a second; of equal ones the state whose canonical JSON is smaller.

    Two boots in the same state (equal states, other `since`) are one segment and no conflict.
    """
    if len(claims) == 1:
        return Resolved({claims[0].canonical_state: claims[0].ranges}, 0)
    taken = 0
    owned: dict[str, int] = {}
    claimed: dict[str, int] = {}
    for claim in _by_precedence(claims):
        seconds = mask_of(claim.ranges)
        state = claim.canonical_state
        claimed[state] = claimed.get(state, 0) | seconds
        owned[state] = owned.get(state, 0) | (seconds & ~taken)
        taken |= seconds
    conflict_seconds = sum(mask.bit_count() for mask in claimed.values()) - taken.bit_count()
    return Resolved(
        {state: ranges_of(owned[state]) for state in sorted(owned) if owned[state]}, conflict_seconds
    )


def _by_precedence(claims: Sequence[Claim]) -> list[Claim]:
    by_state = sorted(claims, key=lambda claim: claim.canonical_state)
    return sorted(by_state, key=lambda claim: claim.since, reverse=True)
