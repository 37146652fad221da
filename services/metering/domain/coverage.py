"""Sets of seconds of one hour: as ranges on the wire, as text in PostgreSQL, as bits for arithmetic."""

from collections.abc import Iterable, Sequence

from shared.contracts.facts import Range


def format_multirange(ranges: Sequence[Range]) -> str:
    """PostgreSQL's input for an int4multirange; it sorts and merges, so any order and overlap will do."""
    if len(ranges) == 1:
        return f"{{[{ranges[0][0]},{ranges[0][1]})}}"
    return "{" + ",".join([f"[{start},{end})" for start, end in ranges]) + "}"


def parse_multirange(text: str) -> list[Range]:
    """The ranges of PostgreSQL's output, which are sorted and neither touch nor overlap."""
    if text == "{}":
        return []
    bounds = text[2:-2].replace("),[", ",").split(",")
    if len(bounds) == 2:  # noqa: PLR2004 - the two ends of the one range that most hours are
        return [(int(bounds[0]), int(bounds[1]))]
    ends = iter(map(int, bounds))
    return list(zip(ends, ends, strict=True))


def json_of_multirange(text: str) -> str:
    """PostgreSQL's output as the wire has it: "{[0,60),[70,80)}" is "[[0,60],[70,80]]"."""
    return f"[{text[1:-1].replace(')', ']')}]"


def mask_of(ranges: Iterable[Range]) -> int:
    """Bit k is set when second k is covered: unions and differences are then single operations."""
    mask = 0
    for start, end in ranges:
        mask |= (1 << end) - (1 << start)
    return mask


def ranges_of(mask: int) -> list[Range]:
    """The sorted, merged ranges of a mask."""
    ranges = []
    offset = 0
    while mask:
        gap = (mask & -mask).bit_length() - 1
        mask >>= gap
        run = (~mask & (mask + 1)).bit_length() - 1
        mask >>= run
        ranges.append((offset + gap, offset + gap + run))
        offset += gap + run
    return ranges


def seconds_in(ranges: Iterable[Range]) -> int:
    return sum(end - start for start, end in ranges)
