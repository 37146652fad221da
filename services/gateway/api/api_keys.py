"""API keys: made, listed and revoked by operators."""

from functools import partial
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response

from services.gateway.api.parts import Caller, Parts, TheParts, may
from services.gateway.api.problems import GATEWAY_PROBLEM_RESPONSES
from services.gateway.api.replies import IdempotencyKey, respond_once
from services.gateway.api.schemas import ApiKeyIn, ApiKeyOut, NewApiKeyOut, Page
from services.gateway.api.strict_json import StrictJsonRoute
from services.gateway.domain.answers import Answer
from services.gateway.domain.permissions import Operation
from services.gateway.usecases.create_api_key import NewKey, create_api_key
from services.gateway.usecases.list_api_keys import FIRST, list_api_keys
from services.gateway.usecases.revoke_api_key import revoke_api_key
from shared.errors import Invalid, NotFound
from shared.pages import PAGE_ITEMS_DEFAULT, PageCursor, PageLimit, decode_cursor, encode_cursor

router = APIRouter(
    route_class=StrictJsonRoute,
    prefix="/v1/api-keys",
    tags=["API keys"],
    responses=GATEWAY_PROBLEM_RESPONSES,
    dependencies=[Depends(may(Operation.MANAGE_KEYS))],
)


@router.post(
    "",
    status_code=201,
    response_model=NewApiKeyOut,
    summary="Make a key",
    description="Operators only. `key` is told this once and kept nowhere.",
)
async def post_api_key(
    request: Request, body: ApiKeyIn, caller: Caller, parts: TheParts, idempotency_key: IdempotencyKey = None
) -> Response:
    wanted = NewKey(body.name, body.role, body.bound_to, body.source_prefix)
    return await respond_once(
        request, idempotency_key, partial(_create, wanted, parts), caller=caller, parts=parts
    )


async def _create(wanted: NewKey, parts: Parts) -> Answer:
    key, secret = await create_api_key(
        wanted,
        database=parts.database,
        clock=parts.clock,
        new_id=parts.new_id,
        random_bytes=parts.random_bytes,
    )
    told = NewApiKeyOut(**ApiKeyOut.of(key).model_dump(), key=secret)
    kept = told.model_copy(update={"key": None})
    return Answer(
        201,
        told.model_dump_json().encode(),
        headers={"location": f"/v1/api-keys/{key.key_id}"},
        kept_body=kept.model_dump_json().encode(),
    )


@router.get("", summary="The keys, oldest first, with those revoked")
async def get_api_keys(
    parts: TheParts, limit: PageLimit = PAGE_ITEMS_DEFAULT, cursor: PageCursor = None
) -> Page[ApiKeyOut]:
    found = await list_api_keys(
        FIRST if cursor is None else _position(cursor), limit, database=parts.database
    )
    return Page(
        items=[ApiKeyOut.of(key) for key in found],
        next_cursor=encode_cursor(found[-1].key_id) if len(found) == limit else None,
    )


@router.delete("/{key_id}", status_code=204, response_class=Response, summary="Revoke a key")
async def delete_api_key(
    request: Request, key_id: str, caller: Caller, parts: TheParts, idempotency_key: IdempotencyKey = None
) -> Response:
    try:
        revoked = UUID(key_id)
    except ValueError:
        raise NotFound(f"there is no API key {key_id!r}") from None
    return await respond_once(
        request, idempotency_key, partial(_revoke, revoked, parts), caller=caller, parts=parts
    )


async def _revoke(key_id: UUID, parts: Parts) -> Answer:
    await revoke_api_key(key_id, database=parts.database, clock=parts.clock, keys=parts.keys)
    return Answer(204, b"")


def _position(cursor: str) -> UUID:
    try:
        return UUID(str(decode_cursor(cursor, str)[0]))
    except ValueError:
        raise Invalid("the cursor is not one that this list gave out", field="cursor") from None
