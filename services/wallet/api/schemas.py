"""Bodies of the wallet's REST (DESIGN 3): decimal strings of CNY, RFC 3339 in UTC."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from services.wallet.domain.commands import HOLD_SECONDS_MAX, HoldState
from shared.contracts.facts import Standing
from shared.contracts.usage import QUANTITY_MAX, Mode, Purchase
from shared.schemas import CnyNatural, CnyOut, CnyPositive, IdField, Instant, ReferenceField

PRIORITY_MAX = 1_000

Priority = Annotated[int, Field(ge=0, le=PRIORITY_MAX, description="Lower burns first (R11).")]
Channel = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["alipay"])]


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Out(BaseModel):
    model_config = ConfigDict(frozen=True)

    currency: Literal["CNY"] = "CNY"


class TopUpIn(_In):
    amount: CnyPositive
    currency: Literal["CNY"] = "CNY"
    channel: Channel
    reference: ReferenceField


class TopUpOut(_Out):
    account_id: str
    entry_id: UUID
    lot_id: UUID
    amount: CnyOut
    debt_paid: CnyOut = Field(description="Of the amount, what went to debt at once (R13).")
    channel: str
    reference: str
    occurred_at: Instant


class GrantIn(_In):
    kind: Literal["promo", "compensation"]
    amount: CnyPositive
    currency: Literal["CNY"] = "CNY"
    priority: Priority | None = None
    effective_at: Instant | None = Field(default=None, description="Default: now.")
    expires_at: Instant | None = Field(default=None, description="Default: never.")
    reference: ReferenceField


class GrantOut(_Out):
    account_id: str
    entry_id: UUID
    lot_id: UUID
    kind: str
    amount: CnyOut
    priority: int
    effective_at: Instant
    expires_at: Instant | None
    reference: str
    occurred_at: Instant


class CreditOut(BaseModel):
    """A promotional lot with something left, also before it begins and after it ended."""

    lot_id: UUID
    kind: str
    granted: CnyOut
    remaining: CnyOut
    priority: int
    effective_at: Instant
    expires_at: Instant | None
    expired: bool = Field(description="Over; what is left soon goes to breakage (R15).")
    counts: bool = Field(description="Part of `available` now; false before it begins and after it ends.")


class BalanceOut(_Out):
    """available = cash + credits in their time - accrued - debt - held (R17)."""

    account_id: str
    available: CnyOut
    cash: CnyOut
    credits: list[CreditOut]
    accrued: CnyOut = Field(description="Charged and not settled yet.")
    held: CnyOut = Field(description="Reserved by holds.")
    debt: CnyOut
    standing: Standing
    epoch: int = Field(description="Grows with each change of standing.")
    burn_rate_per_hour: CnyOut
    runway_seconds: int | None = Field(description="Until nothing is left at this rate; null: nothing burns.")
    as_of: Instant


class AccountOut(BaseModel):
    account_id: str
    name: str
    kind: str
    registered_at: Instant | None
    opened: bool = Field(description="False: heard of only through a charge or a top-up.")
    created_at: Instant


class TransferOut(_Out):
    debit_account: str
    credit_account: str
    amount: CnyOut


class EntryOut(BaseModel):
    entry_id: UUID
    kind: str
    reference: str | None
    hour: Instant | None = Field(description="The hour that a settlement settled.")
    occurred_at: Instant
    memo: str
    transfers: list[TransferOut]


class JournalPage(BaseModel):
    items: list[EntryOut]
    next_cursor: str | None


class FactorOut(BaseModel):
    rule: str
    factor: str


class LineOut(BaseModel):
    """amount = floor(unit_price x quantity x seconds x factors / per) (R6)."""

    sku: str
    quantity: int
    mode: str
    purchase: str
    labels: dict[str, str]
    ranges: list[tuple[int, int]] = Field(description="Half-open, in seconds of the hour.")
    seconds: int
    unit_price: CnyOut
    per: str
    factors: list[FactorOut]
    amount: CnyOut


class UnpricedOut(BaseModel):
    sku: str
    seconds: int


class PayerOut(BaseModel):
    source: Literal["lot", "debt"]
    lot_id: UUID | None
    kind: str | None
    amount: CnyOut


class ChargeOut(_Out):
    resource_id: str
    hour: Instant
    revision: int
    price_book: int
    amount: CnyOut
    settled: CnyOut = Field(description="What of it is in the journal.")
    lines: list[LineOut]
    unpriced: list[UnpricedOut]
    covered_until: Instant
    paid_by: list[PayerOut] = Field(description="Of what is settled, first burned first.")


class ChargesPage(BaseModel):
    items: list[ChargeOut]
    next_cursor: str | None


class HoldIn(_In):
    account_id: IdField
    sku: IdField
    quantity: Annotated[int, Field(ge=1, le=QUANTITY_MAX)]
    mode: Mode = "gpu"
    purchase: Purchase = "on_demand"
    seconds: Annotated[int, Field(ge=1, le=HOLD_SECONDS_MAX)]
    reference: ReferenceField
    amount: CnyNatural


class HoldOut(_Out):
    hold_id: UUID
    account_id: str
    reference: str
    sku: str
    quantity: int
    mode: str
    purchase: str
    seconds: int
    amount: CnyOut
    state: HoldState = Field(description="Of another state the same reference is a conflict (409).")
    created_at: Instant
    expires_at: Instant


class UnknownAccountOut(_Out):
    account_id: str
    first_seen_at: Instant
    charged: bool
    accrued: CnyOut


class UnknownAccountsPage(BaseModel):
    items: list[UnknownAccountOut]
    next_cursor: str | None
