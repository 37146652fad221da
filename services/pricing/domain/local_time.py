"""Local time of real seconds (R4): exact on days of 23 and 25 hours and for any offset."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

SECONDS_PER_DAY: Final = 86_400
_BLOCK_SECONDS: Final = 64 * SECONDS_PER_DAY
_SECOND: Final = timedelta(seconds=1)


class LocalWindow(NamedTuple):
    """[start, end) in seconds of the local day; wraps midnight where end < start."""

    start: int
    end: int

    def holds(self, second_of_day: int) -> bool:
        if self.start < self.end:
            return self.start <= second_of_day < self.end
        return second_of_day >= self.start or second_of_day < self.end


def parse_local_time(text: str) -> int:
    """Seconds of the day of "HH:MM" or "HH:MM:SS"."""
    hours, minutes, *seconds = (int(part) for part in text.split(":"))
    return hours * 3600 + minutes * 60 + sum(seconds)


def zone_named(name: str) -> ZoneInfo:
    """The IANA zone. Raises ValueError where there is none of that name, whatever files the host has."""
    if name not in _zone_names():
        raise ValueError(f"{name!r} is not an IANA time zone")
    return ZoneInfo(name)


@cache
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones())


def offset_pieces(zone: ZoneInfo, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(from, to, offset) tiling [start, end): seconds since 1970, local time being second + offset."""
    piece_start, piece_offset = start, None
    for block in range(start // _BLOCK_SECONDS, (end - 1) // _BLOCK_SECONDS + 1):
        for since, offset in _offsets_of_block(zone, block):
            if since <= start:
                piece_offset = offset
            elif since < end and offset != piece_offset:
                assert piece_offset is not None  # noqa: S101 - a block tells the offset of its first second
                yield piece_start, since, piece_offset
                piece_start, piece_offset = since, offset
    assert piece_offset is not None  # noqa: S101 - as above
    yield piece_start, end, piece_offset


@lru_cache(maxsize=4096)
def _offsets_of_block(zone: ZoneInfo, block: int) -> list[tuple[int, int]]:
    """(since, offset) of a block, the first at its beginning. Changes are found to the second.

    Days are compared and a change is then searched for inside the day: in all of the IANA database no
    zone has changed its offset twice within three days (the least is Africa/Freetown, 1939).
    """
    known, end = block * _BLOCK_SECONDS, (block + 1) * _BLOCK_SECONDS
    offsets = [(known, _offset(zone, known))]
    while known < end - 1:
        probe = min(known + SECONDS_PER_DAY, end - 1)
        if _offset(zone, probe) != offsets[-1][1]:
            before, after = known, probe
            while after - before > 1:
                middle = (before + after) // 2
                if _offset(zone, middle) == offsets[-1][1]:
                    before = middle
                else:
                    after = middle
            offsets.append((after, _offset(zone, after)))
        known = probe
    return offsets


def _offset(zone: ZoneInfo, second: int) -> int:
    offset = datetime.fromtimestamp(second, zone).utcoffset()
    assert offset is not None  # noqa: S101 - a ZoneInfo always knows
    return offset // _SECOND
