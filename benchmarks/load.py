"""Load, encoded before the clock starts: making it must not be what is measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from math import floor
from typing import Final

from shared.contracts.facts import (
    AccountOpened,
    ChargeLine,
    ChargeRated,
    Segment,
    UsageMetered,
    encode_fact,
    fact_key,
)
from shared.contracts.topics import ACCOUNT_OPENED, CHARGE_RATED, USAGE_METERED, USAGE_REPORTED
from shared.kafka import Message, Publisher
from shared.time import SECONDS_PER_HOUR, epoch_second, format_epoch, hour_of

REPORT_SECONDS: Final = 10
ACCOUNTS: Final = 2_000
MICRO_PER_CARD_HOUR: Final = 1_660_000
TRIAL_MICRO: Final = 10**10
_PUBLISH_MESSAGES: Final = 20_000


@dataclass(frozen=True)
class Load:
    """`truth` is what must have come of it: covered seconds, or micro-yuan."""

    messages: list[Message]
    truth: int


def last_whole_hour(now: datetime) -> int:
    return hour_of(epoch_second(now)) - SECONDS_PER_HOUR


class Fleet:
    """Live instances that each report ten seconds at a time, from the start of one hour on."""

    def __init__(self, prefix: str, hour: int, instances: int) -> None:
        self.instances = instances
        self._hour = hour
        self._heads = [_report_head(prefix, number, hour) for number in range(instances)]
        self._keys = [f"inst-{number}".encode() for number in range(instances)]

    def report(self, number: int, turn: int) -> Message:
        key = self._keys[number]
        tail = _report_tail(self._hour + REPORT_SECONDS * turn)
        return Message(USAGE_REPORTED.name, key, self._heads[number] + tail, key)

    def reports(self, begin: int, end: int) -> list[Message]:
        """The begin-th to end-th report of the fleet, counted turn by turn."""
        places = (divmod(place, self.instances) for place in range(begin, end))
        return [self.report(number, turn) for turn, number in places]


def reports(prefix: str, hour: int, *, resources: int, rounds: int, adjoining: int) -> Load:
    """`rounds` reports of ten seconds for each resource in one hour.

    `adjoining` reports of a resource follow one another directly, as a longer linger gathers them; then comes
    the next resource. With 1 no resource comes twice before all have come once.
    """
    fleet = Fleet(prefix, hour, resources)
    messages = [
        fleet.report(number, turn)
        for begin in range(0, rounds, adjoining)
        for number in range(resources)
        for turn in range(begin, min(begin + adjoining, rounds))
    ]
    return Load(messages, truth=resources * rounds * REPORT_SECONDS)


def _report_head(prefix: str, number: int, hour: int) -> bytes:
    account_id = f"{prefix}-{number % ACCOUNTS}"
    return (
        f'{{"specversion":"1.0","type":"gpu.usage.reported.v1","source":"/nodes/bj-yz-{number % 1_000:03d}",'
        f'"subject":"inst-{number}","data":{{"account_id":"{account_id}","sku":"rtx-4090","quantity":1,'
        f'"mode":"gpu","purchase":"on_demand","labels":{{"project":"clip"}},"since":"{format_epoch(hour)}",'
    ).encode()


@lru_cache(maxsize=1_024)
def _report_tail(start: int) -> bytes:
    end = format_epoch(start + REPORT_SECONDS)
    return f'"start":"{format_epoch(start)}","end":"{end}"}},"id":"boot-1/{start}","time":"{end}"}}'.encode()


def metered_facts(prefix: str, resources: int) -> Load:
    """One fact per resource in an hour by day; some bought at night auction, some without GPU."""
    messages = []
    truth = 0
    text = "2026-03-10T04:00:00Z"
    for number in range(resources):
        account_id, resource_id = f"{prefix}-{number % ACCOUNTS}", f"inst-{number}"
        seconds = 600 + number % 3_000
        no_gpu = number % 4 == 0
        segment = Segment(
            "rtx-4090",
            1 + number % 8,
            "no_gpu" if no_gpu else "gpu",
            "on_demand" if number % 3 else "night_auction",
            {"project": "clip"},
            [(0, seconds)],
        )
        fact = UsageMetered(account_id, resource_id, text, 1, [segment])
        messages.append(
            Message(
                USAGE_METERED.name,
                fact_key(account_id, resource_id, text),
                encode_fact(fact),
                account_id.encode(),
            )
        )
        factor = Fraction("0.3") if no_gpu else Fraction(1)
        truth += floor(Fraction(MICRO_PER_CARD_HOUR * segment.quantity * seconds, SECONDS_PER_HOUR) * factor)
    return Load(messages, truth)


def rated_facts(prefix: str, hours: Sequence[int], *, resources: int, revisions: int) -> Load:
    """`revisions` facts for each resource-hour, each dearer than the one before; the last one counts."""
    messages = []
    truth = 0
    for hour in hours:
        text = format_epoch(hour)
        for revision in range(1, revisions + 1):
            seconds = SECONDS_PER_HOUR * revision // revisions
            amount = MICRO_PER_CARD_HOUR * seconds // SECONDS_PER_HOUR
            line = ChargeLine(
                "rtx-4090",
                1,
                "gpu",
                "on_demand",
                {"project": "clip"},
                [(0, seconds)],
                seconds,
                MICRO_PER_CARD_HOUR,
                "hour",
                [],
                amount,
            )
            for number in range(resources):
                account_id, resource_id = f"{prefix}-{number % ACCOUNTS}", f"inst-{number}"
                fact = ChargeRated(
                    account_id,
                    resource_id,
                    text,
                    revision,
                    1,
                    amount,
                    [line],
                    [],
                    format_epoch(hour + seconds),
                    MICRO_PER_CARD_HOUR,
                )
                messages.append(
                    Message(
                        CHARGE_RATED.name,
                        fact_key(account_id, resource_id, text),
                        encode_fact(fact),
                        account_id.encode(),
                    )
                )
        truth += resources * MICRO_PER_CARD_HOUR
    return Load(messages, truth)


def openings(prefix: str, hour: int) -> Load:
    """Accounts with one lot each that pays for all that rated_facts charges."""
    messages = []
    for number in range(ACCOUNTS):
        account_id = f"{prefix}-{number}"
        fact = AccountOpened(account_id, "bench", "personal", format_epoch(hour), TRIAL_MICRO, 30)
        key = account_id.encode()
        messages.append(Message(ACCOUNT_OPENED.name, key, encode_fact(fact), key))
    return Load(messages, truth=ACCOUNTS * TRIAL_MICRO)


async def publish(publisher: Publisher, load: Load) -> None:
    for begin in range(0, len(load.messages), _PUBLISH_MESSAGES):
        await publisher.publish(load.messages[begin : begin + _PUBLISH_MESSAGES])
