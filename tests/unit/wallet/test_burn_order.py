"""R11 and R12: which lot pays first, and which seconds a lot may pay."""

import random
from datetime import timedelta

from services.wallet.domain.lots import Lot
from tests.support.wallet import NOON, NOON_EPOCH, make_lot


def test_lots_burn_by_priority_then_end_then_beginning_then_id() -> None:
    ends_first = make_lot(1, "promo", expires_at=NOON + timedelta(hours=1))
    begins_first = make_lot(
        2, "promo", effective_at=NOON - timedelta(hours=2), expires_at=NOON + timedelta(hours=2)
    )
    smaller_id = make_lot(3, "trial", expires_at=NOON + timedelta(hours=2))
    greater_id = make_lot(4, "promo", expires_at=NOON + timedelta(hours=2))
    never_ends = make_lot(5, "promo")
    compensation = make_lot(6, "compensation", expires_at=NOON + timedelta(minutes=1))
    cash = make_lot(7, "cash")
    expected = [ends_first, begins_first, smaller_id, greater_id, never_ends, compensation, cash]
    for seed in range(20):
        shuffled = random.Random(seed).sample(expected, len(expected))
        assert sorted(shuffled, key=Lot.burn_order) == expected


def test_a_lot_ends_a_microsecond_later_than_another_and_burns_later() -> None:
    first = make_lot(9, "promo", expires_at=NOON + timedelta(microseconds=1))
    second = make_lot(1, "promo", expires_at=NOON + timedelta(microseconds=2))
    assert sorted([second, first], key=Lot.burn_order) == [first, second]


def test_a_lot_pays_whole_seconds_that_begin_in_its_time() -> None:
    lot = make_lot(
        1,
        "promo",
        effective_at=NOON + timedelta(seconds=10, microseconds=1),
        expires_at=NOON + timedelta(seconds=20, microseconds=1),
    )
    assert (lot.first_second - NOON_EPOCH, lot.end_second - NOON_EPOCH) == (11, 21)


def test_a_lot_is_valid_from_its_beginning_until_just_before_its_end() -> None:
    lot = make_lot(1, "promo", expires_at=NOON + timedelta(hours=1))
    assert lot.is_valid_at(NOON)
    assert not lot.is_valid_at(NOON + timedelta(hours=1))
    assert not lot.is_valid_at(NOON - timedelta(microseconds=1))
