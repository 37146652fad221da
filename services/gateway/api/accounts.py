"""Accounts, and what siblings know of one account."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from services.gateway.api.parts import Caller, Parts, TheParts, account_for, may
from services.gateway.api.problems import GATEWAY_PROBLEM_RESPONSES
from services.gateway.api.replies import IdempotencyKey, respond, respond_once
from services.gateway.api.schemas import (
    AccountIn,
    AccountOut,
    BalanceOut,
    ChargeOut,
    GrantIn,
    GrantOut,
    JournalEntry,
    Page,
    TopUpIn,
    TopUpOut,
    UsageGroup,
)
from services.gateway.api.strict_json import StrictJsonRoute
from services.gateway.clients.sibling import segment
from services.gateway.domain.accounts import Account, Opening, account_id_for
from services.gateway.domain.answers import Answer
from services.gateway.domain.permissions import Operation
from services.gateway.usecases.list_accounts import list_accounts
from services.gateway.usecases.open_account import await_wallet, open_account
from shared.errors import Invalid
from shared.ids import is_id
from shared.pages import PAGE_ITEMS_DEFAULT, PageCursor, PageLimit, decode_cursor, encode_cursor
from shared.schemas import IdField, Instant
from shared.time import format_instant

router = APIRouter(route_class=StrictJsonRoute, prefix="/v1/accounts", responses=GATEWAY_PROBLEM_RESPONSES)

# An account id may contain "/": it is then %2F or plain in the path, and both mean the same account.
ONE = "/{account_id:path}"

From = Annotated[Instant | None, Query(alias="from", description="From this instant on.")]
To = Annotated[Instant | None, Query(description="Before this instant.")]
GroupBy = Annotated[
    str | None,
    Query(
        pattern=r"^[A-Za-z0-9._:/@,-]{1,500}$",
        description="hour, day or month, then any of sku, mode, purchase, resource, label:<name>.",
        examples=["day,sku,label:project"],
    ),
]

TimeZone = Annotated[
    str | None,
    Query(
        pattern=r"^[A-Za-z0-9_+/-]{1,64}$",
        description="IANA zone whose hours, days and months are meant; default Asia/Shanghai.",
        examples=["Asia/Shanghai"],
    ),
]


@router.post(
    "",
    status_code=201,
    response_model=AccountOut,
    tags=["accounts"],
    summary="Open an account",
    description=(
        "Operators only. Opens the wallet and grants the trial credit, once. Repeating it with the same "
        "content gives the same account with 200; other content under the same id is 409. The answer waits "
        "up to 3 s for the wallet."
    ),
    responses={200: {"model": AccountOut, "description": "It was open already, with the same content."}},
    dependencies=[Depends(may(Operation.OPEN_ACCOUNT))],
)
async def post_account(
    request: Request, body: AccountIn, caller: Caller, parts: TheParts, idempotency_key: IdempotencyKey = None
) -> Response:
    account_id = body.account_id or account_id_for(caller.key_id, idempotency_key, parts.new_id)
    opening = Opening(body.name, body.kind, body.registered_at, body.trial)
    command = partial(_open, account_id, opening, parts)
    return await respond_once(request, idempotency_key, command, caller=caller, parts=parts)


async def _open(account_id: str, opening: Opening, parts: Parts) -> Answer:
    opened = await open_account(
        account_id, opening, database=parts.database, pricing=parts.pricing, clock=parts.clock
    )
    await await_wallet(account_id, parts.wallet, parts.settings.wallet_wait_seconds)
    return Answer(
        201 if opened.is_new else 200,
        AccountOut.of(opened.account).model_dump_json().encode(),
        headers={"location": f"/v1/accounts/{segment(account_id)}"},
    )


@router.get(
    "",
    tags=["accounts"],
    summary="The accounts that the key may see",
    dependencies=[Depends(may(Operation.LIST_ACCOUNTS))],
)
async def get_accounts(
    caller: Caller, parts: TheParts, limit: PageLimit = PAGE_ITEMS_DEFAULT, cursor: PageCursor = None
) -> Page[AccountOut]:
    after = "" if cursor is None else _position(cursor)
    found = await list_accounts(caller, after, limit, database=parts.database)
    return Page(
        items=[AccountOut.of(account) for account in found],
        next_cursor=encode_cursor(found[-1].account_id) if len(found) == limit else None,
    )


@router.get(
    ONE + "/balance",
    response_model=BalanceOut,
    tags=["money"],
    summary="What is available, owed and burning",
)
async def get_balance(
    account: Annotated[Account, Depends(account_for(Operation.READ_BALANCE))], parts: TheParts
) -> Response:
    return respond(await parts.wallet.balance(account.account_id))


@router.post(
    ONE + "/top-ups",
    status_code=201,
    response_model=TopUpOut,
    tags=["money"],
    summary="Book cash",
    description="Operators only. Once per `reference`: a repeat gives the first, other content is 409.",
)
async def post_top_up(
    request: Request,
    account: Annotated[Account, Depends(account_for(Operation.TOP_UP))],
    body: TopUpIn,
    caller: Caller,
    parts: TheParts,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    command = partial(parts.wallet.top_up, account.account_id, body.model_dump(mode="json"))
    return await respond_once(request, idempotency_key, command, caller=caller, parts=parts)


@router.post(
    ONE + "/grants",
    status_code=201,
    response_model=GrantOut,
    tags=["money"],
    summary="Grant a promotional lot",
    description="Operators only. Once per `reference`: a repeat gives the first, other content is 409.",
)
async def post_grant(
    request: Request,
    account: Annotated[Account, Depends(account_for(Operation.GRANT_CREDIT))],
    body: GrantIn,
    caller: Caller,
    parts: TheParts,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    asked = body.model_dump(mode="json", exclude_none=True)
    command = partial(parts.wallet.grant, account.account_id, asked)
    return await respond_once(request, idempotency_key, command, caller=caller, parts=parts)


@router.get(
    ONE + "/journal",
    response_model=Page[JournalEntry],
    tags=["money"],
    summary="Entries with their transfers, newest first",
)
async def get_journal(
    account: Annotated[Account, Depends(account_for(Operation.READ_JOURNAL))],
    parts: TheParts,
    limit: PageLimit = PAGE_ITEMS_DEFAULT,
    cursor: PageCursor = None,
) -> Response:
    return respond(await parts.wallet.journal(account.account_id, {"limit": limit, "cursor": cursor}))


@router.get(
    ONE + "/usage",
    response_model=Page[UsageGroup],
    tags=["usage"],
    summary="Seconds and card-seconds per group",
)
async def get_usage(
    account: Annotated[Account, Depends(account_for(Operation.READ_USAGE))],
    parts: TheParts,
    since: From = None,
    to: To = None,
    group_by: GroupBy = None,
    time_zone: TimeZone = None,
    limit: PageLimit = PAGE_ITEMS_DEFAULT,
    cursor: PageCursor = None,
) -> Response:
    query = {
        "from": None if since is None else format_instant(since),
        "to": None if to is None else format_instant(to),
        "group_by": group_by,
        "time_zone": time_zone,
        "limit": limit,
        "cursor": cursor,
    }
    return respond(await parts.metering.usage(account.account_id, query))


@router.get(
    ONE + "/charges",
    response_model=Page[ChargeOut],
    tags=["money"],
    summary="Why this amount: one item per resource-hour",
)
async def get_charges(
    account: Annotated[Account, Depends(account_for(Operation.READ_CHARGES))],
    parts: TheParts,
    since: From = None,
    to: To = None,
    resource_id: Annotated[IdField | None, Query()] = None,
    limit: PageLimit = PAGE_ITEMS_DEFAULT,
    cursor: PageCursor = None,
) -> Response:
    query = {
        "from": None if since is None else format_instant(since),
        "to": None if to is None else format_instant(to),
        "resource_id": resource_id,
        "limit": limit,
        "cursor": cursor,
    }
    return respond(await parts.wallet.charges(account.account_id, query))


def _position(cursor: str) -> str:
    after = str(decode_cursor(cursor, str)[0])
    if not is_id(after):
        raise Invalid("the cursor is not one that this list gave out", field="cursor")
    return after


# Last: its path takes everything that the ones above did not.
@router.get(ONE, tags=["accounts"], summary="An account and its standing")
async def get_account(
    account: Annotated[Account, Depends(account_for(Operation.READ_ACCOUNT))],
) -> AccountOut:
    return AccountOut.of(account)
