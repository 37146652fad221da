"""What planned usage would cost: the sum of its hours, each rated as real usage would be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from services.pricing.domain.plan import HourPlan
from services.pricing.domain.rating import Pricer
from shared.contracts.facts import Factor, Segment, UsageMetered
from shared.errors import Invalid
from shared.time import SECONDS_PER_HOUR, epoch_second, format_epoch, hour_of

ITEMS_MAX: Final = 100
SPAN_DAYS_MAX: Final = 366
EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC)

_FULL_HOUR: Final = (0, SECONDS_PER_HOUR)


class QuoteRefused(Invalid):
    """An item that cannot be meant; fact: `field`, its path."""

    code = "invalid_quote"


class NoPrice(Invalid):
    """An item that has no price, or not for all of its seconds; fact: `field`, its path."""

    code = "no_price"


@dataclass(frozen=True, slots=True)
class QuoteItem:
    """One state over [start, end); seconds are counted as in a usage report (DESIGN 3)."""

    sku: str
    quantity: int
    mode: str
    purchase: str
    labels: Mapping[str, str]
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class QuoteLine:
    """All seconds of an item at one price with one set of factors; `amount` is the sum of its hours'."""

    seconds: int
    unit_price_micro: int
    per: str
    factors: Sequence[Factor]
    amount_micro: int


@dataclass(frozen=True, slots=True)
class QuotedItem:
    item: QuoteItem
    seconds: int
    lines: Sequence[QuoteLine]
    amount_micro: int


@dataclass(frozen=True, slots=True)
class Quote:
    price_book: int
    items: Sequence[QuotedItem]
    total_micro: int


def quote(pricer: Pricer, items: Sequence[QuoteItem]) -> Quote:
    """The bill of these items, to the micro-yuan, should they run and the books stay as they are.

    Usage is charged by the resource-hour and floored once per line of it (R6); so is this: the total is
    the sum of the hours' amounts, not a price times all seconds. Raises QuoteRefused or NoPrice.
    """
    spans: dict[tuple[int, int], dict[HourPlan, tuple[int, int]]] = {}
    quoted = []
    for index, item in enumerate(items):
        _refuse_misfit(f"items[{index}]", item)
        quoted.append(_quote_item(pricer, f"items[{index}]", item, spans))
    return Quote(pricer.head, quoted, sum(item.amount_micro for item in quoted))


def _refuse_misfit(path: str, item: QuoteItem) -> None:
    if item.end <= item.start:
        raise QuoteRefused(f"{path}.end: is not after start", field=f"{path}.end")
    if item.end - item.start > timedelta(days=SPAN_DAYS_MAX):
        raise QuoteRefused(f"{path}.end: is more than {SPAN_DAYS_MAX} days after start", field=f"{path}.end")
    if item.start < EARLIEST or item.end > LATEST:
        raise QuoteRefused(f"{path}.start: must lie between 2000 and 2200", field=f"{path}.start")


def _quote_item(
    pricer: Pricer,
    path: str,
    item: QuoteItem,
    spans: dict[tuple[int, int], dict[HourPlan, tuple[int, int]]],
) -> QuotedItem:
    start, end = epoch_second(item.start), epoch_second(item.end)
    _refuse_unpriced(pricer, path, item, start, end)
    lines: dict[tuple[object, ...], QuoteLine] = {}
    for hour, covered, times in _hours(pricer, start, end, spans):
        segment = Segment(item.sku, item.quantity, item.mode, item.purchase, dict(item.labels), [covered])
        for line in pricer.rate(UsageMetered("", "", format_epoch(hour), 0, [segment])).lines:
            key = (line.unit_price, line.per, *((factor.rule, factor.factor) for factor in line.factors))
            before = lines.get(key)
            lines[key] = QuoteLine(
                (before.seconds if before else 0) + line.seconds * times,
                line.unit_price,
                line.per,
                line.factors,
                (before.amount_micro if before else 0) + line.amount * times,
            )
    return QuotedItem(
        item, end - start, list(lines.values()), sum(line.amount_micro for line in lines.values())
    )


def _refuse_unpriced(pricer: Pricer, path: str, item: QuoteItem, start: int, end: int) -> None:
    books = pricer.timeline.books_between(start, max(end, start + 1))
    if books[0][1] is None:
        raise NoPrice(f"{path}.start: no price book is in force yet", field=f"{path}.start")
    for since, book in books:
        if book is not None and not book.knows(item.sku):
            raise NoPrice(
                f"{path}.sku: the price book in force at {format_epoch(since)} knows no {item.sku}",
                field=f"{path}.sku",
            )


def _hours(
    pricer: Pricer,
    start: int,
    end: int,
    spans: dict[tuple[int, int], dict[HourPlan, tuple[int, int]]],
) -> list[tuple[int, tuple[int, int], int]]:
    """(hour, seconds of it, how many such hours): the cut ends, and whole hours counted by their plan."""
    first, last = hour_of(start), hour_of(end)
    if first == last:
        return [(first, (start - first, end - first), 1)] if end > start else []
    hours = []
    if start > first:
        hours.append((first, (start - first, SECONDS_PER_HOUR), 1))
        first += SECONDS_PER_HOUR
    if (first, last) not in spans:
        counts: dict[HourPlan, tuple[int, int]] = {}
        for hour in range(first, last, SECONDS_PER_HOUR):
            plan = pricer.timeline.plan(hour)
            sample, times = counts.get(plan, (hour, 0))
            counts[plan] = (sample, times + 1)
        spans[first, last] = counts
    hours.extend((sample, _FULL_HOUR, times) for sample, times in spans[first, last].values())
    if end > last:
        hours.append((last, (0, end - last), 1))
    return hours
