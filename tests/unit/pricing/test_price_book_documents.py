"""A book is checked as a whole; each fault is named with its path."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from services.pricing.domain.book import BookRefused, refuse_rewriting_the_past
from services.pricing.domain.document import BookDocument
from tests.support.books import book, book_body, sku_body

PRICES = ["-1", "1e3", "NaN", "0.0000001", "10000.000001", "", "1,00", " 1", "1.", ".5", "+1", "inf", 1.66, 2]


def with_sku(**changes: Any) -> dict[str, Any]:
    return book_body(skus=[sku_body("base"), sku_body("x", **changes)], rules=[])


def with_rule(**changes: Any) -> dict[str, Any]:
    return book_body(rules=[{"rule": "r", "factor": "0.50", "when": {}, **changes}])


def with_when(**when: Any) -> dict[str, Any]:
    return with_rule(when=when)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        *[(with_sku(price=price), "skus.1.price") for price in PRICES],
        (with_sku(per="fortnight"), "skus.1.per"),
        (with_sku(kind="GPU"), "skus.1.kind"),
        (with_sku(sku="a b"), "skus.1.sku"),
        (with_sku(sku="x" * 129), "skus.1.sku"),
        (with_sku(name=""), "skus.1.name"),
        (with_sku(memory_gib="24"), "skus.1.memory_gib"),
        (with_sku(prize="1"), "skus.1.prize"),
        (with_sku(price=None, price_of={"sku": "base", "ratio": "0"}), "skus.1.price_of.ratio"),
        (with_sku(price=None, price_of={"sku": "base", "ratio": "0.1234567"}), "skus.1.price_of.ratio"),
        *[(with_rule(factor=factor), "rules.0.factor") for factor in ("0", "1.01", "-0.5", "half", 0.5)],
        (with_when(kinds=["cpu"]), "rules.0.when.kinds.0"),
        (with_when(kinds=[]), "rules.0.when.kinds"),
        (with_when(mode="off"), "rules.0.when.mode"),
        (with_when(purchase="spot"), "rules.0.when.purchase"),
        (with_when(local_time=["23:00"]), "rules.0.when.local_time"),
        (with_when(local_time=["23:00", "24:00"]), "rules.0.when.local_time.1"),
        (with_when(local_time=["23", "08:00"]), "rules.0.when.local_time.0"),
        (with_when(weekdays=["Monday"]), "rules.0.when.weekdays.0"),
        (with_when(weekday=["mon"]), "rules.0.when.weekday"),
        (with_when(labels={"": "x"}), "rules.0.when.labels..[key]"),
        (book_body(currency="USD"), "currency"),
        (book_body(skus=[]), "skus"),
        (book_body(correction="yes"), "correction"),
        (book_body(effective_from="2026-01-01T00:00:00"), "effective_from"),
        (book_body(effective_from=1767196800), "effective_from"),
        (book_body(trial_credit={"amount": "-1", "days": 30}), "trial_credit.amount"),
        (book_body(trial_credit={"amount": "10", "days": 0}), "trial_credit.days"),
        (book_body(note="x"), "note"),
    ],
)
def test_a_field_that_breaks_the_grammar_is_named(body: dict[str, Any], path: str) -> None:
    with pytest.raises(ValidationError) as refused:
        BookDocument.model_validate(body)
    assert [".".join(map(str, error["loc"])) for error in refused.value.errors()] == [path]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (book_body(skus=[sku_body("x"), sku_body("x")], rules=[]), "skus[1].sku: 'x' is in the book twice"),
        (with_sku(price=None), "skus[1].price: give exactly one of price and price_of"),
        (
            with_sku(price_of={"sku": "base", "ratio": "0.5"}),
            "skus[1].price: give exactly one of price and price_of",
        ),
        (
            with_sku(price=None, price_of={"sku": "y", "ratio": "0.5"}),
            "skus[1].price_of: 'y' is not a sku of this book",
        ),
        (
            with_sku(price=None, price_of={"sku": "x", "ratio": "0.5"}),
            "skus[1].price_of: the price leads in a circle, or over more than 8 other skus",
        ),
        (
            with_sku(per="day", price=None, price_of={"sku": "base", "ratio": "0.5"}),
            "skus[1].price_of: 'base' is priced per hour, this sku per day",
        ),
        (
            with_sku(price=None, price_of={"sku": "base", "ratio": "10000"})
            | {
                "skus": [
                    sku_body("base", price="2"),
                    sku_body("x", price=None, price_of={"sku": "base", "ratio": "10000"}),
                ]
            },
            "skus[1].price_of: the price comes out above 10000",
        ),
        (with_when(skus=["rtx-4090", "y"]), "rules[0].when.skus[1]: 'y' is not a sku of this book"),
        (
            with_when(local_time=["08:00", "08:00:00"]),
            "rules[0].when.local_time: is empty; leave it out to mean all day",
        ),
        (with_rule(rule="price_of"), "rules[0].rule: the name 'price_of' is taken"),
        (
            book_body(rules=[{"rule": "r", "factor": "0.50", "when": {}}] * 2),
            "rules[1].rule: the name 'r' is taken",
        ),
        (book_body(time_zone="Asia/Nowhere"), "time_zone: 'Asia/Nowhere' is not an IANA time zone"),
    ],
)
def test_a_book_that_does_not_hold_together_is_refused(body: dict[str, Any], problem: str) -> None:
    with pytest.raises(BookRefused) as refused:
        book(body)
    assert refused.value.problems == (problem,)
    assert refused.value.detail == problem


def test_all_faults_are_told_at_once() -> None:
    body = with_when(skus=["y"]) | {"time_zone": "Nowhere"}
    with pytest.raises(BookRefused) as refused:
        book(body)
    assert [problem.partition(":")[0] for problem in refused.value.problems] == [
        "rules[0].when.skus[0]",
        "time_zone",
    ]


def test_prices_that_lead_in_a_ring_are_each_refused() -> None:
    ring = [
        sku_body(name, price=None, price_of={"sku": follower, "ratio": "0.9"})
        for name, follower in (("a", "b"), ("b", "c"), ("c", "a"))
    ]
    with pytest.raises(BookRefused) as refused:
        book(book_body(skus=ring, rules=[]))
    assert [problem.partition(":")[0] for problem in refused.value.problems] == [
        f"skus[{index}].price_of" for index in range(3)
    ]


@pytest.mark.parametrize("price", ["0", "10000", "0.000001", "1.66", "007"])
def test_a_price_is_a_plain_decimal(price: str) -> None:
    assert book(with_sku(price=price)).skus["x"].unit_price_micro >= 0


def test_only_a_correction_may_begin_in_the_past() -> None:
    now = datetime(2026, 3, 10, tzinfo=UTC)
    past = "2026-03-09T23:59:59.999999Z"
    with pytest.raises(BookRefused, match=r"^effective_from: "):
        refuse_rewriting_the_past(book(book_body(effective_from=past)), now)
    refuse_rewriting_the_past(book(book_body(effective_from=past, correction=True)), now)
    refuse_rewriting_the_past(book(book_body(effective_from="2026-03-10T08:00:00+08:00")), now)
