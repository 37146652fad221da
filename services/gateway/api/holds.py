"""Holds: may this start?"""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from services.gateway.api.parts import Caller, TheParts
from services.gateway.api.problems import GATEWAY_PROBLEM_RESPONSES
from services.gateway.api.replies import IdempotencyKey, respond_once
from services.gateway.api.schemas import HoldIn, HoldOut
from services.gateway.api.strict_json import StrictJsonRoute
from services.gateway.domain.permissions import Operation
from services.gateway.usecases.find_account import find_account
from services.gateway.usecases.place_hold import HoldWanted, place_hold
from services.gateway.usecases.release_hold import release_hold
from shared.problems import PROBLEM_RESPONSES
from shared.schemas import IdField

router = APIRouter(
    route_class=StrictJsonRoute, prefix="/v1/holds", tags=["holds"], responses=GATEWAY_PROBLEM_RESPONSES
)


@router.post(
    "",
    status_code=201,
    response_model=HoldOut,
    summary="May this start?",
    description=(
        "Takes the price of that time, from now on, out of available; 402 with the `shortfall` if there is "
        "too little. Once per `reference`."
    ),
    responses={
        402: {**PROBLEM_RESPONSES[404], "description": "Payment Required: `shortfall` says how much."}
    },
)
async def post_hold(
    request: Request, body: HoldIn, caller: Caller, parts: TheParts, idempotency_key: IdempotencyKey = None
) -> Response:
    account = await find_account(body.account_id, caller, Operation.PLACE_HOLD, database=parts.database)
    wanted = HoldWanted(
        account.account_id, body.sku, body.quantity, body.mode, body.purchase, body.seconds, body.reference
    )
    command = partial(place_hold, wanted, pricing=parts.pricing, wallet=parts.wallet, clock=parts.clock)
    return await respond_once(request, idempotency_key, command, caller=caller, parts=parts)


@router.delete(
    "/{hold_id}",
    status_code=204,
    response_class=Response,
    summary="Release a hold",
    description=(
        "What it took is available again. Releasing twice is releasing once. A key that is bound to many "
        "accounts is answered sooner if it names the `account_id`."
    ),
)
async def delete_hold(
    request: Request,
    hold_id: str,
    caller: Caller,
    parts: TheParts,
    account_id: Annotated[IdField | None, Query(description="Whose hold it is.")] = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    command = partial(release_hold, hold_id, account_id, caller, wallet=parts.wallet)
    return await respond_once(request, idempotency_key, command, caller=caller, parts=parts)
