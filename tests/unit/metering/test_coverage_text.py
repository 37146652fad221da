"""Ranges, PostgreSQL's text of them, and bits."""

import pytest

from services.metering.domain.coverage import (
    format_multirange,
    mask_of,
    parse_multirange,
    ranges_of,
    seconds_in,
)
from shared.contracts.facts import Range

WRITTEN = [
    ([], "{}"),
    ([(0, 60)], "{[0,60)}"),
    ([(0, 60), (70, 80)], "{[0,60),[70,80)}"),
    ([(0, 1), (2, 3), (3599, 3600)], "{[0,1),[2,3),[3599,3600)}"),
]


@pytest.mark.parametrize(("ranges", "text"), WRITTEN)
def test_ranges_are_written_and_read_as_postgresql_writes_them(ranges: list[Range], text: str) -> None:
    assert format_multirange(ranges) == text
    assert parse_multirange(text) == ranges


def test_a_mask_merges_what_touches_and_overlaps() -> None:
    assert ranges_of(mask_of([(50, 60), (0, 10), (10, 20), (15, 30)])) == [(0, 30), (50, 60)]


def test_a_whole_hour_and_nothing_are_masks_too() -> None:
    assert ranges_of(mask_of([(0, 3600)])) == [(0, 3600)]
    assert ranges_of(0) == []


def test_seconds_are_counted_per_range() -> None:
    assert seconds_in([(0, 10), (20, 25)]) == 15
