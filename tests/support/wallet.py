"""Builders for the wallet: charges of an hour, a clock that a test moves, a context on a database."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import count
from typing import Final
from uuid import UUID

import msgspec
from sqlalchemy import text

from services.wallet.domain.charges import Charge, decode_charge, fold
from services.wallet.domain.chart import Transfer
from services.wallet.domain.lots import PRIORITY_OF_KIND, Lot, LotKind
from services.wallet.settings import WalletSettings
from services.wallet.usecases.apply_charges import apply_charges
from services.wallet.usecases.context import Context
from services.wallet.usecases.list_journal import list_journal
from services.wallet.usecases.settle_hours import settle_hours
from shared.contracts.facts import AccountStanding, ChargeLine, ChargeRated, Factor, Period, encode_fact
from shared.database import Database
from shared.ids import uuid7_source
from shared.money import PERIOD_SECONDS, amount_micro
from shared.time import format_epoch

NOON: Final = datetime(2026, 3, 10, 12, tzinfo=UTC)
NOON_EPOCH: Final = int(NOON.timestamp())
RTX_4090: Final = 1_660_000
A100: Final = 3_300_000


class MovingClock:
    """Stands still until it is moved."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **by: float) -> datetime:
        self.now += timedelta(**by)
        return self.now


def caught_up() -> bool:
    """No charge waits to be read."""
    return True


def make_context(url: str, clock: MovingClock, **settings: float) -> Context:
    """Ids grow by a millisecond each, so that a clock that stands still does not shuffle the journal."""
    told = {"database_url": url, "settle_unopened_wait_seconds": 0, **settings}
    wallet_settings = WalletSettings.model_validate(told)
    ticks = count()
    new_id = uuid7_source(lambda: NOON + timedelta(milliseconds=next(ticks)))
    return Context(Database(url, pool_size=10), clock, new_id, wallet_settings)


def line(
    *ranges: tuple[int, int],
    price: int = RTX_4090,
    quantity: int = 1,
    sku: str = "rtx-4090",
    per: Period = "hour",
) -> ChargeLine:
    seconds = sum(until - start for start, until in ranges)
    return ChargeLine(
        sku=sku,
        quantity=quantity,
        mode="gpu",
        purchase="on_demand",
        labels={},
        ranges=list(ranges),
        seconds=seconds,
        unit_price=price,
        per=per,
        factors=[],
        amount=amount_micro(price, quantity, seconds, (), PERIOD_SECONDS[per]),
    )


def with_factor(base: ChargeLine, rule: str, factor: str) -> ChargeLine:
    amount = amount_micro(
        base.unit_price, base.quantity, base.seconds, [Fraction(factor)], PERIOD_SECONDS[base.per]
    )
    return ChargeLine(
        base.sku,
        base.quantity,
        base.mode,
        base.purchase,
        base.labels,
        base.ranges,
        base.seconds,
        base.unit_price,
        base.per,
        [Factor(rule, factor)],
        amount,
    )


def rated(
    account_id: str,
    hour: int,
    lines: Sequence[ChargeLine],
    *,
    resource_id: str = "i",
    revision: int = 1,
    price_book: int = 1,
    rate_per_hour: int | None = None,
) -> bytes:
    """A charge.rated.v1 record's value; `hour` in seconds since 1970."""
    last = max((until for part in lines for _, until in part.ranges), default=0)
    if rate_per_hour is None:
        rate_per_hour = sum(part.unit_price * part.quantity for part in lines[-1:])
    return encode_fact(
        ChargeRated(
            account_id=account_id,
            resource_id=resource_id,
            hour=format_epoch(hour),
            revision=revision,
            price_book=price_book,
            amount=sum(part.amount for part in lines),
            lines=list(lines),
            unpriced=[],
            covered_until=format_epoch(hour + last),
            rate_per_hour=rate_per_hour,
        )
    )


def charge(
    account_id: str,
    hour: int,
    lines: Sequence[ChargeLine],
    *,
    resource_id: str = "i",
    revision: int = 1,
    price_book: int = 1,
    rate_per_hour: int | None = None,
) -> Charge:
    return decode_charge(
        rated(
            account_id,
            hour,
            lines,
            resource_id=resource_id,
            revision=revision,
            price_book=price_book,
            rate_per_hour=rate_per_hour,
        )
    )


def make_lot(
    number: int,
    kind: LotKind,
    *,
    granted: int = 10_000_000,
    remaining: int | None = None,
    effective_at: datetime = NOON,
    expires_at: datetime | None = None,
    created_at: datetime | None = None,
    swept: bool = False,
) -> Lot:
    """A lot whose id is its number."""
    return Lot(
        UUID(int=number),
        kind,
        PRIORITY_OF_KIND[kind],
        granted,
        granted if remaining is None else remaining,
        effective_at,
        expires_at,
        effective_at if created_at is None else created_at,
        swept,
    )


async def charge_account(context: Context, *charges: Charge) -> int:
    return await apply_charges(context, fold(charges))


async def settle_all(context: Context) -> int:
    """Until nothing is due."""
    hours = 0
    while settled := await settle_hours(context):
        hours += settled
    return hours


async def standings_told(context: Context, account_id: str) -> list[AccountStanding]:
    """What the outbox holds for this account, oldest first."""
    async with context.database.reading() as connection:
        rows = await connection.execute(
            text("SELECT value FROM outbox WHERE key = :key ORDER BY outbox_id"), {"key": account_id.encode()}
        )
        return [msgspec.json.decode(value, type=AccountStanding) for value in rows.scalars()]


async def journal_of(context: Context, account_id: str) -> list[tuple[str, list[Transfer]]]:
    """Kind and transfers of each entry, oldest first."""
    booked = await list_journal(context, account_id, None, 500)
    return [(found.entry.kind, list(found.transfers)) for found in reversed(booked)]
