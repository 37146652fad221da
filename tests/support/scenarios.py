"""Usage streams with their right answers: the files of tests/scenarios, and new random ones.

Times are seconds from `base`, a midnight in Asia/Shanghai; amounts in `expected` are micro-yuan.
"""

import json
import random
from pathlib import Path
from typing import Final, NotRequired, TypedDict

SCENARIOS_DIRECTORY: Final = Path(__file__).resolve().parents[1] / "scenarios"
REGISTERED: Final = -172_800

Grant = TypedDict("Grant", {"amount": str, "from": int, "to": int})
PriceChange = TypedDict("PriceChange", {"sku": str, "from": int, "price": str})


class Account(TypedDict):
    account: str
    registered: int
    trial: NotRequired[bool]
    top_ups: NotRequired[list[str]]
    grants: NotRequired[list[Grant]]


class Event(TypedDict):
    account: str
    resource: str
    since: float
    start: float
    end: float
    sku: str
    quantity: NotRequired[int]
    mode: NotRequired[str]
    purchase: NotRequired[str]
    labels: NotRequired[dict[str, str]]


class ExpectedHour(TypedDict):
    account: str
    resource: str
    hour: int
    seconds: int
    amount: int


class ExpectedAccount(TypedDict):
    charged: int
    debt: int
    trial_left: int
    promo_left: int
    cash_left: int


class Expected(TypedDict):
    accounts: dict[str, ExpectedAccount]
    hours: list[ExpectedHour]


class Stream(TypedDict):
    """What happens, without the answer."""

    name: str
    why: str
    accounts: list[Account]
    price_changes: NotRequired[list[PriceChange]]
    events: list[Event]


class Scenario(Stream):
    expected: Expected


def scenario_names() -> list[str]:
    return sorted(path.stem for path in SCENARIOS_DIRECTORY.glob("*.json"))


def load_scenario(name: str) -> Scenario:
    scenario: Scenario = json.loads((SCENARIOS_DIRECTORY / f"{name}.json").read_text(encoding="utf-8"))
    return scenario


_SKUS: Final = (
    "rtx-3090",
    "rtx-4090",
    "a100-80g",
    "h100-80g",
    "ascend-910b",
    "mlu370-x8",
    "hybrid-a100-910b",
    "app-llm-7b",
    "disk-ssd",
    "object-standard",
)
_LABELS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"project": "p1"},
    {"project": "p2", "job": "7"},
    {"project": "裁剪"},
)
_STREAM_SECONDS: Final = 3 * 86_400


def random_stream(seed: int, *, accounts: int = 4, resources: int = 10) -> Stream:
    """States that follow one another, cut into reports that repeat, overlap, go missing and come shuffled.

    Some states begin at one instant with another, so that ties of `since` occur as well.
    """
    chance = random.Random(seed)
    names = [f"acct-{index}" for index in range(accounts)]
    events: list[Event] = []
    for index in range(resources):
        events += _resource_events(chance, f"res-{index}", chance.choice(names))
    events += chance.choices(events, k=len(events) // 5)
    chance.shuffle(events)
    return {
        "name": f"random-{seed}",
        "why": "A random stream: states that follow one another, reports repeated, cut anew, shuffled, lost.",
        "accounts": [_random_account(chance, name) for name in names],
        "events": events,
    }


def _random_account(chance: random.Random, name: str) -> Account:
    account: Account = {"account": name, "registered": REGISTERED, "grants": []}
    account["trial"] = chance.random() < 0.7
    account["top_ups"] = [str(chance.randrange(1, 250)) for _ in range(chance.randrange(3))]
    for _ in range(chance.randrange(3)):
        begins = chance.randrange(_STREAM_SECONDS // 2)
        ends = begins + chance.randrange(3_600, _STREAM_SECONDS)
        account["grants"].append(
            {"amount": chance.choice(["2.5", "7.5", "0.000001", "40"]), "from": begins, "to": ends}
        )
    return account


def _resource_events(chance: random.Random, resource: str, account: str) -> list[Event]:
    events: list[Event] = []
    at = float(chance.randrange(2 * 86_400))
    for _ in range(chance.randrange(1, 5)):
        since = at if chance.random() < 0.8 else at + chance.randrange(1, 100) / 100
        ends = since + chance.choice([7, 600, 4_000, 20_000, 50_000]) * chance.uniform(0.5, 1.5)
        ends = min(float(int(ends)), float(_STREAM_SECONDS))
        if ends <= since:
            break
        state = _random_state(chance, resource, account, since)
        events += _reports_of(chance, state, ends)
        if chance.random() < 0.15:
            twin = _random_state(chance, resource, account, since)
            events += _reports_of(chance, twin, min(ends, since + 300))
        overlap = chance.choice([0, 0, 0, 30, 900])
        at = max(float(int(since)) + 1, ends - overlap)
    return events


def _random_state(chance: random.Random, resource: str, account: str, since: float) -> Event:
    return {
        "account": account,
        "resource": resource,
        "since": since,
        "start": since,
        "end": since,
        "sku": chance.choice(_SKUS),
        "quantity": chance.choice([1, 1, 2, 4, 8, 100]),
        "mode": chance.choice(["gpu", "gpu", "no_gpu"]),
        "purchase": chance.choice(["on_demand", "night_auction"]),
        "labels": chance.choice(_LABELS),
    }


def _reports_of(chance: random.Random, state: Event, ends: float) -> list[Event]:
    step = chance.choice([60, 300, 1_045, 7_200])
    reports: list[Event] = []
    start = state["since"]
    lost_from: float | None = None
    while start < ends:
        end = min(ends, round(start + step + chance.choice([0, 0, 0.25]), 2))
        roll = chance.random()
        if roll < 0.1:
            lost_from = start if lost_from is None else lost_from
        else:
            resend = lost_from is not None and roll < 0.7
            report = state.copy()
            report["start"] = lost_from if resend and lost_from is not None else start
            report["end"] = min(ends, end + chance.choice([0, 0, 0, 20]))
            if report["end"] - report["start"] <= 86_000:
                reports.append(report)
            lost_from = None
        start = end
    return reports
