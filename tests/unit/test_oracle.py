"""The oracle is only worth asking if it gives the answers that are known."""

import random

import pytest

from tests.support.oracle import expected_of
from tests.support.scenarios import ExpectedHour, load_scenario, random_stream, scenario_names


def _by_hour(hours: list[ExpectedHour]) -> list[ExpectedHour]:
    return sorted(hours, key=lambda hour: (hour["account"], hour["resource"], hour["hour"]))


@pytest.mark.parametrize("name", scenario_names())
def test_the_oracle_agrees_with_every_scenario(name: str) -> None:
    scenario = load_scenario(name)
    answer = expected_of(scenario)
    assert _by_hour(answer["hours"]) == _by_hour(scenario["expected"]["hours"])
    assert answer["accounts"] == scenario["expected"]["accounts"]


def test_the_order_and_repetition_of_reports_change_nothing() -> None:
    stream = random_stream(7, resources=4)
    answer = expected_of(stream)
    stream["events"] += random.Random(1).choices(stream["events"], k=20)
    random.Random(2).shuffle(stream["events"])
    assert expected_of(stream) == answer


def test_random_streams_reach_the_hard_cases() -> None:
    """Else they prove less than they seem to: debts, lots left over and vouchers must all occur."""
    accounts = [
        account for seed in (1, 2) for account in expected_of(random_stream(seed))["accounts"].values()
    ]
    assert any(account["debt"] for account in accounts)
    assert any(account["cash_left"] for account in accounts)
    assert any(account["promo_left"] for account in accounts)
