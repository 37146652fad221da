"""What a stream of reports must cost, worked out again from RULES.md and nothing else.

It imports no code of the product: every second is given its owner one by one, every amount is a Fraction
that is rounded down once, every lot is burned by the letter of R11 to R13.
"""

import json
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import Final, NamedTuple

from tests.support.scenarios import (
    Account,
    Event,
    Expected,
    ExpectedAccount,
    ExpectedHour,
    PriceChange,
    Stream,
)

HOUR: Final = 3_600
DAY: Final = 86_400
TRIAL_MICRO: Final = 10_000_000
TRIAL_SECONDS: Final = 30 * DAY
NEVER: Final = 10**12


class ListPrice(NamedTuple):
    yuan: Fraction
    period_seconds: int
    is_compute: bool


PRICES: Final = {
    "rtx-3090": ListPrice(Fraction("1.58"), HOUR, True),
    "rtx-4090": ListPrice(Fraction("1.66"), HOUR, True),
    "rtx-4090-cluster": ListPrice(Fraction("1.90"), HOUR, True),
    "a100-80g": ListPrice(Fraction("3.30"), HOUR, True),
    "h100-80g": ListPrice(Fraction("9.90"), HOUR, True),
    "mlu370-x8": ListPrice(Fraction("1.10"), HOUR, True),
    "mtt-s4000": ListPrice(Fraction("1.10"), HOUR, True),
    "hybrid-a100-910b": ListPrice(Fraction("3.30"), HOUR, True),
    "app-llm-7b": ListPrice(Fraction("1.00"), HOUR, True),
    "disk-ssd": ListPrice(Fraction("0.0005"), HOUR, False),
    "object-standard": ListPrice(Fraction("0.004"), DAY, False),
}
ASCEND: Final = "ascend-910b"
ASCEND_OF_4090: Final = Fraction("0.72")
NIGHT_FACTOR: Final = Fraction("0.50")
NO_GPU_FACTOR: Final = Fraction("0.30")


class State(NamedTuple):
    sku: str
    quantity: int
    mode: str
    purchase: str
    labels: str


class Line(NamedTuple):
    """Seconds of one resource-hour at one price; `seconds` are offsets in the hour, ascending."""

    micro_per_second: Fraction
    seconds: Sequence[int]

    def due_before(self, offset: int) -> int:
        return floor(self.micro_per_second * bisect_left(self.seconds, offset))


class HourKey(NamedTuple):
    account: str
    resource: str
    hour: int


@dataclass
class Lot:
    kind: str
    priority: int
    effective_at: int
    expires_at: int
    left: int


def expected_of(stream: Stream) -> Expected:
    """The answer that a scenario file carries, of any stream."""
    hours = rate_hours(stream["events"], stream.get("price_changes", []) or [])
    return {
        "accounts": {
            account["account"]: _settle(
                account, {key: lines for key, lines in hours.items() if key.account == account["account"]}
            )
            for account in stream["accounts"]
        },
        "hours": [
            ExpectedHour(
                account=key.account,
                resource=key.resource,
                hour=key.hour,
                seconds=sum(len(line.seconds) for line in lines),
                amount=sum(line.due_before(HOUR) for line in lines),
            )
            for key, lines in sorted(hours.items())
        ],
    }


def rate_hours(
    events: Iterable[Event], price_changes: Sequence[PriceChange] = ()
) -> dict[HourKey, list[Line]]:
    """Lines of every resource-hour that has a second in use."""
    of_resource: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in events:
        of_resource[event["account"], event["resource"]].append(event)
    hours: dict[HourKey, list[Line]] = {}
    for (account, resource), reports in of_resource.items():
        for hour, owners in _owned_hours(reports).items():
            hours[HourKey(account, resource, hour)] = _lines(hour, owners, price_changes)
    return hours


def _owned_hours(reports: list[Event]) -> dict[int, dict[int, State]]:
    """{hour: {offset: owner}} of one resource, each second owned by one state (R2).

    Reports are painted over one another, the weakest first: an earlier `since` yields to a later one, and on
    equal `since` the state with the greater canonical JSON yields.
    """
    by_strength = sorted(reports, key=_canonical, reverse=True)
    by_strength.sort(key=lambda report: report["since"])
    states: list[State] = []
    first = min(floor(report["start"]) for report in reports)
    first -= first % HOUR
    last = max(floor(report["end"]) for report in reports)
    owner_of = array("H", bytes(2 * (last - first)))
    for report in by_strength:
        states.append(_state_of(report))
        begins, ends = floor(report["start"]) - first, floor(report["end"]) - first
        owner_of[begins:ends] = array("H", [len(states)]) * (ends - begins)
    owned: dict[int, dict[int, State]] = {}
    for hour in range(first, last, HOUR):
        owners = owner_of[hour - first : hour - first + HOUR]
        if any(owners):
            owned[hour] = {offset: states[owner - 1] for offset, owner in enumerate(owners) if owner}
    return owned


def _lines(hour: int, owners: dict[int, State], price_changes: Sequence[PriceChange]) -> list[Line]:
    """All seconds of the hour that share state, unit price and factors are one line (R6)."""
    groups: dict[tuple[State, Fraction, tuple[Fraction, ...]], list[int]] = defaultdict(list)
    prices: dict[tuple[State, int, bool], tuple[State, Fraction, tuple[Fraction, ...]]] = {}
    changes = sorted(change["from"] for change in price_changes)
    for offset, state in owners.items():
        second = hour + offset
        book = sum(1 for change in changes if change <= second)
        at = (state, book, _is_night(second))
        if at not in prices:
            prices[at] = (state, _unit_price(state.sku, second, price_changes), _factors(state, second))
        groups[prices[at]].append(offset)
    return [
        Line(_micro_per_second(state, price, factors), seconds)
        for (state, price, factors), seconds in groups.items()
    ]


def _micro_per_second(state: State, price: Fraction, factors: tuple[Fraction, ...]) -> Fraction:
    period = HOUR if state.sku == ASCEND else PRICES[state.sku].period_seconds
    micro = price * 1_000_000 * state.quantity / period
    for factor in factors:
        micro *= factor
    return micro


def _unit_price(sku: str, second: int, price_changes: Sequence[PriceChange]) -> Fraction:
    if sku == ASCEND:
        return ASCEND_OF_4090 * _unit_price("rtx-4090", second, price_changes)
    price = PRICES[sku].yuan
    for change in sorted(price_changes, key=lambda change: change["from"]):
        if change["sku"] == sku and change["from"] <= second:
            price = Fraction(change["price"])
    return price


def _factors(state: State, second: int) -> tuple[Fraction, ...]:
    if state.sku != ASCEND and not PRICES[state.sku].is_compute:
        return ()
    factors = []
    if state.purchase == "night_auction" and _is_night(second):
        factors.append(NIGHT_FACTOR)
    if state.mode == "no_gpu":
        factors.append(NO_GPU_FACTOR)
    return tuple(factors)


def _is_night(second: int) -> bool:
    """`second` counts from a local midnight, and Shanghai's days all have 24 hours."""
    of_day = second % DAY
    return of_day >= 23 * HOUR or of_day < 8 * HOUR


def _state_of(event: Event) -> State:
    return State(
        event["sku"],
        event.get("quantity", 1),
        event.get("mode", "gpu"),
        event.get("purchase", "on_demand"),
        json.dumps(event.get("labels", {}), sort_keys=True, separators=(",", ":"), ensure_ascii=False),
    )


def _canonical(event: Event) -> str:
    state = _state_of(event)
    return json.dumps(
        {**state._asdict(), "labels": event.get("labels", {})},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
    )


def _settle(account: Account, hours: dict[HourKey, list[Line]]) -> ExpectedAccount:
    lots = _lots_of(account)
    debt = 0
    lines_of: dict[int, list[Line]] = defaultdict(list)
    for key, lines in hours.items():
        lines_of[key.hour] += lines
    for hour, lines in sorted(lines_of.items()):
        for begins, ends in _pieces(hour, lots):
            due = sum(line.due_before(ends) - line.due_before(begins) for line in lines)
            debt += _burn(lots, hour + begins, due)
    left: Counter[str] = Counter()
    for lot in lots:
        left[lot.kind] += lot.left
    cash = max(0, left["cash"] - debt)
    return {
        "charged": sum(line.due_before(HOUR) for lines in hours.values() for line in lines),
        "debt": max(0, debt - left["cash"]),
        "trial_left": left["trial"],
        "promo_left": left["promo"],
        "cash_left": cash,
    }


def _lots_of(account: Account) -> list[Lot]:
    """In burn order (R11)."""
    registered = account["registered"]
    lots = [Lot("cash", 50, registered, NEVER, _micro(amount)) for amount in account.get("top_ups", [])]
    if account.get("trial", True):
        lots.append(Lot("trial", 10, registered, registered + TRIAL_SECONDS, TRIAL_MICRO))
    lots += [
        Lot("promo", 10, grant["from"], grant["to"], _micro(grant["amount"]))
        for grant in account.get("grants", [])
    ]
    return sorted(lots, key=lambda lot: (lot.priority, lot.expires_at, lot.effective_at))


def _micro(amount: str) -> int:
    micro = Fraction(amount) * 1_000_000
    assert micro.denominator == 1
    return micro.numerator


def _pieces(hour: int, lots: Iterable[Lot]) -> list[tuple[int, int]]:
    """The hour cut where a lot begins or ends (R12), as offsets."""
    bounds = {
        at - hour for lot in lots for at in (lot.effective_at, lot.expires_at) if hour < at < hour + HOUR
    }
    cuts = sorted({0, HOUR} | bounds)
    return list(pairwise(cuts))


def _burn(lots: Iterable[Lot], second: int, due: int) -> int:
    """What no lot could pay (R13)."""
    for lot in lots:
        if lot.effective_at <= second < lot.expires_at or lot.kind == "cash":
            paid = min(due, lot.left)
            lot.left -= paid
            due -= paid
    return due
