"""What use cases have in common to say about themselves."""

from collections import Counter
from collections.abc import Iterable

from opentelemetry.metrics import get_meter

_crossed = get_meter(__name__).create_counter(
    "wallet.standing.changes", description="crossings from one standing to another, by the new one"
)


def count_crossings(standings: Iterable[str]) -> None:
    for standing, count in Counter(standings).items():
        _crossed.add(count, {"standing": standing})
