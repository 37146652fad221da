from datetime import UTC, datetime

import pytest

from shared.time import (
    format_instant,
    parse_epoch,
    parse_instant,
)


@pytest.mark.parametrize(
    ("text", "second"),
    [
        ("2026-03-10T15:00:00Z", 1_773_154_800),
        ("2026-03-10T23:00:00+08:00", 1_773_154_800),
        ("2026-03-10t15:00:00z", 1_773_154_800),
        ("2026-03-10 15:00:00Z", 1_773_154_800),
        ("2026-03-10T20:45:00.999999+05:45", 1_773_154_800),
        ("1969-12-31T23:59:59.5Z", -1),
    ],
)
def test_an_instant_is_read_in_any_offset_and_floored(text: str, second: int) -> None:
    assert parse_epoch(text) == second


def test_digits_past_the_microsecond_are_cut_never_rounded_up() -> None:
    assert parse_instant("2026-03-10T15:00:59.9999999999Z").second == 59


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "1773154800",
        "2026-03-10",
        "2026-03-10T15:00:00",
        "2026-03-10T15:00Z",
        "2026-02-30T15:00:00Z",
        "2026-03-10T25:00:00Z",
        "20260310T150000Z",
        "2026-W11-2T15:00:00Z",
        "0001-01-01T00:00:00+08:00",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"RFC 3339|outside the years"):
        parse_instant(text)


def test_output_is_utc_with_z_and_a_fraction_only_where_there_is_one() -> None:
    assert format_instant(datetime.fromisoformat("2026-03-10T23:00:00+08:00")) == "2026-03-10T15:00:00Z"
    assert format_instant(datetime(2026, 3, 10, 15, 0, 0, 250_000, UTC)) == "2026-03-10T15:00:00.250000Z"


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "1899-12-31T23:59:59Z"])
def test_the_time_of_a_clock_that_was_never_set_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="outside the years"):
        parse_instant(text)
