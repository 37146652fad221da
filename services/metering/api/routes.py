"""GET /v1/accounts/{account_id:path}/usage, POST and GET /v1/republish."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response, status

from services.metering.api.schemas import RepublishIn, RepublishList, RepublishOut, UsageList
from services.metering.domain.usage import GROUP_BY_DEFAULT, TIME_ZONE_DEFAULT
from services.metering.usecases.list_republications import list_republications
from services.metering.usecases.request_republication import request_republication
from services.metering.usecases.summarize_usage import summarize_usage
from shared.database import Database
from shared.pages import PAGE_ITEMS_DEFAULT, PageCursor, PageLimit
from shared.problems import PROBLEM_RESPONSES
from shared.schemas import IdField, Instant
from shared.time import Clock

GROUP_BY_CHARACTERS_MAX = 600

AccountPath = Annotated[IdField, Path(description="The account.")]
FromQuery = Annotated[
    Instant | None,
    Query(alias="from", description="Usage from this instant on; by default the local month's start."),
]
ToQuery = Annotated[
    Instant | None, Query(alias="to", description="Usage before this instant; by default now.")
]
GroupByQuery = Annotated[
    str,
    Query(
        max_length=GROUP_BY_CHARACTERS_MAX,
        description="Comma list of at most one of hour, day, month, and of sku, mode, purchase, resource,"
        " label:<key>. Items are ordered by these fields, in this order.",
        examples=["day,sku", "hour,resource", "month,label:project"],
    ),
]
TimeZoneQuery = Annotated[
    str, Query(max_length=64, description="IANA zone whose hours, days and months are meant.")
]


def usage_router(database: Database, clock: Clock) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["usage"], responses=PROBLEM_RESPONSES)

    @router.get(
        "/accounts/{account_id:path}/usage",
        summary="Seconds and card-seconds of an account, grouped",
        response_model_exclude_unset=True,
    )
    async def usage(
        account_id: AccountPath,
        from_: FromQuery = None,
        to: ToQuery = None,
        group_by: GroupByQuery = GROUP_BY_DEFAULT,
        time_zone: TimeZoneQuery = TIME_ZONE_DEFAULT,
        limit: PageLimit = PAGE_ITEMS_DEFAULT,
        cursor: PageCursor = None,
    ) -> UsageList:
        """Every second counts once, for the state that owns it, exactly as it is billed.

        Periods are cut at whole seconds, so periods that adjoin add up. An account without usage, or one
        that metering has not heard of, has an empty list. A cursor carries the period of its first page.
        """
        page = await summarize_usage(
            database,
            account_id=account_id,
            start=from_,
            end=to,
            group_by=group_by,
            time_zone=time_zone,
            limit=limit,
            cursor=cursor,
            now=clock(),
        )
        return UsageList.of(page)

    return router


def republish_router(database: Database, clock: Clock) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["republish"], responses=PROBLEM_RESPONSES)

    @router.post(
        "/republish",
        summary="Tell the facts of a period again",
        description="Done by a worker, soon. A reference names one period: the same again is answered with"
        " 200 and its progress, another period under it with 409.",
        status_code=status.HTTP_201_CREATED,
    )
    async def post_republish(body: RepublishIn, response: Response) -> RepublishOut:
        requested = await request_republication(database, clock, body.reference, body.from_, body.to)
        if not requested.is_new:
            response.status_code = status.HTTP_200_OK
        return RepublishOut.of(requested.republication)

    @router.get("/republish", summary="What was asked to be told again, the newest first")
    async def get_republish(
        limit: PageLimit = PAGE_ITEMS_DEFAULT, cursor: PageCursor = None
    ) -> RepublishList:
        republications, next_cursor = await list_republications(database, limit, cursor)
        return RepublishList(
            items=[RepublishOut.of(each) for each in republications], next_cursor=next_cursor
        )

    return router
