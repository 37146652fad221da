"""The wallet's REST on the private network; the gateway authenticates and forwards."""

from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, FastAPI, Path, Query, Response

from services.wallet.api import schemas
from services.wallet.domain.account import Account
from services.wallet.domain.commands import Grant, HoldRequest, TopUp
from services.wallet.usecases.context import Context
from services.wallet.usecases.grant_credit import grant_credit
from services.wallet.usecases.list_charges import ChargeExplained, list_charges
from services.wallet.usecases.list_journal import EntryBooked, list_journal
from services.wallet.usecases.list_unknown_accounts import list_unknown_accounts
from services.wallet.usecases.place_hold import place_hold
from services.wallet.usecases.read_account import read_account
from services.wallet.usecases.read_balance import Balance, read_balance
from services.wallet.usecases.release_hold import release_hold
from services.wallet.usecases.top_up import top_up
from shared.errors import Invalid
from shared.ids import ID_PATTERN
from shared.pages import PAGE_ITEMS_DEFAULT, PageCursor, PageLimit, decode_cursor, encode_cursor
from shared.problems import PROBLEM_RESPONSES, install_problems
from shared.schemas import Instant
from shared.time import epoch_second, from_epoch

AccountIdPath = Annotated[str, Path(pattern=ID_PATTERN.replace(r"\Z", "$"), examples=["acct-7"])]
ResourceIdQuery = Annotated[str | None, Query(pattern=ID_PATTERN.replace(r"\Z", "$"))]

_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
_LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def build_api(context: Context) -> FastAPI:
    app = FastAPI(title="wallet", version="1", responses=PROBLEM_RESPONSES)
    install_problems(app)
    app.include_router(_account_routes(context))
    app.include_router(_hold_routes(context))
    return app


def _account_routes(context: Context) -> APIRouter:
    routes = APIRouter(prefix="/v1")

    @routes.get("/accounts/{account_id:path}/balance", summary="What it has, owes and burns")
    async def get_balance(account_id: AccountIdPath) -> schemas.BalanceOut:
        return _balance(await read_balance(context, account_id))

    @routes.post(
        "/accounts/{account_id:path}/top-ups",
        status_code=201,
        summary="Book cash that came in, once per reference; debt is paid first",
        responses={200: {"description": "Booked before under this reference: the first answer"}},
    )
    async def post_top_up(
        account_id: AccountIdPath, body: schemas.TopUpIn, response: Response
    ) -> schemas.TopUpOut:
        done = await top_up(context, TopUp(account_id, body.amount, body.channel, body.reference))
        response.status_code = 200 if done.repeated else 201
        return schemas.TopUpOut(
            account_id=account_id,
            entry_id=done.entry_id,
            lot_id=done.lot_id,
            amount=body.amount,
            debt_paid=done.debt_paid,
            channel=body.channel,
            reference=body.reference,
            occurred_at=done.occurred_at,
        )

    @routes.post(
        "/accounts/{account_id:path}/grants",
        status_code=201,
        summary="Give promotional credit, once per reference",
        responses={200: {"description": "Given before under this reference: the first answer"}},
    )
    async def post_grant(
        account_id: AccountIdPath, body: schemas.GrantIn, response: Response
    ) -> schemas.GrantOut:
        command = Grant(
            account_id,
            body.kind,
            body.amount,
            body.reference,
            body.priority,
            body.effective_at,
            body.expires_at,
        )
        done = await grant_credit(context, command)
        response.status_code = 200 if done.repeated else 201
        return schemas.GrantOut(
            account_id=account_id,
            entry_id=done.entry_id,
            lot_id=done.lot.lot_id,
            kind=done.lot.kind,
            amount=done.lot.granted,
            priority=done.lot.priority,
            effective_at=done.lot.effective_at,
            expires_at=done.lot.expires_at,
            reference=body.reference,
            occurred_at=done.occurred_at,
        )

    @routes.get("/accounts/{account_id:path}/journal", summary="Entries with their transfers, newest first")
    async def get_journal(
        account_id: AccountIdPath, limit: PageLimit = PAGE_ITEMS_DEFAULT, cursor: PageCursor = None
    ) -> schemas.JournalPage:
        await read_account(context, account_id)
        entries = await list_journal(context, account_id, _entry_before(cursor), limit)
        more = len(entries) == limit
        return schemas.JournalPage(
            items=[_entry(booked) for booked in entries],
            next_cursor=encode_cursor(str(entries[-1].entry.entry_id)) if more else None,
        )

    @routes.get("/accounts/{account_id:path}/charges", summary="One per resource-hour: why this amount")
    async def get_charges(
        account_id: AccountIdPath,
        first: Annotated[Instant | None, Query(alias="from")] = None,
        until: Annotated[Instant | None, Query(alias="to")] = None,
        resource_id: ResourceIdQuery = None,
        limit: PageLimit = PAGE_ITEMS_DEFAULT,
        cursor: PageCursor = None,
    ) -> schemas.ChargesPage:
        await read_account(context, account_id)
        charges = await list_charges(
            context,
            account_id,
            first or _EARLIEST,
            until or _LATEST,
            resource_id,
            _charge_after(cursor),
            limit,
        )
        more = len(charges) == limit
        return schemas.ChargesPage(
            items=[_charge(explained) for explained in charges],
            next_cursor=_charge_cursor(charges[-1]) if more else None,
        )

    # An id may hold a slash, so the path without a last part stands after those that have one.
    @routes.get("/accounts/{account_id:path}", summary="What the wallet knows of an account")
    async def get_account(account_id: AccountIdPath) -> schemas.AccountOut:
        row = await read_account(context, account_id)
        return schemas.AccountOut(
            account_id=row.account_id,
            name=row.name,
            kind=row.kind,
            registered_at=row.registered_at,
            opened=row.opened,
            created_at=row.created_at,
        )

    @routes.get("/unknown-accounts", summary="Charged or topped up, but never opened")
    async def get_unknown_accounts(
        limit: PageLimit = PAGE_ITEMS_DEFAULT, cursor: PageCursor = None
    ) -> schemas.UnknownAccountsPage:
        after = "" if cursor is None else str(decode_cursor(cursor, str)[0])
        unknown = await list_unknown_accounts(context, after, limit)
        more = len(unknown) == limit
        return schemas.UnknownAccountsPage(
            items=[
                schemas.UnknownAccountOut(
                    account_id=row.account_id,
                    first_seen_at=row.created_at,
                    charged=row.charged_ever,
                    accrued=row.accrued,
                )
                for row in unknown
            ],
            next_cursor=encode_cursor(unknown[-1].account_id) if more else None,
        )

    return routes


def _hold_routes(context: Context) -> APIRouter:
    routes = APIRouter(prefix="/v1")

    @routes.post(
        "/holds",
        status_code=201,
        summary="May this start? Takes its price from available",
        responses={
            200: {"description": "Placed before under this reference and still in force: the first answer"},
            402: {
                **PROBLEM_RESPONSES[409],
                "description": "Available does not cover it; `shortfall` says by how much",
            },
        },
    )
    async def post_hold(body: schemas.HoldIn, response: Response) -> schemas.HoldOut:
        request = HoldRequest(
            body.account_id,
            body.sku,
            body.quantity,
            body.mode,
            body.purchase,
            body.seconds,
            body.reference,
            body.amount,
        )
        placed = await place_hold(context, request)
        response.status_code = 200 if placed.repeated else 201
        return schemas.HoldOut(
            hold_id=placed.hold.hold_id,
            account_id=placed.hold.account_id,
            reference=placed.hold.reference,
            sku=body.sku,
            quantity=body.quantity,
            mode=body.mode,
            purchase=body.purchase,
            seconds=body.seconds,
            amount=placed.hold.amount,
            state=placed.hold.state,
            created_at=placed.hold.created_at,
            expires_at=placed.hold.expires_at,
        )

    @routes.delete("/holds/{hold_id}", status_code=204, summary="Give back what a hold took; once")
    async def delete_hold(
        hold_id: UUID,
        account_id: Annotated[
            str | None, Query(description="If given, only a hold of this account is found.")
        ] = None,
    ) -> None:
        await release_hold(context, hold_id, account_id)

    return routes


def _balance(balance: Balance) -> schemas.BalanceOut:
    account: Account = balance.account
    return schemas.BalanceOut(
        account_id=account.account_id,
        available=account.funds.available,
        cash=account.cash,
        credits=[
            schemas.CreditOut(
                lot_id=lot.lot_id,
                kind=lot.kind,
                granted=lot.granted,
                remaining=lot.remaining,
                priority=lot.priority,
                effective_at=lot.effective_at,
                expires_at=lot.expires_at,
                expired=lot.expires_at is not None and lot.expires_at <= balance.as_of,
                counts=lot.is_valid_at(balance.as_of),
            )
            for lot in balance.credits
        ],
        accrued=account.accrued,
        held=account.held,
        debt=account.debt,
        standing=account.standing,
        epoch=account.epoch,
        burn_rate_per_hour=account.burn_rate_per_hour,
        runway_seconds=balance.runway_seconds,
        as_of=balance.as_of,
    )


def _entry(booked: EntryBooked) -> schemas.EntryOut:
    entry = booked.entry
    return schemas.EntryOut(
        entry_id=entry.entry_id,
        kind=entry.kind,
        reference=entry.reference,
        hour=entry.hour,
        occurred_at=entry.occurred_at,
        memo=entry.memo,
        transfers=[
            schemas.TransferOut(
                debit_account=transfer.debit,
                credit_account=transfer.credit,
                amount=transfer.amount_micro,
            )
            for transfer in booked.transfers
        ],
    )


def _charge(explained: ChargeExplained) -> schemas.ChargeOut:
    charge = explained.charge
    return schemas.ChargeOut(
        resource_id=charge.resource_id,
        hour=charge.hour,
        revision=charge.revision,
        price_book=charge.price_book,
        amount=charge.amount,
        settled=charge.settled,
        lines=[
            schemas.LineOut(
                sku=line.sku,
                quantity=line.quantity,
                mode=line.mode,
                purchase=line.purchase,
                labels=line.labels,
                ranges=line.ranges,
                seconds=line.seconds,
                unit_price=line.unit_price,
                per=line.per,
                factors=[
                    schemas.FactorOut(rule=factor.rule, factor=factor.factor) for factor in line.factors
                ],
                amount=line.amount,
            )
            for line in explained.lines
        ],
        unpriced=[schemas.UnpricedOut(sku=part.sku, seconds=part.seconds) for part in explained.unpriced],
        covered_until=charge.covered_until,
        paid_by=[
            schemas.PayerOut(
                source="debt" if payer.lot_id is None else "lot",
                lot_id=payer.lot_id,
                kind=payer.kind,
                amount=payer.amount,
            )
            for payer in explained.paid_by
        ],
    )


def _entry_before(cursor: str | None) -> UUID | None:
    if cursor is None:
        return None
    try:
        return UUID(str(decode_cursor(cursor, str)[0]))
    except ValueError:
        raise Invalid("the cursor is not one that this list gave out", field="cursor") from None


def _charge_cursor(explained: ChargeExplained) -> str:
    return encode_cursor(epoch_second(explained.charge.hour), explained.charge.resource_id)


def _charge_after(cursor: str | None) -> tuple[datetime, str] | None:
    if cursor is None:
        return None
    hour, resource_id = decode_cursor(cursor, int, str)
    try:
        return from_epoch(int(hour)), str(resource_id)
    except OverflowError:
        raise Invalid("the cursor is not one that this list gave out", field="cursor") from None
