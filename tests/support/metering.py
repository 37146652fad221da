"""Reports as metering sees them once they are checked, and what it must make of them, second by second."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from shared.contracts.facts import UsageMetered
from shared.contracts.usage import UsageReport

HOUR = int(datetime(2026, 3, 10, 15, tzinfo=UTC).timestamp())
SINCE = datetime(2026, 3, 10, 14, 20, 5, tzinfo=UTC)

SecondsOfStates = dict[int, tuple[object, ...]]
"""What each covered second since 1970 is used as: (sku, quantity, mode, purchase, sorted labels)."""


def report(
    first_second: int = 0,
    end_second: int = 60,
    *,
    hour: int = HOUR,
    account_id: str = "acct-7",
    resource_id: str = "inst-8f2c",
    sku: str = "rtx-4090",
    quantity: int = 8,
    mode: str = "gpu",
    purchase: str = "on_demand",
    labels: dict[str, str] | None = None,
    since: datetime | int = SINCE,
) -> UsageReport:
    """Seconds are counted from `hour`; a `since` that is a number, in microseconds before SINCE."""
    return UsageReport(
        account_id=account_id,
        resource_id=resource_id,
        sku=sku,
        quantity=quantity,
        mode=mode,
        purchase=purchase,
        labels=labels or {},
        since=since if isinstance(since, datetime) else SINCE - timedelta(microseconds=since),
        first_second=hour + first_second,
        end_second=hour + end_second,
        source="/nodes/bj-yz-017",
        event_id="boot-42/000123",
    )


def state_of_report(reported: UsageReport) -> tuple[object, ...]:
    labels = tuple(sorted(reported.labels.items()))
    return reported.sku, reported.quantity, reported.mode, reported.purchase, labels


def seconds_told(facts: Iterable[UsageMetered]) -> dict[tuple[str, str], SecondsOfStates]:
    """The seconds of each (account, resource) in the facts; fails when a second is in two segments."""
    told: dict[tuple[str, str], SecondsOfStates] = {}
    for fact in facts:
        resource = told.setdefault((fact.account_id, fact.resource_id), {})
        hour = int(datetime.fromisoformat(fact.hour).timestamp())
        for segment in fact.segments:
            labels = tuple(sorted(segment.labels.items()))
            state = (segment.sku, segment.quantity, segment.mode, segment.purchase, labels)
            for start, end in segment.ranges:
                assert 0 <= start < end <= 3600
                for second in range(hour + start, hour + end):
                    assert second not in resource, f"second {second} is in two segments"
                    resource[second] = state
    return told


def seconds_expected(
    reports: Sequence[UsageReport], canonical: Iterable[str]
) -> dict[tuple[str, str], SecondsOfStates]:
    """By brute force: each second goes to the later `since`, of equal ones to the smaller canonical JSON."""
    owners: dict[tuple[str, str], dict[int, tuple[datetime, str, tuple[object, ...]]]] = {}
    for reported, name in zip(reports, canonical, strict=True):
        resource = owners.setdefault((reported.account_id, reported.resource_id), {})
        claim = (reported.since, name, state_of_report(reported))
        for second in range(reported.first_second, reported.end_second):
            owner = resource.get(second)
            if owner is None or claim[0] > owner[0] or (claim[0] == owner[0] and claim[1] < owner[1]):
                resource[second] = claim
    return {
        key: {second: owner[2] for second, owner in seconds.items()}
        for key, seconds in owners.items()
        if seconds
    }
