"""A price book that holds together: every name known, every chain of prices resolved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Final
from zoneinfo import ZoneInfo

from services.pricing.domain.document import PRICE_MICRO_MAX, BookDocument, RuleDocument, SkuDocument
from services.pricing.domain.local_time import LocalWindow, parse_local_time, zone_named
from shared.contracts.facts import Period
from shared.errors import Invalid
from shared.money import PERIOD_SECONDS, Micro, parse_cny
from shared.time import epoch_second, format_instant

PRICE_OF: Final = "price_of"
"""Names the factor of a derived price that is not whole micro-yuan; no rule may be called so."""

CHAIN_LINKS_MAX: Final = 8
PROBLEMS_SHOWN_MAX: Final = 20
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class BookRefused(Invalid):
    """The document cannot be a price book; `detail` names each place and what is wrong there."""

    code = "invalid_price_book"

    def __init__(self, problems: Sequence[str]) -> None:
        shown = list(problems[:PROBLEMS_SHOWN_MAX])
        if len(problems) > len(shown):
            shown.append(f"and {len(problems) - len(shown)} more")
        super().__init__("; ".join(shown))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class NamedFactor:
    """`text` is canonical, so that equal factors are equal texts: "0.50" for "0.5"."""

    rule: str
    factor: Fraction
    text: str


@dataclass(frozen=True, slots=True)
class SkuPrice:
    """What one unit costs over `per`. `factors` holds `price_of` where the price alone is not exact."""

    sku: str
    kind: str
    per: Period
    unit_price_micro: int
    factors: tuple[NamedFactor, ...]

    @property
    def period_seconds(self) -> int:
        return PERIOD_SECONDS[self.per]


@dataclass(frozen=True, slots=True)
class Rule:
    """A factor and all that must hold for it; None where a thing does not matter."""

    factor: NamedFactor
    purchase: str | None
    mode: str | None
    kinds: frozenset[str] | None
    skus: frozenset[str] | None
    labels: tuple[tuple[str, str], ...]
    window: LocalWindow | None
    weekdays: frozenset[int] | None

    @property
    def depends_on_time(self) -> bool:
        return self.window is not None or self.weekdays is not None

    def holds_at(self, second_of_day: int, weekday: int) -> bool:
        """Whether local time allows it; `weekday` 0 is Monday."""
        return (self.window is None or self.window.holds(second_of_day)) and (
            self.weekdays is None or weekday in self.weekdays
        )

    def suits(self, sku: str, kind: str, mode: str, purchase: str) -> bool:
        return (
            (self.purchase is None or self.purchase == purchase)
            and (self.mode is None or self.mode == mode)
            and (self.kinds is None or kind in self.kinds)
            and (self.skus is None or sku in self.skus)
        )

    def suits_labels(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(name) == value for name, value in self.labels)


@dataclass(frozen=True, slots=True)
class TrialCredit:
    amount_micro: Micro
    days: int


@dataclass(frozen=True, slots=True)
class Book:
    """Prices and rules in force from `effective_from`; a second k is under it if effective_from <= k."""

    effective_from: datetime
    correction: bool
    zone: ZoneInfo
    skus: Mapping[str, SkuPrice]
    rules: tuple[Rule, ...]
    trial_credit: TrialCredit | None

    @property
    def first_second(self) -> int:
        """The first whole second, since 1970, at or after `effective_from` (R5)."""
        second = epoch_second(self.effective_from)
        return second + 1 if self.effective_from.microsecond else second


def build_book(document: BookDocument) -> Book:
    """The book a document describes. Raises BookRefused with every problem found."""
    problems: list[str] = []
    skus = _resolve_prices(document.skus, problems)
    rules = _resolve_rules(document, problems)
    zone = ZoneInfo("UTC")
    try:
        zone = zone_named(document.time_zone)
    except ValueError as error:
        problems.append(f"time_zone: {error}")
    if problems:
        raise BookRefused(problems)
    trial = document.trial_credit
    return Book(
        effective_from=document.effective_from,
        correction=document.correction,
        zone=zone,
        skus=skus,
        rules=rules,
        trial_credit=TrialCredit(parse_cny(trial.amount), trial.days) if trial else None,
    )


def refuse_rewriting_the_past(book: Book, now: datetime) -> None:
    """R5: only a correction may take effect at an instant that has passed. Raises BookRefused."""
    if not book.correction and book.effective_from < now:
        passed, present = format_instant(book.effective_from), format_instant(now)
        raise BookRefused(
            [f'effective_from: {passed} is past, now is {present}; that takes a book with "correction": true']
        )


def decimal_text(value: Fraction) -> str:
    """An exact decimal with at least two places. The value must have a finite expansion."""
    places = 2
    while (value * 10**places).denominator != 1:
        places += 1
    whole, fraction = divmod(int(value * 10**places), 10**places)
    return f"{whole}.{fraction:0{places}d}"


def _resolve_prices(documents: Sequence[SkuDocument], problems: list[str]) -> dict[str, SkuPrice]:
    by_name: dict[str, SkuDocument] = {}
    for index, document in enumerate(documents):
        if document.sku in by_name:
            problems.append(f"skus[{index}].sku: {document.sku!r} is in the book twice")
        by_name.setdefault(document.sku, document)
        if (document.price is None) == (document.price_of is None):
            problems.append(f"skus[{index}].price: give exactly one of price and price_of")
    if problems:
        return {}
    prices = {}
    for index, document in enumerate(documents):
        try:
            prices[document.sku] = _resolve_price(document, by_name)
        except ValueError as error:
            problems.append(f"skus[{index}].price_of: {error}")
    return prices


def _resolve_price(document: SkuDocument, by_name: Mapping[str, SkuDocument]) -> SkuPrice:
    ratio = Fraction(1)
    base, links = document, 0
    while base.price_of is not None:
        links += 1
        if links > CHAIN_LINKS_MAX or (links > 1 and base is document):
            raise ValueError(f"the price leads in a circle, or over more than {CHAIN_LINKS_MAX} other skus")
        if base.price_of.sku not in by_name:
            raise ValueError(f"{base.price_of.sku!r} is not a sku of this book")
        ratio *= Fraction(base.price_of.ratio)
        base = by_name[base.price_of.sku]
        if base.per != document.per:
            raise ValueError(f"{base.sku!r} is priced per {base.per}, this sku per {document.per}")
    assert base.price is not None  # noqa: S101 - checked before any chain is followed
    base_micro = parse_cny(base.price)
    derived = base_micro * ratio
    if derived > PRICE_MICRO_MAX:
        raise ValueError("the price comes out above 10000")
    if derived.denominator == 1:
        return SkuPrice(document.sku, document.kind, document.per, int(derived), ())
    factor = NamedFactor(PRICE_OF, ratio, decimal_text(ratio))
    return SkuPrice(document.sku, document.kind, document.per, base_micro, (factor,))


def _resolve_rules(document: BookDocument, problems: list[str]) -> tuple[Rule, ...]:
    known = {sku.sku for sku in document.skus}
    names: set[str] = set()
    for index, rule in enumerate(document.rules):
        if rule.rule == PRICE_OF or rule.rule in names:
            problems.append(f"rules[{index}].rule: the name {rule.rule!r} is taken")
        names.add(rule.rule)
        problems.extend(
            f"rules[{index}].when.skus[{place}]: {sku!r} is not a sku of this book"
            for place, sku in enumerate(rule.when.skus or ())
            if sku not in known
        )
        window = rule.when.local_time
        if window and parse_local_time(window[0]) == parse_local_time(window[1]):
            problems.append(f"rules[{index}].when.local_time: is empty; leave it out to mean all day")
    return tuple(_resolve_rule(rule) for rule in document.rules)


def _resolve_rule(document: RuleDocument) -> Rule:
    when = document.when
    factor = Fraction(document.factor)
    return Rule(
        factor=NamedFactor(document.rule, factor, decimal_text(factor)),
        purchase=when.purchase,
        mode=when.mode,
        kinds=frozenset(when.kinds) if when.kinds else None,
        skus=frozenset(when.skus) if when.skus else None,
        labels=tuple(sorted((when.labels or {}).items())),
        window=LocalWindow(*map(parse_local_time, when.local_time)) if when.local_time else None,
        weekdays=frozenset(map(_WEEKDAYS.index, when.weekdays)) if when.weekdays else None,
    )
