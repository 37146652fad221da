"""Laws of money, time and the usage report that hold for every input."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.usage import ReportLimits, decode_structured, hours_covered
from shared.errors import EventRefused
from shared.time import epoch_second, format_epoch, from_epoch, hour_of, parse_epoch
from tests.support.reports import structured, usage_event

START = datetime(2026, 3, 8, tzinfo=UTC)
LIMITS = ReportLimits.at(START + timedelta(days=3))


@given(st.integers(-(10**9), 10**10))
def test_whole_seconds_survive_the_wire(second: int) -> None:
    assert parse_epoch(format_epoch(second)) == second
    assert epoch_second(from_epoch(second)) == second
    assert 0 <= second - hour_of(second) < 3_600
    assert hour_of(second) % 3_600 == 0


@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)), st.integers(0, 999_999))  # noqa: DTZ001
def test_a_second_holds_all_its_microseconds(naive: datetime, microsecond: int) -> None:
    whole = naive.replace(microsecond=0, tzinfo=UTC)
    assert epoch_second(whole + timedelta(microseconds=microsecond)) == epoch_second(whole)


@given(st.text(max_size=200))
def test_no_text_in_a_field_is_a_fault(text: str) -> None:
    for path in (
        "specversion",
        "type",
        "subject",
        "time",
        "data.account_id",
        "data.start",
        "data.mode",
        "data.labels",
    ):
        event = usage_event(start=START, end=START + timedelta(minutes=1))
        place = event["data"] if path.startswith("data.") else event
        place[path.removeprefix("data.")] = text
        with suppress(EventRefused):
            decode_structured(structured(event), LIMITS)


@given(st.integers(0, 86_400), st.integers(1, 86_400))
def test_hours_covered_tile_the_report(offset: int, length: int) -> None:
    start = START + timedelta(seconds=offset)
    event = usage_event(start=start, end=start + timedelta(seconds=length))
    report = decode_structured(structured(event), LIMITS)
    seconds = [
        hour + second for hour, begins, ends in hours_covered(report) for second in range(begins, ends)
    ]
    assert seconds == list(range(report.first_second, report.end_second))
    assert all(
        hour % 3_600 == 0 and 0 <= begins < ends <= 3_600 for hour, begins, ends in hours_covered(report)
    )
