"""What the REST of pricing takes and gives."""

from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from services.pricing.domain.document import BookDocument, Label, LabelValue
from services.pricing.domain.published import PublishedBook
from services.pricing.domain.quotes import ITEMS_MAX, Quote, QuotedItem, QuoteItem
from services.pricing.domain.unpriced import UnpricedSeconds
from shared.contracts.usage import LABELS_MAX, QUANTITY_MAX, Mode, Purchase
from shared.money import CURRENCY
from shared.schemas import CnyOut, IdField, Instant

Item = TypeVar("Item")

_BOOK: Final[dict[str, Any]] = {
    "effective_from": "2026-12-01T00:00:00+08:00",
    "time_zone": "Asia/Shanghai",
    "currency": "CNY",
    "correction": False,
    "skus": [
        {
            "sku": "rtx-4090",
            "name": "NVIDIA RTX 4090",
            "kind": "gpu",
            "unit": "card",
            "per": "hour",
            "price": "1.66",
            "memory_gib": 24,
        },
        {
            "sku": "ascend-910b",
            "name": "Huawei Ascend 910B",
            "kind": "gpu",
            "unit": "card",
            "per": "hour",
            "price_of": {"sku": "rtx-4090", "ratio": "0.72"},
            "memory_gib": 64,
        },
    ],
    "rules": [
        {
            "rule": "night_auction",
            "factor": "0.50",
            "when": {
                "purchase": "night_auction",
                "kinds": ["gpu", "app"],
                "local_time": ["23:00", "08:00"],
            },
        },
        {"rule": "no_gpu", "factor": "0.30", "when": {"mode": "no_gpu", "kinds": ["gpu", "app"]}},
    ],
    "trial_credit": {"amount": "10.00", "days": 30},
}
_PUBLISHED: Final[dict[str, Any]] = {**_BOOK, "version": 2, "published_at": "2026-11-20T08:00:00Z"}
_QUOTE: Final[dict[str, Any]] = {
    "items": [
        {
            "sku": "rtx-4090-cluster",
            "quantity": 32,
            "mode": "gpu",
            "purchase": "night_auction",
            "start": "2026-03-10T23:00:00+08:00",
            "end": "2026-03-12T17:00:00+08:00",
        }
    ]
}


class Page(BaseModel, Generic[Item]):
    items: list[Item]
    next_cursor: str | None


class PriceBookIn(BookDocument):
    """A price book to publish. What a book was given when it was published may be left in: a book can be
    read, edited and published again. It counts for nothing.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_BOOK]})

    version: int | None = None
    published_at: Instant | None = None

    def document(self) -> BookDocument:
        return BookDocument.model_validate(self.model_dump(exclude={"version", "published_at"}))


class PriceBookOut(BookDocument):
    """A price book on record."""

    model_config = ConfigDict(json_schema_extra={"examples": [_PUBLISHED]})

    version: int
    published_at: Instant

    @classmethod
    def of(cls, book: PublishedBook) -> "PriceBookOut":
        return cls(**book.document.model_dump(), version=book.version, published_at=book.published_at)


class _In(BaseModel):
    # A misspelt field would be quoted at another price in silence.
    model_config = ConfigDict(frozen=True, extra="forbid")


class QuoteItemIn(_In):
    """One state over [start, end); seconds are counted as in a usage report."""

    sku: IdField = Field(examples=["rtx-4090"])
    quantity: Annotated[int, Field(strict=True, ge=1, le=QUANTITY_MAX)]
    mode: Mode = "gpu"
    purchase: Purchase = "on_demand"
    labels: Annotated[dict[Label, LabelValue], Field(max_length=LABELS_MAX)] = {}
    start: Instant
    end: Instant

    def item(self) -> QuoteItem:
        return QuoteItem(self.sku, self.quantity, self.mode, self.purchase, self.labels, self.start, self.end)


class QuoteIn(_In):
    model_config = ConfigDict(json_schema_extra={"examples": [_QUOTE]})

    items: Annotated[list[QuoteItemIn], Field(min_length=1, max_length=ITEMS_MAX)]


class FactorOut(BaseModel):
    rule: str = Field(examples=["night_auction"])
    factor: str = Field(examples=["0.50"])


class QuoteLineOut(BaseModel):
    """All seconds of the item at one price with the same factors. Usage is billed by the hour and each
    hour is floored to the micro-yuan, so `amount` is the sum of those, not a price times all seconds.
    """

    seconds: int = Field(examples=[64800])
    unit_price: CnyOut
    per: Literal["hour", "day"]
    factors: list[FactorOut]
    amount: CnyOut


class QuotedItemOut(BaseModel):
    sku: str = Field(examples=["rtx-4090-cluster"])
    quantity: int = Field(examples=[32])
    mode: Mode
    purchase: Purchase
    labels: dict[str, str]
    start: Instant
    end: Instant
    seconds: int = Field(examples=[151200])
    lines: list[QuoteLineOut]
    amount: CnyOut

    @classmethod
    def of(cls, quoted: QuotedItem) -> "QuotedItemOut":
        item = quoted.item
        return cls.model_validate(
            {
                "sku": item.sku,
                "quantity": item.quantity,
                "mode": item.mode,
                "purchase": item.purchase,
                "labels": item.labels,
                "start": item.start,
                "end": item.end,
                "seconds": quoted.seconds,
                "lines": [
                    {
                        "seconds": line.seconds,
                        "unit_price": line.unit_price_micro,
                        "per": line.per,
                        "factors": [
                            {"rule": factor.rule, "factor": factor.factor} for factor in line.factors
                        ],
                        "amount": line.amount_micro,
                    }
                    for line in quoted.lines
                ],
                "amount": quoted.amount_micro,
            }
        )


class QuoteOut(BaseModel):
    """`total` is what this usage would be billed, to the micro-yuan, if it ran and no book changed."""

    currency: Literal["CNY"] = CURRENCY
    price_book: int = Field(description="The newest version that was known.")
    items: list[QuotedItemOut]
    total: CnyOut

    @classmethod
    def of(cls, quote: Quote) -> "QuoteOut":
        return cls(
            price_book=quote.price_book,
            items=[QuotedItemOut.of(item) for item in quote.items],
            total=quote.total_micro,
        )


class UnpricedOut(BaseModel):
    """Seconds of a resource-hour that no book has a price for; `price_book` is the last one asked."""

    account_id: str = Field(examples=["acct-7"])
    resource_id: str = Field(examples=["inst-8f2c"])
    hour: Instant
    sku: str = Field(examples=["rtx-6090"])
    seconds: int = Field(examples=[600])
    revision: int
    price_book: int

    @classmethod
    def of(cls, usage: UnpricedSeconds) -> "UnpricedOut":
        return cls(
            account_id=usage.account_id,
            resource_id=usage.resource_id,
            hour=usage.hour,
            sku=usage.sku,
            seconds=usage.seconds,
            revision=usage.revision,
            price_book=usage.price_book,
        )
