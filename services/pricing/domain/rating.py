"""Rating (R1 to R7): a price book times seconds. Integers only, floored once per line."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from services.pricing.domain.book import Book
from services.pricing.domain.plan import HourPlan, Piece, Tariff, Timeline
from shared.contracts.facts import ChargeLine, ChargeRated, Range, Segment, Unpriced, UsageMetered
from shared.time import SECONDS_PER_HOUR, format_epoch, parse_epoch

HOURS_CACHED_MAX: Final = 100_000


class FactRefused(Exception):  # noqa: N818 - an answer, not a fault
    """The metered fact contradicts its own contract and cannot be rated."""


class Pricer:
    """All price books known at one moment, and the pure function that rates under them."""

    def __init__(self, books: Mapping[int, Book]) -> None:
        """`books` by version: every one published so far."""
        self.head = max(books, default=0)
        self.timeline = Timeline(list(books.items()))
        self._hours: dict[str, tuple[int, HourPlan]] = {}

    def rate(self, fact: UsageMetered) -> ChargeRated:
        """The whole price of a resource-hour and why (R7). Raises FactRefused.

        A line is all seconds that share state, unit price and factors, also across a change of books.
        Lines are ordered by their first second; seconds that have no price are in `unpriced`.
        """
        found = self._hours.get(fact.hour)
        hour, plan = found if found is not None else self._learn(fact.hour)
        pieces = plan.pieces
        if len(pieces) == 1 and len(fact.segments) == 1 and len(fact.segments[0].ranges) == 1:
            # Nearly every hour: one state, one stretch, one book, one window.
            return self._rate_simple(fact, hour, fact.segments[0], plan)
        return self._rate_any(fact, hour, plan)

    def _rate_simple(self, fact: UsageMetered, hour: int, segment: Segment, plan: HourPlan) -> ChargeRated:
        ranges = segment.ranges
        start, end = ranges[0]
        quantity = segment.quantity
        if not 0 <= start < end <= SECONDS_PER_HOUR or quantity < 1:
            _refuse(segment)
        seconds = end - start
        _, _, book, mask = plan.pieces[0]
        tariff = (
            book.tariff(segment.sku, segment.mode, segment.purchase, segment.labels, mask)
            if book is not None
            else None
        )
        if tariff is None:
            amount = rate_per_hour = 0
            lines = []
            unpriced = [Unpriced(segment.sku, seconds)]
        else:
            amount = quantity * seconds * tariff.numerator // tariff.denominator
            rate_per_hour = quantity * SECONDS_PER_HOUR * tariff.numerator // tariff.denominator
            lines = [
                ChargeLine(
                    segment.sku,
                    quantity,
                    segment.mode,
                    segment.purchase,
                    segment.labels,
                    ranges,
                    seconds,
                    tariff.unit_price,
                    tariff.per,
                    tariff.factors,
                    amount,
                )
            ]
            unpriced = []
        return ChargeRated(
            fact.account_id,
            fact.resource_id,
            fact.hour,
            fact.revision,
            self.head,
            amount,
            lines,
            unpriced,
            format_epoch(hour + end),
            rate_per_hour,
        )

    def _rate_any(self, fact: UsageMetered, hour: int, plan: HourPlan) -> ChargeRated:
        lines: dict[tuple[object, ...], tuple[Segment, Tariff, list[Range]]] = {}
        unpriced: dict[str, int] = {}
        last_end = rate_per_hour = 0
        for segment, ranges in _tiled(fact.segments):
            state = (segment.sku, segment.quantity, segment.mode, segment.purchase, _label_key(segment))
            for piece in plan.pieces:
                inside = _intersect(ranges, piece.start, piece.end)
                if not inside:
                    continue
                tariff = _tariff(piece, segment)
                if tariff is None:
                    unpriced[segment.sku] = unpriced.get(segment.sku, 0) + _seconds(inside)
                else:
                    lines.setdefault((state, tariff.key), (segment, tariff, []))[2].extend(inside)
                if inside[-1][1] > last_end:
                    last_end = inside[-1][1]
                    rate_per_hour = _amount(tariff, segment.quantity, SECONDS_PER_HOUR) if tariff else 0
        charged = [_line(segment, tariff, merged(ranges)) for segment, tariff, ranges in lines.values()]
        charged.sort(key=_first_second)
        return ChargeRated(
            fact.account_id,
            fact.resource_id,
            fact.hour,
            fact.revision,
            self.head,
            sum(line.amount for line in charged),
            charged,
            [Unpriced(sku, seconds) for sku, seconds in sorted(unpriced.items())],
            format_epoch(hour + last_end),
            rate_per_hour,
        )

    def _learn(self, text: str) -> tuple[int, HourPlan]:
        try:
            hour = parse_epoch(text)
        except ValueError as error:
            raise FactRefused(f"hour: {error}") from None
        if hour % SECONDS_PER_HOUR or format_epoch(hour) != text:
            raise FactRefused(f"hour: {text} is not the start of an hour in UTC")
        if len(self._hours) >= HOURS_CACHED_MAX:
            self._hours.clear()
        found = self._hours[text] = (hour, self.timeline.plan(hour))
        return found


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The same seconds as sorted ranges that neither overlap nor touch."""
    joined: list[Range] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _tiled(segments: Sequence[Segment]) -> list[tuple[Segment, list[Range]]]:
    """Each segment with its merged ranges. Raises FactRefused where a second is in two segments."""
    tiled = []
    for segment in segments:
        if segment.quantity < 1 or not all(0 <= a < b <= SECONDS_PER_HOUR for a, b in segment.ranges):
            _refuse(segment)
        tiled.append((segment, merged(segment.ranges)))
    if len(tiled) > 1:
        everything = [piece for _, ranges in tiled for piece in ranges]
        if _seconds(everything) != _seconds(merged(everything)):
            raise FactRefused("segments: a second is in two of them")
    return tiled


def _intersect(ranges: Sequence[Range], start: int, end: int) -> list[Range]:
    return [(max(a, start), min(b, end)) for a, b in ranges if a < end and b > start]


def _seconds(ranges: Iterable[Range]) -> int:
    return sum(end - start for start, end in ranges)


def _tariff(piece: Piece, segment: Segment) -> Tariff | None:
    if piece.book is None:
        return None
    return piece.book.tariff(segment.sku, segment.mode, segment.purchase, segment.labels, piece.mask)


def _amount(tariff: Tariff, quantity: int, seconds: int) -> int:
    return quantity * seconds * tariff.numerator // tariff.denominator


def _line(segment: Segment, tariff: Tariff, ranges: list[Range]) -> ChargeLine:
    seconds = _seconds(ranges)
    return ChargeLine(
        segment.sku,
        segment.quantity,
        segment.mode,
        segment.purchase,
        segment.labels,
        ranges,
        seconds,
        tariff.unit_price,
        tariff.per,
        tariff.factors,
        _amount(tariff, segment.quantity, seconds),
    )


def _first_second(line: ChargeLine) -> int:
    return line.ranges[0][0]


def _label_key(segment: Segment) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(segment.labels.items()))


def _refuse(segment: Segment) -> None:
    raise FactRefused(
        f"segments: {segment.sku} x {segment.quantity} over {segment.ranges[:3]} is not a quantity >= 1"
        f" over ranges within [0, {SECONDS_PER_HOUR})"
    )
