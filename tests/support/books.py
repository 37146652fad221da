"""Price books and metered facts for tests."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from services.pricing.domain.book import Book, build_book
from services.pricing.domain.document import BookDocument
from services.pricing.domain.rating import Pricer
from shared.contracts.facts import Range, Segment, UsageMetered

DEFAULT_BOOK: Final[dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[2] / "services/pricing/price_books/default.json").read_text("utf-8")
)
WHOLE_HOUR: Final[Range] = (0, 3_600)


def book_body(**changes: Any) -> dict[str, Any]:
    """The default book as posted, with other top-level members."""
    return deepcopy(DEFAULT_BOOK) | changes


def repriced(prices: dict[str, str], **changes: Any) -> dict[str, Any]:
    """The default book with other prices for some skus."""
    body = book_body(**changes)
    for sku in body["skus"]:
        if sku["sku"] in prices:
            sku["price"] = prices[sku["sku"]]
            sku.pop("price_of", None)
    return body


def sku_body(sku: str, /, **changes: Any) -> dict[str, Any]:
    body = {"sku": sku, "name": sku, "kind": "gpu", "unit": "card", "per": "hour", "price": "1.00"}
    body |= changes
    return {name: value for name, value in body.items() if value is not None}


def book(body: dict[str, Any]) -> Book:
    return build_book(BookDocument.model_validate(body))


def pricer(*bodies: dict[str, Any]) -> Pricer:
    """Knows these books as versions 1, 2, 3...; the default book, if none is given."""
    return Pricer({number: book(body) for number, body in enumerate(bodies or (DEFAULT_BOOK,), 1)})


def segment(
    *ranges: Range,
    sku: str = "rtx-4090",
    quantity: int = 1,
    mode: str = "gpu",
    purchase: str = "on_demand",
    labels: dict[str, str] | None = None,
) -> Segment:
    return Segment(sku, quantity, mode, purchase, labels or {}, list(ranges or (WHOLE_HOUR,)))


def metered(
    hour: str,
    *segments: Segment,
    revision: int = 1,
    account_id: str = "acct-7",
    resource_id: str = "inst-8f2c",
) -> UsageMetered:
    return UsageMetered(account_id, resource_id, hour, revision, list(segments))
