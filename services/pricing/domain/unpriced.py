"""Usage that waits for a price: never lost, never free for ever."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.contracts.facts import ChargeRated, Unpriced, UsageMetered


@dataclass(frozen=True, slots=True)
class UnpricedUsage:
    """A metered fact with seconds that the books up to version `price_book` have no price for."""

    fact: UsageMetered
    price_book: int
    unpriced: Sequence[Unpriced]

    @classmethod
    def of(cls, fact: UsageMetered, charge: ChargeRated) -> "UnpricedUsage":
        return cls(fact, charge.price_book, charge.unpriced)


@dataclass(frozen=True, slots=True)
class UnpricedSeconds:
    """The seconds of one sku that one resource-hour has no price for."""

    account_id: str
    resource_id: str
    hour: datetime
    sku: str
    seconds: int
    revision: int
    price_book: int
