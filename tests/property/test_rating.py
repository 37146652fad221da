"""Laws of rating (R1 to R6) that hold for every book and every use of an hour.

The oracle works from the documents and RULES alone: second by second, with the zone's own clock and
exact fractions.
"""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from services.pricing.domain.quotes import QuoteItem, quote
from services.pricing.domain.rating import Pricer
from shared.contracts.facts import Range, Segment
from shared.money import PERIOD_SECONDS, amount_micro
from shared.time import format_instant
from tests.support.books import book, book_body, metered, pricer, sku_body

SKUS = ("rtx", "ascend", "odd", "disk", "unknown")
ZONES = (
    "UTC",
    "Asia/Shanghai",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Pacific/Chatham",
)
HOURS = (
    datetime(2026, 3, 10, 15, tzinfo=UTC),  # 23:00 in Shanghai
    datetime(2026, 3, 29, 1, tzinfo=UTC),  # Berlin skips an hour
    datetime(2026, 10, 25, 0, tzinfo=UTC),  # and repeats one
    datetime(2026, 11, 1, 5, tzinfo=UTC),  # New York repeats one
    datetime(2026, 10, 3, 15, tzinfo=UTC),  # Lord Howe skips half an hour, inside this one
    datetime(2026, 4, 4, 14, tzinfo=UTC),  # and repeats half an hour
    datetime(2026, 9, 26, 14, tzinfo=UTC),  # Chatham, at 02:45 local
)
LABELS: tuple[dict[str, str], ...] = ({}, {"project": "clip"}, {"project": "llm", "job": "1"})
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

prices = st.integers(0, 20_000_000).map(lambda micro: f"{micro // 10**6}.{micro % 10**6:06d}")
factors = st.sampled_from(["0.50", "0.5", "0.30", "0.333333", "1", "0.000001"])
local_times = st.one_of(
    st.sampled_from(["00:00", "01:30", "02:00", "02:15", "02:45", "08:00", "23:00", "23:59:59"]),
    st.integers(0, 1_439).map(lambda minute: f"{minute // 60:02}:{minute % 60:02}"),
)
windows = st.lists(local_times, min_size=2, max_size=2).filter(
    lambda pair: (pair[0] + ":00")[:8] != (pair[1] + ":00")[:8]
)
conditions = st.fixed_dictionaries(
    {},
    optional={
        "purchase": st.sampled_from(["on_demand", "night_auction"]),
        "mode": st.sampled_from(["gpu", "no_gpu"]),
        "kinds": st.lists(st.sampled_from(["gpu", "storage"]), min_size=1, unique=True),
        "skus": st.lists(st.sampled_from(["rtx", "ascend"]), min_size=1, unique=True),
        "local_time": windows,
        "weekdays": st.lists(st.sampled_from(WEEKDAYS), min_size=1, max_size=4, unique=True),
        "labels": st.sampled_from([{"project": "clip"}, {"project": "llm", "job": "1"}]),
    },
)


@st.composite
def bodies(draw: st.DrawFn, hour: datetime) -> list[dict[str, Any]]:
    """One to three books, which may begin inside the hour, at fractions of a second, and at one instant."""
    begins = st.one_of(
        st.just(hour - timedelta(days=30)),
        st.integers(0, 3_600).map(lambda second: hour + timedelta(seconds=second)),
        st.integers(0, 3_600_000_000).map(lambda micro: hour + timedelta(microseconds=micro)),
    )
    made = []
    for _ in range(draw(st.integers(1, 3))):
        rules = draw(st.lists(st.tuples(factors, conditions), max_size=4))
        made.append(
            book_body(
                effective_from=format_instant(draw(begins)),
                time_zone=draw(st.sampled_from(ZONES)),
                skus=[
                    sku_body("rtx", price=draw(prices)),
                    sku_body(
                        "ascend",
                        price=None,
                        price_of={"sku": "rtx", "ratio": draw(st.sampled_from(["0.72", "1", "0.333333"]))},
                    ),
                    sku_body("odd", price=draw(st.sampled_from(["1.66", "1.660001"]))),
                    sku_body("disk", kind="storage", unit="GB", per="day", price=draw(prices)),
                ],
                rules=[
                    {"rule": f"rule-{number}", "factor": factor, "when": when}
                    for number, (factor, when) in enumerate(rules)
                ],
            )
        )
    return made


@st.composite
def segments(draw: st.DrawFn) -> list[Segment]:
    """Up to four states, no second in two of them; ranges in any order, some of them touching."""
    cuts = sorted(draw(st.sets(st.integers(0, 3_600), min_size=2, max_size=8)))
    states = draw(
        st.lists(
            st.tuples(
                st.sampled_from(SKUS),
                st.integers(1, 10_000_000),
                st.sampled_from(["gpu", "no_gpu"]),
                st.sampled_from(["on_demand", "night_auction"]),
                st.sampled_from(LABELS),
            ),
            min_size=1,
            max_size=4,
        )
    )
    ranges: dict[int, list[Range]] = defaultdict(list)
    for start, end in pairwise(cuts):
        owner = draw(st.integers(-1, len(states) - 1))
        if owner >= 0:
            ranges[owner].append((start, end))
    return [
        Segment(sku, quantity, mode, purchase, dict(labels), draw(st.permutations(ranges[owner])))
        for owner, (sku, quantity, mode, purchase, labels) in enumerate(states)
        if ranges[owner]
    ]


hours = st.sampled_from(HOURS).flatmap(
    lambda hour: st.integers(-3, 3).map(lambda shift: hour + timedelta(hours=shift))
)
cases = hours.flatmap(lambda hour: st.tuples(st.just(hour), bodies(hour), segments()))
Case = tuple[datetime, list[dict[str, Any]], list[Segment]]


@given(cases)
@settings(max_examples=60, deadline=None)
def test_a_charge_is_what_the_oracle_says(case: Case) -> None:
    hour, books, parts = case
    charge = pricer(*books).rate(metered(format_instant(hour), *parts))
    lines, unpriced = oracle(hour, books, parts)
    found = {
        (
            (line.sku, line.quantity, line.mode, line.purchase, tuple(sorted(line.labels.items()))),
            line.unit_price,
            line.per,
            tuple((factor.rule, Fraction(factor.factor)) for factor in line.factors),
        ): (seconds_of(line.ranges), line.amount)
        for line in charge.lines
    }
    assert len(found) == len(charge.lines)
    assert found == lines
    assert {lack.sku: lack.seconds for lack in charge.unpriced} == unpriced
    assert charge.amount == sum(amount for _, amount in lines.values())
    assert charge.price_book == len(books)


@given(cases)
@settings(max_examples=100, deadline=None)
def test_every_second_is_in_one_line_and_each_line_adds_up(case: Case) -> None:
    hour, books, parts = case
    charge = pricer(*books).rate(metered(format_instant(hour), *parts))
    seconds = [second for line in charge.lines for second in seconds_of(line.ranges)]
    covered = {second for part in parts for second in seconds_of(part.ranges)}
    assert len(seconds) == len(set(seconds))
    assert set(seconds) <= covered
    assert len(seconds) + sum(lack.seconds for lack in charge.unpriced) == len(covered)
    for line in charge.lines:
        assert line.seconds == len(seconds_of(line.ranges))
        assert line.ranges == sorted(line.ranges)
        assert all(end < start for (_, end), (start, _) in pairwise(line.ranges))
        assert line.amount == amount_micro(
            line.unit_price,
            line.quantity,
            line.seconds,
            [Fraction(factor.factor) for factor in line.factors],
            PERIOD_SECONDS[line.per],
        )
    assert charge.covered_until == format_instant(hour + timedelta(seconds=max(covered, default=-1) + 1))


@given(cases, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_neither_order_nor_slicing_changes_a_charge(case: Case, random: Any) -> None:
    hour, books, parts = case
    known = pricer(*books)
    charge = known.rate(metered(format_instant(hour), *parts))
    sliced = []
    for part in parts:
        pieces = []
        for start, end in part.ranges:
            middle = random.randint(start, end)
            pieces += [(a, b) for a, b in ((start, middle), (middle, end), (start, end)) if a < b]
        random.shuffle(pieces)
        sliced.append(Segment(part.sku, part.quantity, part.mode, part.purchase, part.labels, pieces))
    random.shuffle(sliced)
    assert known.rate(metered(format_instant(hour), *sliced)) == charge
    numbered = list(enumerate(books, 1))
    random.shuffle(numbered)
    shuffled = Pricer({number: book(body) for number, body in numbered})
    assert shuffled.rate(metered(format_instant(hour), *sliced)) == charge


@given(
    hours.flatmap(lambda hour: st.tuples(st.just(hour), bodies(hour))),
    st.sampled_from(["rtx", "ascend", "odd", "disk"]),
    st.integers(1, 1_000),
    st.integers(0, 4 * 3_600),
    st.integers(1, 30 * 3_600),
)
@settings(max_examples=60, deadline=None)
def test_a_quote_is_the_sum_of_its_rated_hours(
    case: tuple[datetime, list[dict[str, Any]]], sku: str, quantity: int, delay: int, seconds: int
) -> None:
    hour, books = case
    first = format_instant(hour - timedelta(days=60))
    known = pricer({**books[0], "effective_from": first}, *books)
    start = hour - timedelta(hours=2) + timedelta(seconds=delay)
    end = start + timedelta(seconds=seconds)
    wanted = QuoteItem(sku, quantity, "no_gpu", "night_auction", LABELS[1], start, end)
    (quoted,) = quote(known, [wanted]).items
    billed = []
    at = start.replace(minute=0, second=0)
    while at < end:
        covered = (
            int(max(start - at, timedelta()).total_seconds()),
            min(3_600, int((end - at).total_seconds())),
        )
        part = Segment(sku, quantity, "no_gpu", "night_auction", LABELS[1], [covered])
        billed.append(known.rate(metered(format_instant(at), part)))
        at += timedelta(hours=1)
    assert quoted.amount_micro == sum(charge.amount for charge in billed)
    assert quoted.seconds == seconds
    assert sum(line.seconds for line in quoted.lines) == seconds
    cut = start + (end - start) // 3600 * 1800
    cut = cut.replace(minute=0, second=0, microsecond=0)
    if start < cut < end:
        halves = [
            QuoteItem(sku, quantity, "no_gpu", "night_auction", LABELS[1], *span)
            for span in ((start, cut), (cut, end))
        ]
        assert quote(known, halves).total_micro == quoted.amount_micro


def oracle(
    hour: datetime, books: list[dict[str, Any]], parts: list[Segment]
) -> tuple[dict[Any, tuple[list[int], int]], dict[str, int]]:
    """({(state, unit price, per, factors): (seconds, amount)}, {sku: seconds without a price})."""
    lines: dict[Any, list[int]] = defaultdict(list)
    unpriced: dict[str, int] = defaultdict(int)
    begins = [datetime.fromisoformat(body["effective_from"]) for body in books]
    for part in parts:
        state = (part.sku, part.quantity, part.mode, part.purchase, tuple(sorted(part.labels.items())))
        for offset in seconds_of(part.ranges):
            second = hour + timedelta(seconds=offset)
            in_force = [(begin, number) for number, begin in enumerate(begins) if begin <= second]
            body = books[max(in_force)[1]] if in_force else {"skus": []}
            sku = next((sku for sku in body["skus"] if sku["sku"] == part.sku), None)
            if sku is None:
                unpriced[part.sku] += 1
                continue
            unit_price, following = unit_price_of(body, sku)
            local = second.astimezone(ZoneInfo(body["time_zone"]))
            applied = [
                (rule["rule"], Fraction(rule["factor"]))
                for rule in body["rules"]
                if holds(rule["when"], part, sku, local)
            ]
            lines[state, unit_price, sku["per"], (*following, *applied)].append(offset)
    rated = {}
    for key, seconds in lines.items():
        (_, quantity, *_), unit_price, per, applied = key
        exact = Fraction(unit_price * quantity * len(seconds), {"hour": 3_600, "day": 86_400}[per])
        for _, factor in applied:
            exact *= factor
        rated[key] = (sorted(seconds), floor(exact))
    return rated, dict(unpriced)


def unit_price_of(body: dict[str, Any], sku: dict[str, Any]) -> tuple[int, tuple[tuple[str, Fraction], ...]]:
    ratio = Fraction(1)
    while "price" not in sku:
        ratio *= Fraction(sku["price_of"]["ratio"])
        (sku,) = [other for other in body["skus"] if other["sku"] == sku["price_of"]["sku"]]
    base = Fraction(sku["price"]) * 1_000_000
    if (base * ratio).denominator == 1:
        return int(base * ratio), ()
    return int(base), (("price_of", ratio),)


def holds(when: dict[str, Any], part: Segment, sku: dict[str, Any], local: datetime) -> bool:
    clock = local.strftime("%H:%M:%S")
    window = [(time + ":00")[:8] for time in when.get("local_time", ())]
    inside = True
    if window:
        start, end = window
        inside = start <= clock < end if start < end else clock >= start or clock < end
    return (
        inside
        and when.get("purchase", part.purchase) == part.purchase
        and when.get("mode", part.mode) == part.mode
        and sku["kind"] in when.get("kinds", [sku["kind"]])
        and part.sku in when.get("skus", [part.sku])
        and WEEKDAYS[local.weekday()] in when.get("weekdays", WEEKDAYS)
        and when.get("labels", {}).items() <= part.labels.items()
    )


def seconds_of(ranges: list[Range]) -> list[int]:
    return [second for start, end in sorted(ranges) for second in range(start, end)]
