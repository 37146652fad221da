"""Usage that waits for a price: never lost, never free for ever."""

from collections.abc import Sequence
from dataclasses import dataclass

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
