"""Lots of credit, the order they burn in (R11), and which seconds each may pay (R12)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from shared.time import epoch_second

LotKind = Literal["trial", "promo", "compensation", "cash"]

PRIORITY_OF_KIND: Final[Mapping[LotKind, int]] = {"trial": 10, "promo": 10, "compensation": 20, "cash": 50}
COMPENSATION_DAYS: Final = 30
_NEVER: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Lot:
    """One amount of credit with its validity. Amounts in micro-yuan; `expires_at` None: never.

    `created_at`: when it was booked. `swept`: what was left has gone to breakage (R15).
    """

    lot_id: UUID
    kind: LotKind
    priority: int
    granted: int
    remaining: int
    effective_at: datetime
    expires_at: datetime | None
    created_at: datetime
    swept: bool = False

    @property
    def is_cash(self) -> bool:
        return self.kind == "cash"

    @property
    def first_second(self) -> int:
        """The first whole second since 1970 that is not before `effective_at` (R2)."""
        return _ceil_second(self.effective_at)

    @property
    def end_second(self) -> int:
        """The second after the last it may pay; far beyond every hour if it never ends."""
        return _NEVER if self.expires_at is None else _ceil_second(self.expires_at)

    def burn_order(self) -> tuple[int, int, datetime, UUID]:
        """Sorts lots into the order they pay in: total, so that no plan of a query can change a bill."""
        ends = _NEVER if self.expires_at is None else _microseconds(self.expires_at)
        return (self.priority, ends, self.effective_at, self.lot_id)

    def is_valid_at(self, instant: datetime) -> bool:
        return self.effective_at <= instant and (self.expires_at is None or instant < self.expires_at)

    def is_past_grace(self, ended_until: datetime) -> bool:
        """Whether it ended, and was booked, at or before that: what it has left is breakage's (R15)."""
        return self.expires_at is not None and max(self.expires_at, self.created_at) <= ended_until


def _ceil_second(instant: datetime) -> int:
    return epoch_second(instant) + (1 if instant.microsecond else 0)


def _microseconds(instant: datetime) -> int:
    return epoch_second(instant) * 1_000_000 + instant.microsecond
