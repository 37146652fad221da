"""R4: a window is the real seconds whose local time lies in it, on every kind of day."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from services.pricing.domain.local_time import offset_pieces, zone_named
from shared.time import epoch_second, format_instant
from tests.support.books import book_body, metered, pricer, segment


def seconds_at_night(zone: str, window: tuple[str, str], day_start: datetime, hours: int) -> int:
    """Seconds of `hours` from `day_start` that the window's rule applied to."""
    rule = {"rule": "night", "factor": "0.50", "when": {"local_time": list(window)}}
    rate = pricer(book_body(effective_from="2020-01-01T00:00:00Z", time_zone=zone, rules=[rule])).rate
    found = 0
    for hour in range(hours):
        charge = rate(metered(format_instant(day_start + timedelta(hours=hour)), segment()))
        assert sum(line.seconds for line in charge.lines) == 3_600
        found += sum(line.seconds for line in charge.lines if line.factors)
    return found


@pytest.mark.parametrize(
    ("zone", "day_start", "hours", "night_hours"),
    [
        ("Asia/Shanghai", datetime(2026, 3, 9, 16, tzinfo=UTC), 24, 9),
        ("Europe/Berlin", datetime(2026, 3, 28, 23, tzinfo=UTC), 23, 8),
        ("Europe/Berlin", datetime(2026, 10, 24, 22, tzinfo=UTC), 25, 10),
        ("America/New_York", datetime(2026, 3, 8, 5, tzinfo=UTC), 23, 8),
        ("America/New_York", datetime(2026, 11, 1, 4, tzinfo=UTC), 25, 10),
    ],
)
def test_days_of_23_24_and_25_hours(zone: str, day_start: datetime, hours: int, night_hours: int) -> None:
    assert seconds_at_night(zone, ("23:00", "08:00"), day_start, hours) == night_hours * 3_600


def test_half_an_hour_is_skipped_and_repeated_on_lord_howe() -> None:
    # +11:00 becomes +10:30 on 2026-04-05 at 02:00 local, which is 15:00 UTC the day before.
    start = datetime(2026, 4, 4, 13, tzinfo=UTC)  # local midnight
    assert seconds_at_night("Australia/Lord_Howe", ("01:30", "02:00"), start, 6) == 3_600
    # +10:30 becomes +11:00 on 2026-10-04 at 02:00 local, which is 15:30 UTC: inside an hour of UTC.
    start = datetime(2026, 10, 3, 13, tzinfo=UTC)
    assert seconds_at_night("Australia/Lord_Howe", ("02:00", "02:30"), start, 6) == 0
    assert seconds_at_night("Australia/Lord_Howe", ("01:45", "02:45"), start, 6) == 1_800


def test_a_window_of_a_half_hour_zone_cuts_the_hour_in_two() -> None:
    rule = {"rule": "night", "factor": "0.50", "when": {"local_time": ["23:00", "08:00"]}}
    rate = pricer(book_body(time_zone="Asia/Kolkata", rules=[rule])).rate
    charge = rate(metered("2026-03-10T17:00:00Z", segment()))
    assert [(line.ranges, len(line.factors)) for line in charge.lines] == [
        ([(0, 1_800)], 0),
        ([(1_800, 3_600)], 1),
    ]


def test_a_window_may_name_seconds() -> None:
    start = datetime(2026, 3, 10, tzinfo=UTC)
    assert seconds_at_night("UTC", ("10:00:05", "10:00:07"), start, 24) == 2
    assert seconds_at_night("UTC", ("23:59:59", "00:00:01"), start, 24) == 2


@pytest.mark.parametrize(
    "zone", ["Africa/Freetown", "Africa/Casablanca", "Asia/Gaza", "America/Sao_Paulo", "Pacific/Apia"]
)
def test_every_change_of_offset_is_found_to_the_second(zone: str) -> None:
    place = zone_named(zone)
    start = epoch_second(datetime(1938, 1, 1, tzinfo=UTC))
    end = epoch_second(datetime(2030, 1, 1, tzinfo=UTC))
    pieces = list(offset_pieces(place, start, end))
    assert pieces[0][0] == start
    assert pieces[-1][1] == end
    for (_, until, offset), (since, _, next_offset) in pairwise(pieces):
        assert until == since
        before = datetime.fromtimestamp(since - 1, place).utcoffset()
        after = datetime.fromtimestamp(since, place).utcoffset()
        assert (before, after) == (timedelta(seconds=offset), timedelta(seconds=next_offset))
        assert before != after
    for piece_start, piece_end, offset in pieces:
        for second in range(piece_start, piece_end, 86_400):
            assert datetime.fromtimestamp(second, place).utcoffset() == timedelta(seconds=offset)


def test_only_names_of_the_iana_database_are_zones() -> None:
    for name in ("Asia/Nowhere", "Asia", "", "../../etc/passwd", "asia/shanghai", "+08:00"):
        with pytest.raises(ValueError, match="not an IANA time zone"):
            zone_named(name)
