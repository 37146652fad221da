"""Good, low or exhausted (R18), and what an account has left."""

from dataclasses import dataclass
from typing import Final

from shared.contracts.facts import Standing
from shared.time import SECONDS_PER_HOUR

RUNWAY_SECONDS_LOW: Final = 3600
AVAILABLE_MICRO_LOW: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class StandingLimits:
    """Below these an account is `low`: the runway at its present burn rate, or what is available."""

    runway_seconds_low: int = RUNWAY_SECONDS_LOW
    available_micro_low: int = AVAILABLE_MICRO_LOW


@dataclass(frozen=True, slots=True)
class Funds:
    """What an account has and owes, in micro-yuan; `promotional` counts valid lots only."""

    cash: int
    promotional: int
    accrued: int
    debt: int
    held: int

    @property
    def spendable(self) -> int:
        """What is left to pay for usage. Holds only reserve it, so they stop nobody."""
        return self.cash + self.promotional - self.accrued - self.debt

    @property
    def available(self) -> int:
        """R17: what a new start may take."""
        return self.spendable - self.held


def standing_of(
    spendable: int, burn_rate_per_hour: int, *, charged_ever: bool, limits: StandingLimits
) -> Standing:
    """R18. An account with nothing charged and nothing running is good at any balance."""
    if not charged_ever and burn_rate_per_hour == 0:
        return "good"
    if spendable <= 0:
        return "exhausted"
    if spendable < limits.available_micro_low:
        return "low"
    if spendable * SECONDS_PER_HOUR < burn_rate_per_hour * limits.runway_seconds_low:
        return "low"
    return "good"


def runway_seconds(spendable: int, burn_rate_per_hour: int) -> int | None:
    """Whole seconds until nothing is left at this rate; None when nothing burns."""
    if burn_rate_per_hour == 0:
        return None
    return max(0, spendable) * SECONDS_PER_HOUR // burn_rate_per_hour
