"""Builders for the wallet: charges of an hour, a clock that a test moves, a context on a database."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from services.wallet.domain.charges import Charge, decode_charge
from services.wallet.settings import WalletSettings
from services.wallet.usecases.context import Context
from shared.contracts.facts import ChargeLine, ChargeRated, Factor, encode_fact
from shared.database import Database
from shared.ids import uuid7_source
from shared.money import PERIOD_SECONDS, amount_micro
from shared.time import format_epoch, from_epoch

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


def make_context(url: str, clock: MovingClock, **settings: float) -> Context:
    wallet_settings = WalletSettings.model_validate({"database_url": url, **settings})
    return Context(Database(url, pool_size=10), clock, uuid7_source(clock), wallet_settings)


def line(
    *ranges: tuple[int, int],
    price: int = RTX_4090,
    quantity: int = 1,
    sku: str = "rtx-4090",
    per: str = "hour",
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
    from fractions import Fraction  # noqa: PLC0415 - only here

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


def at(hour: int) -> datetime:
    return from_epoch(hour)
