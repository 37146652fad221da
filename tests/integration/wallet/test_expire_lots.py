"""The rest of a lot goes to breakage once, after its grace, when its hours are settled (R15)."""

import asyncio
from datetime import timedelta

from services.wallet.domain import chart
from services.wallet.domain.chart import Transfer
from services.wallet.domain.commands import Grant, TopUp
from services.wallet.usecases.context import Context
from services.wallet.usecases.expire_lots import expire_lots
from services.wallet.usecases.grant_credit import grant_credit
from services.wallet.usecases.read_balance import read_balance
from services.wallet.usecases.top_up import top_up
from tests.support.wallet import (
    NOON,
    NOON_EPOCH,
    MovingClock,
    caught_up,
    charge,
    charge_account,
    journal_of,
    line,
    settle_all,
)

GRANT = Grant("a", "promo", 5_000_000, "v", expires_at=NOON + timedelta(minutes=30))


async def test_a_lot_is_swept_once_its_grace_is_over(context: Context, clock: MovingClock) -> None:
    done = await grant_credit(context, GRANT)
    clock.now = NOON + timedelta(minutes=89, seconds=59)
    assert await expire_lots(context, caught_up) == 0
    balance = await read_balance(context, "a")
    assert balance.account.funds.available == 0
    assert [lot.remaining for lot in balance.credits] == [5_000_000]
    clock.forward(seconds=1)
    assert sum(await asyncio.gather(*(expire_lots(context, caught_up) for _ in range(4)))) == 1
    assert await expire_lots(context, caught_up) == 0
    assert (await read_balance(context, "a")).credits == []
    assert (await journal_of(context, "a"))[-1] == (
        "expiry",
        [Transfer(chart.lot(done.lot.lot_id), chart.BREAKAGE, 5_000_000)],
    )


async def test_a_lot_granted_after_its_end_keeps_its_grace(context: Context, clock: MovingClock) -> None:
    clock.now = NOON + timedelta(days=2)
    await grant_credit(
        context, Grant("a", "promo", 1, "v", effective_at=NOON, expires_at=NOON + timedelta(hours=1))
    )
    assert await expire_lots(context, caught_up) == 0
    clock.forward(hours=1)
    assert await expire_lots(context, caught_up) == 1


async def test_usage_of_its_time_that_is_not_settled_yet_keeps_a_lot_from_breakage(
    context: Context, clock: MovingClock
) -> None:
    await grant_credit(context, GRANT)
    clock.now = NOON + timedelta(hours=3)
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, 3600))]))
    assert await expire_lots(context, caught_up) == 0
    clock.forward(seconds=3)
    await settle_all(context)
    assert await expire_lots(context, caught_up) == 1
    entries = await journal_of(context, "a")
    assert [kind for kind, _ in entries] == ["grant", "settlement", "expiry"]
    assert entries[-1][1][0].amount_micro == 5_000_000 - 830_000


async def test_nothing_is_swept_while_charges_wait_to_be_read(context: Context, clock: MovingClock) -> None:
    await grant_credit(context, GRANT)
    clock.now = NOON + timedelta(hours=3)
    assert await expire_lots(context, lambda: False) == 0
    assert await expire_lots(context, caught_up) == 1


async def test_cash_and_lots_without_an_end_are_never_swept(context: Context, clock: MovingClock) -> None:
    await top_up(context, TopUp("a", 1, "alipay", "r"))
    await grant_credit(context, Grant("a", "promo", 1, "v"))
    clock.forward(days=3650)
    assert await expire_lots(context, caught_up) == 0
