"""Usage is a set of seconds: how it is reported cannot change it (DESIGN 1)."""

import itertools
from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from services.metering.domain.coverage import (
    format_multirange,
    mask_of,
    parse_multirange,
    ranges_of,
    seconds_in,
)
from services.metering.domain.facts import StoredWindows, metered_hours
from services.metering.domain.folding import WindowKey, fold_reports, hours_touched
from services.metering.domain.state import state_of
from services.metering.usecases.metered_message import encode_metered
from shared.contracts.facts import Range, Segment, UsageMetered
from shared.contracts.usage import UsageReport
from tests.support.metering import report, seconds_expected, seconds_told


@st.composite
def a_report(draw: st.DrawFn) -> UsageReport:
    """Few resources, states and instants, so that reports meet, overlap and conflict."""
    first_second = draw(st.integers(0, 2 * 3600))
    return report(
        first_second,
        first_second + draw(st.integers(0, 4000)),
        resource_id=draw(st.sampled_from(["a", "b"])),
        quantity=draw(st.integers(1, 2)),
        mode=draw(st.sampled_from(["gpu", "no_gpu"])),
        labels=draw(st.sampled_from([{}, {"project": "clip"}, {"项目": "裁剪", "job": "1"}])),
        since=draw(st.integers(0, 2)),
    )


reports_of_a_stream = st.lists(a_report(), max_size=12)
ranges_of_an_hour = st.lists(
    st.tuples(st.integers(0, 3599), st.integers(1, 3600))
    .map(lambda ends: (min(ends), max(ends)))
    .filter(lambda ends: ends[0] < ends[1]),
    max_size=20,
)


def metered(batches: Sequence[Sequence[UsageReport]]) -> list[UsageMetered]:
    """The facts after the batches, with a dictionary for a table: it unites as the upsert does."""
    table: dict[WindowKey, int] = {}
    revisions: dict[WindowKey, int] = {}
    for batch in batches:
        for key, ranges in fold_reports(batch).items():
            before = table.get(key, 0)
            table[key] = before | mask_of(ranges)
            revisions[key] = revisions.get(key, 0) + (table[key] != before)
    keys = sorted(hours_touched({key: [] for key in table}))
    stored = StoredWindows(
        [keys.index(key[:3]) for key in table],
        [key[3] for key in table],
        [key[4].canonical for key in table],
        [format_multirange(ranges_of(mask)) for mask in table.values()],
        list(revisions.values()),
    )
    return [
        msgspec.json.decode(encode_metered(hour), type=UsageMetered)
        for hour in metered_hours(keys, stored)[0]
    ]


def segments(facts: Sequence[UsageMetered]) -> list[tuple[str, str, list[Segment]]]:
    return [(fact.resource_id, fact.hour, fact.segments) for fact in facts]


@given(reports_of_a_stream)
def test_the_facts_hold_each_covered_second_once_in_the_state_that_owns_it(
    reports: list[UsageReport],
) -> None:
    canonical = [
        state_of(one.sku, one.quantity, one.mode, one.purchase, tuple(one.labels.items())).canonical
        for one in reports
    ]
    assert seconds_told(metered([reports])) == seconds_expected(reports, canonical)


@given(reports_of_a_stream, st.data())
def test_order_repetition_and_batching_change_nothing(
    reports: list[UsageReport], data: st.DataObject
) -> None:
    repeated = reports + [one for one in reports if data.draw(st.booleans())]
    shuffled = data.draw(st.permutations(repeated))
    cut = data.draw(st.integers(0, len(shuffled)))
    assert segments(metered([shuffled[:cut], shuffled[cut:], reports])) == segments(metered([reports]))


@given(reports_of_a_stream, st.data())
def test_slicing_changes_nothing(reports: list[UsageReport], data: st.DataObject) -> None:
    slices = []
    for one in reports:
        cuts = data.draw(st.lists(st.integers(one.first_second, one.end_second), max_size=3))
        ends = [one.first_second, *sorted(cuts), one.end_second]
        slices += [_between(one, start, end) for start, end in itertools.pairwise(ends)]
    assert segments(metered([slices])) == segments(metered([reports]))


@given(reports_of_a_stream)
def test_a_repeated_batch_raises_no_revision(reports: list[UsageReport]) -> None:
    assert metered([reports, reports]) == metered([reports])


@given(ranges_of_an_hour)
def test_a_mask_holds_exactly_the_seconds_of_its_ranges(ranges: list[Range]) -> None:
    seconds = {second for start, end in ranges for second in range(start, end)}
    merged = ranges_of(mask_of(ranges))
    assert {second for start, end in merged for second in range(start, end)} == seconds
    assert seconds_in(merged) == len(seconds)
    assert all(left[1] < right[0] for left, right in itertools.pairwise(merged))
    assert parse_multirange(format_multirange(merged)) == merged


def _between(one: UsageReport, first_second: int, end_second: int) -> UsageReport:
    return report(
        first_second,
        end_second,
        hour=0,
        resource_id=one.resource_id,
        quantity=one.quantity,
        mode=one.mode,
        labels=one.labels,
        since=one.since,
    )
