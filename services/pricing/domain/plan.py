"""Under which book and at which local times the seconds of an hour fall, worked out once per hour."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import Final, NamedTuple

from services.pricing.domain.book import Book, NamedFactor
from services.pricing.domain.local_time import SECONDS_PER_DAY, offset_pieces
from shared.contracts.facts import Factor, Period
from shared.time import SECONDS_PER_HOUR

THURSDAY: Final = 3  # 1970-01-01 was one
SECONDS_PER_WEEK: Final = 7 * SECONDS_PER_DAY
WEEKLY_MAX: Final = 10_000
PLANS_MAX: Final = 100_000
TARIFFS_MAX: Final = 10_000


class Tariff:
    """What a state costs in certain seconds: amount = quantity x seconds x numerator // denominator.

    `key` is equal for tariffs that may share a line: equal price, period and factors.
    """

    __slots__ = ("denominator", "factors", "key", "numerator", "per", "unit_price")

    def __init__(
        self, unit_price: int, per: Period, period_seconds: int, factors: Sequence[NamedFactor]
    ) -> None:
        product = prod((factor.factor for factor in factors), start=Fraction(1))
        self.unit_price = unit_price
        self.per = per
        self.numerator = unit_price * product.numerator
        self.denominator = period_seconds * product.denominator
        self.factors = [Factor(factor.rule, factor.text) for factor in factors]
        self.key = (unit_price, per, *((factor.rule, factor.text) for factor in factors))


class CompiledBook:
    """A book ready to be asked often. Rules are bits: bit i of a mask says that rule i may apply."""

    def __init__(self, version: int, book: Book) -> None:
        self.version = version
        self._book = book
        self._always = sum(1 << i for i, rule in enumerate(book.rules) if not rule.depends_on_time)
        self._timed = [(1 << i, rule) for i, rule in enumerate(book.rules) if rule.depends_on_time]
        self._labelled = [(1 << i, rule) for i, rule in enumerate(book.rules) if rule.labels]
        self._edges = {0, *(edge for _, rule in self._timed for edge in rule.window or ())}
        self._weekly: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        self._tariffs: dict[tuple[str, str, str, int], Tariff] = {}

    def tariff(
        self, sku: str, mode: str, purchase: str, labels: Mapping[str, str], time_mask: int
    ) -> Tariff | None:
        """None where the book does not know the sku."""
        mask = time_mask
        for bit, rule in self._labelled:
            if mask & bit and not rule.suits_labels(labels):
                mask &= ~bit
        key = (sku, mode, purchase, mask)
        found = self._tariffs.get(key)
        if found is None:
            price = self._book.skus.get(sku)
            if price is None:
                return None
            factors = [
                rule.factor
                for i, rule in enumerate(self._book.rules)
                if mask >> i & 1 and rule.suits(sku, price.kind, mode, purchase)
            ]
            found = Tariff(
                price.unit_price_micro, price.per, price.period_seconds, [*price.factors, *factors]
            )
            if len(self._tariffs) >= TARIFFS_MAX:
                self._tariffs.clear()
            self._tariffs[key] = found
        return found

    def knows(self, sku: str) -> bool:
        return sku in self._book.skus

    def time_masks(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """(from, to, mask) tiling [start, end), seconds since 1970: which rules local time allows (R4)."""
        if not self._timed:
            return [(start, end, self._always)]
        masks: list[tuple[int, int, int]] = []
        for piece_start, piece_end, offset in offset_pieces(self._book.zone, start, end):
            local = self._local_masks((piece_start + offset) % SECONDS_PER_WEEK, piece_end - piece_start)
            for since, until, mask in local:
                if masks and masks[-1][2] == mask:
                    masks[-1] = (masks[-1][0], piece_start + until, mask)
                else:
                    masks.append((piece_start + since, piece_start + until, mask))
        return masks

    def _local_masks(self, first: int, seconds: int) -> list[tuple[int, int, int]]:
        """The same for a stretch without a change of offset, which begins at the local second `first`
        since the Thursday that 1970 began with; relative to its start. The same few recur each week.
        """
        found = self._weekly.get((first, seconds))
        if found is not None:
            return found
        cuts = {0, seconds}
        for edge in self._edges:
            cuts.update(range((edge - first) % SECONDS_PER_DAY, seconds, SECONDS_PER_DAY))
        ordered = sorted(cuts)
        found = [(a, b, self._mask_at(first + a)) for a, b in pairwise(ordered)]
        if len(self._weekly) >= WEEKLY_MAX:
            self._weekly.clear()
        self._weekly[first, seconds] = found
        return found

    def _mask_at(self, local_second: int) -> int:
        day, second_of_day = divmod(local_second, SECONDS_PER_DAY)
        weekday = (day + THURSDAY) % 7
        return self._always + sum(bit for bit, rule in self._timed if rule.holds_at(second_of_day, weekday))


class Piece(NamedTuple):
    """[start, end) in seconds of the hour, all under one book (None: no price yet) and one mask."""

    start: int
    end: int
    book: CompiledBook | None
    mask: int


class HourPlan:
    """The pieces that tile an hour. Hours alike share one plan, so that they can be counted by it."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        self.pieces = pieces


class Timeline:
    """Which book is in force when: the latest `effective_from` wins, of equal ones the later version."""

    def __init__(self, books: Sequence[tuple[int, Book]]) -> None:
        """`books` are all published ones, as (version, book); the order does not matter."""
        in_force: dict[int, tuple[int, Book]] = {}
        for version, book in sorted(books, key=lambda item: (item[1].effective_from, item[0])):
            in_force[book.first_second] = (version, book)
        self._starts = list(in_force)
        self._books = [CompiledBook(version, book) for version, book in in_force.values()]
        self._plans: dict[int, HourPlan] = {}
        self._alike: dict[tuple[Piece, ...], HourPlan] = {}

    def plan(self, hour: int) -> HourPlan:
        """The plan of the hour that starts at `hour`, seconds since 1970."""
        found = self._plans.get(hour)
        if found is None:
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
                self._alike.clear()
            pieces = tuple(self._pieces(hour))
            found = self._plans[hour] = self._alike.setdefault(pieces, HourPlan(pieces))
        return found

    def books_between(self, start: int, end: int) -> list[tuple[int, CompiledBook | None]]:
        """(from, book) for each book in force in [start, end); None before the first."""
        first = bisect_right(self._starts, start) - 1
        found = [(start, self._books[first] if first >= 0 else None)]
        for index in range(first + 1, len(self._starts)):
            if self._starts[index] >= end:
                break
            found.append((self._starts[index], self._books[index]))
        return found

    def _pieces(self, hour: int) -> list[Piece]:
        end = hour + SECONDS_PER_HOUR
        books = self.books_between(hour, end)
        ends = [start for start, _ in books[1:]] + [end]
        pieces: list[Piece] = []
        for (start, book), until in zip(books, ends, strict=True):
            masks = book.time_masks(start, until) if book else [(start, until, 0)]
            pieces.extend(Piece(a - hour, b - hour, book, mask) for a, b, mask in masks)
        return pieces
