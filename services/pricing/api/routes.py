"""The routes of pricing, on the private network: the gateway is the door."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, FastAPI, Query, status

from services.pricing.api.schemas import Page, PriceBookIn, PriceBookOut, QuoteIn, QuoteOut, UnpricedOut
from services.pricing.usecases.find_book import FindBook
from services.pricing.usecases.list_books import ListBooks
from services.pricing.usecases.list_unpriced import ListUnpriced
from services.pricing.usecases.publish_book import PublishBook
from services.pricing.usecases.quote_usage import QuoteUsage
from shared.pages import PAGE_ITEMS_DEFAULT, PageCursor, PageLimit
from shared.problems import PROBLEM_RESPONSES, install_problems
from shared.schemas import IdField, Instant


@dataclass(frozen=True)
class Operations:
    """The use cases behind the routes."""

    find_book: FindBook
    list_books: ListBooks
    publish_book: PublishBook
    quote_usage: QuoteUsage
    list_unpriced: ListUnpriced


def build_api(operations: Operations) -> FastAPI:
    app = FastAPI(
        title="Pricing",
        version="1",
        description="Price books, and what seconds cost under them.",
        responses=PROBLEM_RESPONSES,
    )
    install_problems(app)
    app.include_router(_price_books(operations))
    app.include_router(_rating(operations))
    return app


def _price_books(operations: Operations) -> APIRouter:
    router = APIRouter(tags=["price books"])

    @router.get("/v1/price-book", summary="The book in force", response_model_exclude_none=True)
    async def get_price_book(
        at: Annotated[Instant | None, Query(description="At this instant; now, if left out.")] = None,
    ) -> PriceBookOut:
        return PriceBookOut.of(await operations.find_book(at))

    @router.get("/v1/price-books", summary="All versions, the newest first")
    async def get_price_books(
        limit: PageLimit = PAGE_ITEMS_DEFAULT, cursor: PageCursor = None
    ) -> Page[PriceBookOut]:
        books, next_cursor = await operations.list_books(limit, cursor)
        return Page(items=[PriceBookOut.of(book) for book in books], next_cursor=next_cursor)

    @router.post(
        "/v1/price-books",
        summary="Publish a book",
        description="A book is whole, not a patch. It takes effect at or after its publication, unless it is"
        " a correction (R5).",
        status_code=status.HTTP_201_CREATED,
        response_model_exclude_none=True,
    )
    async def post_price_book(body: PriceBookIn) -> PriceBookOut:
        return PriceBookOut.of(await operations.publish_book(body.document()))

    return router


def _rating(operations: Operations) -> APIRouter:
    router = APIRouter(tags=["rating"])

    @router.post("/v1/quotes", summary="What would this cost")
    async def post_quote(body: QuoteIn) -> QuoteOut:
        return QuoteOut.of(await operations.quote_usage([item.item() for item in body.items]))

    @router.get("/v1/unpriced", summary="Usage that waits for a price")
    async def get_unpriced(
        sku: Annotated[IdField | None, Query(description="Only of this sku.")] = None,
        limit: PageLimit = PAGE_ITEMS_DEFAULT,
        cursor: PageCursor = None,
    ) -> Page[UnpricedOut]:
        usages, next_cursor = await operations.list_unpriced(sku, limit, cursor)
        return Page(items=[UnpricedOut.of(usage) for usage in usages], next_cursor=next_cursor)

    return router
