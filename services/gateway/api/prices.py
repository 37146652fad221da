"""Price books, quotes, and what has no price."""

from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Depends, Query, Request, Response

from services.gateway.api.parts import Caller, TheParts, may
from services.gateway.api.problems import GATEWAY_PROBLEM_RESPONSES
from services.gateway.api.replies import IdempotencyKey, respond, respond_once
from services.gateway.api.schemas import Page, PriceBookVersion, QuoteIn, QuoteOut
from services.gateway.api.strict_json import StrictJsonRoute
from services.gateway.domain.permissions import Operation
from shared.pages import PAGE_ITEMS_DEFAULT, PageCursor, PageLimit
from shared.schemas import Instant

router = APIRouter(route_class=StrictJsonRoute, tags=["prices"], responses=GATEWAY_PROBLEM_RESPONSES)

_BOOK_EXAMPLE: Final[dict[str, Any]] = {
    "effective_from": "2026-01-01T00:00:00+08:00",
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
        }
    ],
    "rules": [
        {
            "rule": "night_auction",
            "factor": "0.50",
            "when": {"purchase": "night_auction", "kinds": ["gpu", "app"], "local_time": ["23:00", "08:00"]},
        }
    ],
    "trial_credit": {"amount": "10.00", "days": 30},
}
_BOOK_ANSWER: Final[dict[str, Any]] = {
    "description": "The document, with its `version`.",
    "content": {"application/json": {"example": {"version": 1, **_BOOK_EXAMPLE}}},
}
# A book has one grammar and one owner, pricing, which names every field that is wrong: here it is any object.
Book = Annotated[dict[str, Any], Body(openapi_examples={"a small book": {"value": _BOOK_EXAMPLE}})]


@router.get(
    "/v1/price-book",
    summary="The book in force",
    responses={200: _BOOK_ANSWER},
    dependencies=[Depends(may(Operation.READ_PRICES))],
)
async def get_price_book(
    parts: TheParts, at: Annotated[Instant | None, Query(description="At this instant; default now.")] = None
) -> Response:
    return respond(await parts.pricing.price_book(at))


@router.get(
    "/v1/price-books",
    response_model=Page[PriceBookVersion],
    summary="The versions",
    dependencies=[Depends(may(Operation.READ_PRICES))],
)
async def get_price_books(
    parts: TheParts, limit: PageLimit = PAGE_ITEMS_DEFAULT, cursor: PageCursor = None
) -> Response:
    return respond(await parts.pricing.price_books({"limit": limit, "cursor": cursor}))


@router.post(
    "/v1/price-books",
    status_code=201,
    summary="Publish a price book",
    description="Operators only. A book is whole, not a patch; to change the past it is a `correction` (R5).",
    responses={201: _BOOK_ANSWER},
    dependencies=[Depends(may(Operation.PUBLISH_PRICES))],
)
async def post_price_book(
    request: Request, book: Book, caller: Caller, parts: TheParts, idempotency_key: IdempotencyKey = None
) -> Response:
    command = partial(parts.pricing.publish, book)
    return await respond_once(request, idempotency_key, command, caller=caller, parts=parts)


@router.post(
    "/v1/quotes",
    response_model=QuoteOut,
    summary="What would this cost?",
    description="Priced by the function that rates real usage. Changes nothing, so needs no Idempotency-Key.",
    dependencies=[Depends(may(Operation.QUOTE))],
)
async def post_quote(body: QuoteIn, parts: TheParts) -> Response:
    return respond(await parts.pricing.quote([item.model_dump(mode="json") for item in body.items]))


@router.get(
    "/v1/unpriced",
    summary="Usage that has no price yet",
    tags=["exceptions"],
    dependencies=[Depends(may(Operation.READ_EXCEPTIONS))],
)
async def get_unpriced(
    parts: TheParts, limit: PageLimit = PAGE_ITEMS_DEFAULT, cursor: PageCursor = None
) -> Response:
    return respond(await parts.pricing.unpriced({"limit": limit, "cursor": cursor}))


@router.get(
    "/v1/unknown-accounts",
    summary="Accounts that were charged and never opened",
    tags=["exceptions"],
    dependencies=[Depends(may(Operation.READ_EXCEPTIONS))],
)
async def get_unknown_accounts(
    parts: TheParts, limit: PageLimit = PAGE_ITEMS_DEFAULT, cursor: PageCursor = None
) -> Response:
    return respond(await parts.wallet.unknown_accounts({"limit": limit, "cursor": cursor}))
