"""How the usage query reads its groups and cuts its period."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from services.metering.domain.usage import (
    PERIOD_DAYS_MAX,
    ByField,
    ByLabel,
    ByTime,
    TimeUnit,
    UsageQuery,
    bucket_label,
    checked_period,
    format_groups,
    parse_groups,
    parse_zone,
    period_of,
    slice_period,
)
from shared.errors import Invalid
from shared.time import epoch_second, from_epoch

SHANGHAI = ZoneInfo("Asia/Shanghai")


def second(text: str) -> int:
    return epoch_second(datetime.fromisoformat(text))


def query(start: str, end: str, group_by: str, zone: str = "Asia/Shanghai") -> UsageQuery:
    return UsageQuery("acct-7", second(start), second(end), parse_groups(group_by), ZoneInfo(zone))


def test_groups_are_read_in_their_order() -> None:
    groups = parse_groups("month, sku,label:project,resource")
    assert groups == (ByTime("month"), ByField("sku"), ByLabel("project"), ByField("resource"))
    assert format_groups(groups) == "month,sku,label:project,resource"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "knows hour, day, month"),
        ("sku,", "knows hour, day, month"),
        ("week", "not 'week'"),
        ("SKU", "not 'SKU'"),
        ("label:", "not 'label:'"),
        (f"label:{'x' * 65}", "label:<key>"),
        ("label:a\x00", "label:<key>"),
        ("day,hour", "one of hour, day and month"),
        ("sku,sku", "twice"),
        (",".join(f"label:{n}" for n in range(9)), "at most 8"),
        ("sku; DROP TABLE usage_window", "label:<key>"),
    ],
)
def test_a_group_that_means_nothing_is_refused_in_clear_words(text: str, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        parse_groups(text)


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../../etc/passwd", "/etc/localtime", "Asia", "\x00"])
def test_a_time_zone_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="IANA"):
        parse_zone(name)


def test_a_period_without_ends_is_the_local_month_until_now() -> None:
    now = datetime(2026, 2, 28, 16, 30, tzinfo=UTC)  # already March in Shanghai
    assert period_of(None, None, now, SHANGHAI) == (second("2026-03-01T00:00+08:00"), epoch_second(now))


def test_without_a_start_a_period_that_ends_with_a_month_is_that_month() -> None:
    end = datetime.fromisoformat("2026-03-01T00:00+08:00")
    assert period_of(None, end, end, SHANGHAI)[0] == second("2026-02-01T00:00+08:00")


@pytest.mark.parametrize(
    ("first", "end"),
    [(10, 10), (10, 9), (-1, 10), (0, 10**12), (-(10**12), 5), (0, PERIOD_DAYS_MAX * 86_400 + 1)],
)
def test_empty_reversed_overlong_and_unearthly_periods_are_refused(first: int, end: int) -> None:
    with pytest.raises(Invalid):
        checked_period(first, end)


@pytest.mark.parametrize("year", [1, 9999])
def test_the_ends_of_the_calendar_are_refused_and_not_overflowed(year: int) -> None:
    with pytest.raises(Invalid):
        period_of(None, datetime(year, 12, 31, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC), SHANGHAI)


def test_without_a_time_group_a_period_is_one_bucket_cut_at_its_seconds() -> None:
    slices = slice_period(query("2026-03-10T15:59:58Z", "2026-03-10T17:00:03Z", "sku"))
    assert [(cut.bucket, cut.start, cut.end) for cut in slices] == [(0, 3598, 3600), (0, 0, 3600), (0, 0, 3)]


def test_local_days_begin_at_local_midnight() -> None:
    slices = slice_period(query("2026-03-10T15:00Z", "2026-03-10T17:00Z", "day"))
    assert [bucket_label(cut.bucket, "day", SHANGHAI) for cut in slices] == ["2026-03-10", "2026-03-11"]
    assert from_epoch(slices[1].bucket) == datetime(2026, 3, 10, 16, tzinfo=UTC)


def test_a_bucket_is_named_by_its_first_second_even_when_the_period_begins_later() -> None:
    slices = slice_period(query("2026-03-15T03:20Z", "2026-03-15T03:30Z", "month"))
    assert from_epoch(slices[0].bucket) == datetime(2026, 2, 28, 16, tzinfo=UTC)
    assert bucket_label(slices[0].bucket, "month", SHANGHAI) == "2026-03"


def test_the_repeated_hour_is_two_hours_with_two_names() -> None:
    asked = query("2026-10-25T00:00Z", "2026-10-25T02:00Z", "hour", "Europe/Berlin")
    labels = [bucket_label(cut.bucket, "hour", asked.zone) for cut in slice_period(asked)]
    assert labels == ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"]


@pytest.mark.parametrize(
    ("zone", "start", "hours"),
    [
        ("Asia/Shanghai", "2026-02-27T00:00Z", 80),
        ("Europe/Berlin", "2026-03-28T12:00Z", 40),  # a day of 23 hours
        ("Europe/Berlin", "2026-10-24T12:00Z", 40),  # a day of 25 hours
        ("Asia/Kolkata", "2026-03-31T12:00Z", 40),  # half-hour offset
        ("Asia/Kathmandu", "2026-03-31T12:00Z", 40),  # quarter-hour offset
        ("Australia/Lord_Howe", "2026-04-04T06:00Z", 24),  # clocks move by half an hour
        ("America/Santiago", "2026-09-05T20:00Z", 24),  # midnight is skipped
        ("America/Santiago", "2026-04-04T20:00Z", 24),  # the last hour of the day comes twice
        ("Pacific/Apia", "2011-12-29T12:00Z", 48),  # a day is skipped
    ],
)
@pytest.mark.parametrize("unit", ["hour", "day", "month"])
def test_every_second_is_in_the_one_bucket_that_its_local_time_names(
    zone: str, start: str, hours: int, unit: TimeUnit
) -> None:
    end = (datetime.fromisoformat(start) + timedelta(hours=hours)).isoformat()
    asked = query(start, end, unit, zone)
    told: Counter[tuple[str, int]] = Counter()
    for cut in slice_period(asked):
        label = bucket_label(cut.bucket, unit, asked.zone)[: len("2026-03-10T15")]
        told.update((label, at) for at in range(cut.hour + cut.start, cut.hour + cut.end, 300))
        assert cut.bucket <= cut.hour + cut.start
    length = {"hour": len("2026-03-10T15"), "day": len("2026-03-10"), "month": len("2026-03")}[unit]
    expected = Counter(
        (from_epoch(at).astimezone(asked.zone).isoformat()[:length], at)
        for at in range(asked.first_second, asked.end_second, 300)
    )
    assert told == expected
