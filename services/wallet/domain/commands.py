"""What operators and gateways ask of a wallet. The same reference twice is the same command (R19)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

import msgspec

from services.wallet.domain.lots import PRIORITY_OF_KIND
from shared.errors import Conflict
from shared.time import format_instant

GrantKind = Literal["promo", "compensation"]
HoldState = Literal["active", "released", "expired"]
HOLD_SECONDS_MAX: Final = 31 * 86_400

_encode = msgspec.json.Encoder(order="sorted").encode


@dataclass(frozen=True, slots=True)
class TopUp:
    """Cash that came in through a channel; `amount` > 0 micro-yuan."""

    account_id: str
    amount: int
    channel: str
    reference: str

    def content(self) -> str:
        return _encode({"amount": self.amount, "channel": self.channel}).decode()


@dataclass(frozen=True, slots=True)
class Grant:
    """Credit that we give; None is left to us: from now, never ending, the priority of its kind (R11)."""

    account_id: str
    kind: GrantKind
    amount: int
    reference: str
    priority: int | None = None
    effective_at: datetime | None = None
    expires_at: datetime | None = None

    @property
    def burn_priority(self) -> int:
        return PRIORITY_OF_KIND[self.kind] if self.priority is None else self.priority

    def content(self) -> str:
        return _encode(
            {
                "kind": self.kind,
                "amount": self.amount,
                "priority": self.priority,
                "effective_at": self.effective_at and format_instant(self.effective_at),
                "expires_at": self.expires_at and format_instant(self.expires_at),
            }
        ).decode()


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """Reserve the price of `seconds` of an instance before it starts; `amount` micro-yuan as quoted."""

    account_id: str
    sku: str
    quantity: int
    mode: str
    purchase: str
    seconds: int
    reference: str
    amount: int

    def content(self) -> str:
        """What makes two requests the same; the quote may differ from one second to the next."""
        return _encode(
            {
                "sku": self.sku,
                "quantity": self.quantity,
                "mode": self.mode,
                "purchase": self.purchase,
                "seconds": self.seconds,
            }
        ).decode()


def refuse_other_content(reference: str, before: str | None, now: str) -> None:
    """R19: raises Conflict when a reference comes again with other content."""
    if before != now:
        raise Conflict(f"reference {reference} was used before with other content", reference=reference)
