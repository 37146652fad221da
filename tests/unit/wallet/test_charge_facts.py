"""What the wallet accepts as a rated charge, and which of several it keeps."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from services.wallet.domain.charges import InvalidFact, decode_charge, fold
from services.wallet.domain.openings import decode_opening
from shared.contracts.facts import AccountOpened, encode_fact
from tests.support.wallet import NOON_EPOCH, charge, line, rated

RIGHT = json.loads(rated("a", NOON_EPOCH, [line((0, 3600))]))

Spoil = Callable[[dict[str, Any]], object]


def test_lines_are_carried_as_they_came() -> None:
    decoded = decode_charge(rated("a", NOON_EPOCH, [line((0, 3600))]))
    assert json.loads(decoded.lines) == RIGHT["lines"]
    assert (decoded.hour, decoded.covered_until, decoded.amount) == (NOON_EPOCH, NOON_EPOCH + 3600, 1_660_000)
    assert decoded.unpriced is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda fact: fact.pop("lines"),
        lambda fact: fact.update(amount=1_660_001),
        lambda fact: fact.update(amount=-1),
        lambda fact: fact.update(amount=2**63),
        lambda fact: fact.update(amount="1"),
        lambda fact: fact.update(revision=-1),
        lambda fact: fact.update(rate_per_hour=2**64),
        lambda fact: fact.update(hour="2026-03-10T12:00:01Z"),
        lambda fact: fact.update(hour="2026-03-10T12:00:00"),
        lambda fact: fact.update(covered_until="soon"),
        lambda fact: fact.update(account_id="a b"),
        lambda fact: fact.update(account_id=""),
        lambda fact: fact.update(resource_id='"}'),
        lambda fact: fact.update(unpriced={}),
        lambda fact: fact.update(lines={}),
        lambda fact: fact["lines"][0].update(per="week"),
        lambda fact: fact["lines"][0].update(unit_price=-1),
        lambda fact: fact["lines"][0].update(factors=[{"rule": "r", "factor": "1e3"}]),
        lambda fact: fact["lines"][0].update(factors=[{"rule": "r", "factor": "1/0"}]),
        lambda fact: fact["lines"][0].update(ranges=[[0]]),
        lambda fact: fact["lines"][0].update(ranges=[[-3600, 0]]),
        lambda fact: fact["lines"][0].update(ranges=[[3600, 7200]]),
        lambda fact: fact["lines"][0].update(ranges=[[3600, 0]]),
        lambda fact: fact["lines"][0].update(ranges=[[0, 1800]]),
        lambda fact: fact["lines"][0].update(ranges=[[1800, 3600], [0, 1800]]),
        lambda fact: fact["lines"][0].update(ranges=[[0, 1800], [0, 1800]]),
        lambda fact: fact["lines"][0].update(ranges=[]),
        lambda fact: fact["lines"][0].update(labels={"k": 1}),
        lambda fact: fact["lines"][0].pop("sku"),
        lambda fact: fact["lines"][0].update(mode=None),
        lambda fact: fact.update(covered_until="2026-03-10T13:00:01Z"),
        lambda fact: fact.update(covered_until="2026-03-10T11:59:59Z"),
        lambda fact: fact.update(hour="9999-12-31T23:00:00Z", covered_until="9999-12-31T23:59:59Z"),
    ],
)
def test_a_fact_that_could_not_be_settled_is_refused(spoil: Spoil) -> None:
    fact = json.loads(json.dumps(RIGHT))
    spoil(fact)
    with pytest.raises(InvalidFact):
        decode_charge(json.dumps(fact).encode())


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_object_is_refused(value: bytes) -> None:
    with pytest.raises(InvalidFact):
        decode_charge(value)


def test_the_greatest_revision_and_price_book_of_each_resource_hour_is_kept_in_order_of_key() -> None:
    charges = [
        charge("b", NOON_EPOCH, [line((0, 10))], revision=1),
        charge("a", NOON_EPOCH + 3600, [line((0, 10))], revision=1),
        charge("a", NOON_EPOCH, [line((0, 30))], revision=3, price_book=1),
        charge("a", NOON_EPOCH, [line((0, 20))], revision=2, price_book=9),
        charge("a", NOON_EPOCH, [line((0, 31))], revision=3, price_book=2),
    ]
    kept = fold(charges)
    assert kept == fold(reversed(charges))
    assert [(part.account_id, part.hour, part.revision, part.price_book) for part in kept] == [
        ("a", NOON_EPOCH, 3, 2),
        ("a", NOON_EPOCH + 3600, 1, 1),
        ("b", NOON_EPOCH, 1, 1),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"trial_amount": -1},
        {"trial_days": -1},
        {"trial_days": 10**9},
        {"registered_at": "yesterday"},
        {"registered_at": "9999-12-31T00:00:00Z"},
        {"account_id": "a b"},
        {"kind": "robot"},
        {"name": "a\x00"},
    ],
)
def test_an_opening_that_could_not_be_booked_is_refused(wrong: dict[str, object]) -> None:
    right = AccountOpened("a", "A", "personal", "2026-03-01T00:00:00Z", 10_000_000, 30)
    assert decode_opening(encode_fact(right)).trial_days == 30
    with pytest.raises(InvalidFact):
        decode_opening(json.dumps({**json.loads(encode_fact(right)), **wrong}).encode())
