"""The public REST bodies (DESIGN 3). What siblings answer is described here and passed on as it is."""

from typing import Annotated, Final, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from services.gateway.domain.accounts import Account
from services.gateway.domain.api_keys import ACCOUNTS_PER_KEY_MAX, ApiKey
from services.gateway.domain.principals import Role
from shared.contracts.facts import AccountKind, Standing
from shared.contracts.usage import LABELS_MAX, QUANTITY_MAX, Mode, Purchase
from shared.schemas import CnyOut, CnyPositive, IdField, Instant, NameField, ReferenceField

ItemT = TypeVar("ItemT")

HOLD_SECONDS_MAX = 31 * 86_400
QUOTE_ITEMS_MAX = 100

Quantity = Annotated[int, Field(strict=True, ge=1, le=QUANTITY_MAX, examples=[8])]
Currency = Literal["CNY"]
LabelKey = Annotated[str, StringConstraints(min_length=1, max_length=64)]
LabelText = Annotated[str, StringConstraints(max_length=64)]


class _In(BaseModel):
    """A request body: a field that nobody knows is a typing error, not something to pass over in silence."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Out(BaseModel):
    model_config = ConfigDict(frozen=True)


class Page(_Out, Generic[ItemT]):
    items: list[ItemT]
    next_cursor: str | None = Field(description="Give it as `cursor` to read on; null at the end.")


ACCOUNT_ROOMS: Final = frozenset({"balance", "charges", "grants", "journal", "top-ups", "usage"})
"""What follows an account's id in a path."""


class AccountIn(_In):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"account_id": "acct-7", "name": "Xingyu Lab", "kind": "university"}]}
    )

    account_id: IdField | None = Field(default=None, description="Chosen here if it is left out.")
    name: NameField
    kind: AccountKind
    registered_at: Instant | None = Field(
        default=None, description="For operators who move customers in; not in the future. Default: now."
    )
    trial: bool = Field(default=True, strict=True, description="Grant the trial credit of the price book.")

    @field_validator("account_id")
    @classmethod
    def _can_stand_in_a_path(cls, account_id: str | None) -> str | None:
        segments = (account_id or "x").split("/")
        if {"", ".", ".."} & set(segments) or (len(segments) > 1 and segments[-1] in ACCOUNT_ROOMS):
            raise ValueError(
                "an account's id stands in paths: no empty, '.' or '..' segment, and none of"
                f" {', '.join(sorted(ACCOUNT_ROOMS))} after a slash"
            )
        return account_id


class AccountOut(_Out):
    account_id: IdField
    name: NameField
    kind: AccountKind
    registered_at: Instant
    created_at: Instant
    standing: Standing = Field(examples=["good"])

    @classmethod
    def of(cls, account: Account) -> "AccountOut":
        return cls(
            account_id=account.account_id,
            name=account.name,
            kind=account.kind,
            registered_at=account.registered_at,
            created_at=account.created_at,
            standing=account.standing,
        )


class Credit(_Out):
    """A promotional lot with something left, also before it begins and after it ended."""

    lot_id: str
    kind: Literal["trial", "promo", "compensation"]
    granted: CnyOut
    remaining: CnyOut
    priority: int = Field(description="Lower burns first (R11).")
    effective_at: Instant
    expires_at: Instant | None
    expired: bool = Field(description="Over; what is left soon goes to breakage (R15).")
    counts: bool = Field(description="Part of `available` now; false before it begins and after it ends.")


class BalanceOut(_Out):
    """available = cash + credits in their time - accrued - debt - held (R17)."""

    currency: Currency
    account_id: IdField
    available: CnyOut
    cash: CnyOut
    credits: list[Credit]
    accrued: CnyOut = Field(description="Charged, not settled yet.")
    held: CnyOut = Field(description="Reserved by holds.")
    debt: CnyOut
    standing: Standing
    epoch: int = Field(description="Grows with each change of standing.")
    burn_rate_per_hour: CnyOut
    runway_seconds: int | None = Field(description="At the present burn rate; null when nothing runs.")
    as_of: Instant


class TopUpIn(_In):
    amount: CnyPositive
    currency: Currency = "CNY"
    channel: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["alipay"])]
    reference: ReferenceField


class GrantIn(_In):
    kind: Literal["promo", "compensation"]
    amount: CnyPositive
    currency: Currency = "CNY"
    priority: Annotated[int, Field(strict=True, ge=0, le=1000, examples=[10])] | None = Field(
        default=None, description="Lower burns first; default 10 for promo, 20 for compensation (R11)."
    )
    effective_at: Instant | None = None
    expires_at: Instant | None = None
    reference: ReferenceField

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> "GrantIn":
        if self.effective_at and self.expires_at and self.expires_at <= self.effective_at:
            raise ValueError("expires_at must be after effective_at")
        return self


class TopUpOut(_Out):
    currency: Currency
    account_id: IdField
    entry_id: str
    lot_id: str
    amount: CnyOut
    debt_paid: CnyOut = Field(description="Of the amount, what went to debt at once (R13).")
    channel: str
    reference: str
    occurred_at: Instant


class GrantOut(_Out):
    currency: Currency
    account_id: IdField
    entry_id: str
    lot_id: str
    kind: Literal["promo", "compensation"]
    amount: CnyOut
    priority: int
    effective_at: Instant
    expires_at: Instant | None
    reference: str
    occurred_at: Instant


class Transfer(_Out):
    currency: Currency
    debit_account: str
    credit_account: str
    amount: CnyOut


class JournalEntry(_Out):
    entry_id: str
    kind: Literal["trial", "grant", "top_up", "settlement", "expiry"]
    reference: str | None
    hour: Instant | None = Field(description="The hour that a settlement settled.")
    occurred_at: Instant
    memo: str
    transfers: list[Transfer]


class UsageGroup(_Out):
    """One group; it carries the fields that `group_by` named, and no others."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "start": "2026-03-09T16:00:00Z",
                    "day": "2026-03-10",
                    "sku": "rtx-4090",
                    "labels": {"project": "clip"},
                    "seconds": 3600,
                    "card_seconds": 28800,
                }
            ]
        }
    )

    start: Instant | None = Field(default=None, description="First instant of the hour, day or month.")
    hour: str | None = None
    day: str | None = None
    month: str | None = None
    sku: str | None = None
    mode: Mode | None = None
    purchase: Purchase | None = None
    resource: str | None = None
    labels: dict[str, str | None] | None = Field(default=None, description="The labels asked for.")
    seconds: int = Field(description="Seconds in use, summed over resources.")
    card_seconds: int = Field(description="Each of these seconds times the quantity then in use.")


class ChargeLineOut(_Out):
    """amount = floor(unit_price x quantity x seconds x factors / per) (R6)."""

    sku: str
    quantity: int
    mode: Mode
    purchase: Purchase
    labels: dict[str, str]
    ranges: list[tuple[int, int]] = Field(description="[from, to) in seconds of the hour.")
    seconds: int
    unit_price: CnyOut
    per: Literal["hour", "day"]
    factors: list[dict[str, str]] = Field(examples=[[{"rule": "night_auction", "factor": "0.50"}]])
    amount: CnyOut


class UnpricedPart(_Out):
    sku: str
    seconds: int


class Payer(_Out):
    source: Literal["lot", "debt"]
    lot_id: str | None
    kind: str | None
    amount: CnyOut


class ChargeOut(_Out):
    """Why this amount: one resource-hour."""

    currency: Currency
    resource_id: str
    hour: Instant
    revision: int
    price_book: int
    amount: CnyOut
    settled: CnyOut = Field(description="What of it is in the journal.")
    lines: list[ChargeLineOut]
    unpriced: list[UnpricedPart]
    covered_until: Instant
    paid_by: list[Payer] = Field(description="Of what is settled, first burned first.")


class PriceBookVersion(_Out):
    """A whole book; the fields of its document are left out here."""

    model_config = ConfigDict(extra="allow")

    version: int
    published_at: Instant
    effective_from: Instant
    correction: bool


class QuoteItem(_In):
    sku: IdField = Field(examples=["rtx-4090"])
    quantity: Quantity
    mode: Mode = "gpu"
    purchase: Purchase = "on_demand"
    labels: dict[LabelKey, LabelText] = Field(default_factory=dict, max_length=LABELS_MAX)
    start: Instant
    end: Instant


class QuoteIn(_In):
    items: list[QuoteItem] = Field(min_length=1, max_length=QUOTE_ITEMS_MAX)


class QuoteLine(_Out):
    """All seconds of an item at one price with the same factors; the sum of its hours, each floored (R6)."""

    seconds: int
    unit_price: CnyOut
    per: Literal["hour", "day"]
    factors: list[dict[str, str]] = Field(examples=[[{"rule": "night_auction", "factor": "0.50"}]])
    amount: CnyOut


class QuotedItem(_Out):
    sku: str
    quantity: int
    mode: Mode
    purchase: Purchase
    labels: dict[str, str]
    start: Instant
    end: Instant
    seconds: int
    lines: list[QuoteLine]
    amount: CnyOut


class QuoteOut(_Out):
    currency: Currency
    price_book: int
    items: list[QuotedItem]
    total: CnyOut = Field(description="What this would be billed if it ran and no book changed.")


class HoldIn(_In):
    account_id: IdField
    sku: IdField = Field(examples=["rtx-4090"])
    quantity: Quantity
    mode: Mode = "gpu"
    purchase: Purchase = "on_demand"
    seconds: Annotated[int, Field(strict=True, ge=1, le=HOLD_SECONDS_MAX, examples=[3600])]
    reference: ReferenceField


class HoldOut(_Out):
    currency: Currency
    hold_id: str
    account_id: IdField
    reference: str
    sku: str
    quantity: int
    mode: Mode
    purchase: Purchase
    seconds: int
    amount: CnyOut
    state: Literal["active", "released", "expired"]
    created_at: Instant
    expires_at: Instant


class ApiKeyIn(_In):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "Xingyu Lab portal", "role": "customer", "account_ids": ["acct-7"]},
                {"name": "Beijing nodes", "role": "agent", "source_prefix": "/nodes"},
            ]
        }
    )

    name: Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,128}$")]
    role: Role
    account_ids: list[IdField] = Field(
        default_factory=list,
        max_length=ACCOUNTS_PER_KEY_MAX,
        description="The account of a customer, the accounts of a partner; none for the other roles.",
    )
    account_id: IdField | None = Field(default=None, description="Short for `account_ids` with one account.")
    source_prefix: IdField | None = Field(
        default=None, description="For agents: the sources they may report as are this or lie under it."
    )

    @property
    def bound_to(self) -> frozenset[str]:
        return frozenset(self.account_ids) | ({self.account_id} if self.account_id else frozenset())


class ApiKeyOut(_Out):
    key_id: str
    name: str
    role: Role
    account_ids: list[str]
    source_prefix: str | None
    shown: str = Field(description="How the key begins, to tell keys apart.", examples=["gk_4fQx9sTL"])
    created_at: Instant
    revoked_at: Instant | None

    @classmethod
    def of(cls, key: ApiKey) -> "ApiKeyOut":
        return cls(
            key_id=key.key_id,
            name=key.name,
            role=key.principal.role,
            account_ids=sorted(key.principal.account_ids),
            source_prefix=key.principal.source_prefix,
            shown=key.shown,
            created_at=key.created_at,
            revoked_at=key.revoked_at,
        )


class NewApiKeyOut(ApiKeyOut):
    key: str | None = Field(
        description="The key itself, told this once; null in a replay by Idempotency-Key.",
        examples=["gk_4fQx9sTLm1Yw3iUe7c0VbN5kR8dJhZ2aPqXoG6tEySs"],
    )


class EventRejection(_Out):
    index: int = Field(description="Position in the batch, from 0.")
    id: str | None = Field(description="The event's own id, as far as it has one.")
    code: str = Field(examples=["end_not_after_start"])
    detail: str


class EventsReceipt(_Out):
    accepted: int
    rejected: list[EventRejection]
