"""R17, R18: what is available, and when an account is good, low or exhausted."""

from dataclasses import replace

import pytest

from services.wallet.domain.account import Account, assessed, crossings
from services.wallet.domain.standing import Funds, StandingLimits, runway_seconds, standing_of
from tests.support.wallet import NOON

LIMITS = StandingLimits()
ACCOUNT = Account("a", 0, 0, 0, 0, 0, False, None, 0, None, "good", 0)


def test_available_is_cash_and_credit_less_accrued_debt_and_held() -> None:
    funds = Funds(cash=10, promotional=5, accrued=3, debt=2, held=4)
    assert (funds.spendable, funds.available) == (10, 6)


@pytest.mark.parametrize(
    ("spendable", "burn_rate", "charged_ever", "standing"),
    [
        (0, 0, False, "good"),
        (-1, 0, False, "good"),
        (0, 0, True, "exhausted"),
        (-5, 1, False, "exhausted"),
        (1, 0, True, "low"),
        (9_999_999, 1, False, "low"),
        (10_000_000, 0, True, "good"),
        (10_000_000, 10_000_000, True, "good"),
        (10_000_000, 10_000_001, True, "low"),
        (53_000_000, 53_120_000, True, "low"),
        (53_120_000, 53_120_000, True, "good"),
    ],
)
def test_standing(spendable: int, burn_rate: int, charged_ever: bool, standing: str) -> None:
    assert standing_of(spendable, burn_rate, charged_ever=charged_ever, limits=LIMITS) == standing


def test_runway_is_none_when_nothing_burns_and_never_negative() -> None:
    assert runway_seconds(100, 0) is None
    assert runway_seconds(-100, 10) == 0
    assert runway_seconds(1_000_000, 1_660_000) == 2168


def test_a_crossing_is_told_once_with_the_next_epoch() -> None:
    spent = replace(ACCOUNT, charged_ever=True, accrued=1)
    exhausted = assessed(spent, LIMITS)
    assert (exhausted.standing, exhausted.epoch) == ("exhausted", 1)
    assert assessed(exhausted, LIMITS) is exhausted
    (fact,) = crossings([spent], [exhausted], NOON)
    assert (fact.standing, fact.epoch, fact.available, fact.exhausts_at) == ("exhausted", 1, -1, None)
    assert crossings([exhausted], [exhausted], NOON) == []


def test_the_news_say_when_the_money_ends() -> None:
    low = assessed(replace(ACCOUNT, cash=1_660_000, burn_rate_per_hour=3_320_000), LIMITS)
    (fact,) = crossings([ACCOUNT], [low], NOON)
    assert (fact.standing, fact.exhausts_at) == ("low", "2026-03-10T12:30:00Z")
    endless = assessed(replace(ACCOUNT, cash=10**18, burn_rate_per_hour=1, standing="low"), LIMITS)
    (fact,) = crossings([ACCOUNT], [endless], NOON)
    assert fact.exhausts_at is None
