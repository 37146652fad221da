"""Each message as it has to look on the wire, for as long as its topic's version lives."""

import json
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from shared.contracts.facts import (
    AccountOpened,
    AccountStanding,
    ChargeRated,
    UsageMetered,
    encode_fact,
    fact_key,
)
from shared.contracts.topics import ALL_TOPICS
from shared.contracts.usage import UsageEvent
from shared.money import amount_micro

GOLDEN: Final = Path(__file__).parent / "golden"
TYPES: Final[dict[str, Any]] = {
    "usage.reported.v1": UsageEvent,
    "usage.metered.v1": UsageMetered,
    "charge.rated.v1": ChargeRated,
    "account.opened.v1": AccountOpened,
    "account.standing.v1": AccountStanding,
}


def _golden(topic: str) -> bytes:
    return (GOLDEN / f"{topic}.json").read_bytes()


def test_every_topic_has_its_golden_message() -> None:
    assert {topic.name for topic in ALL_TOPICS} == set(TYPES) == {path.stem for path in GOLDEN.glob("*.json")}


@pytest.mark.parametrize("topic", TYPES)
def test_the_golden_message_is_read_and_written_again_to_the_byte(topic: str) -> None:
    fact = msgspec.json.decode(_golden(topic), type=TYPES[topic])
    compact = json.dumps(json.loads(_golden(topic)), ensure_ascii=False, separators=(",", ":"))
    assert encode_fact(fact) == compact.encode()


@pytest.mark.parametrize("topic", TYPES)
def test_a_member_that_a_later_version_adds_is_ignored(topic: str) -> None:
    later = json.loads(_golden(topic)) | {"added_later": {"x": [1]}}
    assert msgspec.json.decode(json.dumps(later), type=TYPES[topic]) == msgspec.json.decode(
        _golden(topic), type=TYPES[topic]
    )


def test_the_golden_charge_adds_up() -> None:
    charge = msgspec.json.decode(_golden("charge.rated.v1"), type=ChargeRated)
    for line in charge.lines:
        factors = [Fraction(factor.factor) for factor in line.factors]
        assert line.seconds == sum(ends - begins for begins, ends in line.ranges)
        assert line.amount == floor(
            Fraction(line.unit_price * line.quantity * line.seconds, 3_600) * factors[0]
        )
    assert charge.amount == sum(line.amount for line in charge.lines)
    assert charge.rate_per_hour == amount_micro(1_660_000, 8, 3_600, [], 3_600) * 3 // 10


def test_the_key_of_an_hour() -> None:
    assert fact_key("acct-7", "inst-8f2c", "2026-03-10T15:00:00Z") == b"acct-7|inst-8f2c|2026-03-10T15:00:00Z"
