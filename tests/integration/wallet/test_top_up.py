"""Cash comes in once per reference and pays debt first (R13, R19)."""

import asyncio

import pytest

from services.wallet.domain import chart
from services.wallet.domain.chart import Transfer
from services.wallet.domain.commands import TopUp
from services.wallet.usecases.context import Context
from services.wallet.usecases.read_balance import read_balance
from services.wallet.usecases.review_standings import review_standings
from services.wallet.usecases.top_up import top_up
from shared.errors import Conflict
from tests.support.wallet import NOON_EPOCH, MovingClock, charge, charge_account, journal_of, line, settle_all

TOP_UP = TopUp("a", 10_000_000, "alipay", "order-1")


async def test_a_top_up_is_cash_in_a_lot_of_its_own(context: Context) -> None:
    done = await top_up(context, TOP_UP)
    balance = await read_balance(context, "a")
    assert (balance.account.cash, balance.account.funds.available, balance.credits) == (
        10_000_000,
        10_000_000,
        [],
    )
    assert await journal_of(context, "a") == [
        ("top_up", [Transfer("provider:alipay", chart.lot(done.lot_id), 10_000_000)])
    ]


async def test_the_same_reference_again_answers_the_first_result(context: Context) -> None:
    first = await top_up(context, TOP_UP)
    again = await asyncio.gather(*(top_up(context, TOP_UP) for _ in range(8)))
    assert {(done.entry_id, done.lot_id, done.occurred_at, done.repeated) for done in again} == {
        (first.entry_id, first.lot_id, first.occurred_at, True)
    }
    assert (await read_balance(context, "a")).account.cash == 10_000_000


async def test_racing_first_top_ups_of_one_reference_book_once(context: Context) -> None:
    done = await asyncio.gather(*(top_up(context, TOP_UP) for _ in range(8)))
    assert sum(not each.repeated for each in done) == 1
    assert len({each.entry_id for each in done}) == 1


@pytest.mark.parametrize(
    "other", [TopUp("a", 10_000_001, "alipay", "order-1"), TopUp("a", 10_000_000, "wechat", "order-1")]
)
async def test_the_same_reference_with_other_content_is_a_conflict(context: Context, other: TopUp) -> None:
    await top_up(context, TOP_UP)
    with pytest.raises(Conflict):
        await top_up(context, other)
    assert (await read_balance(context, "a")).account.cash == 10_000_000


async def test_another_account_may_use_the_same_reference(context: Context) -> None:
    await top_up(context, TOP_UP)
    assert not (await top_up(context, TopUp("b", 5, "wechat", "order-1"))).repeated


async def test_owing_500_and_paying_10_leaves_490_owed(context: Context, clock: MovingClock) -> None:
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, 3600), price=500_000_000)]))
    clock.forward(hours=2)
    await review_standings(context)
    await settle_all(context)
    done = await top_up(context, TOP_UP)
    assert done.debt_paid == 10_000_000
    balance = await read_balance(context, "a")
    assert (balance.account.cash, balance.account.debt) == (0, 490_000_000)
    assert (await journal_of(context, "a"))[-1] == (
        "top_up",
        [
            Transfer("provider:alipay", chart.lot(done.lot_id), 10_000_000),
            Transfer(chart.lot(done.lot_id), chart.receivable("a"), 10_000_000),
        ],
    )
    assert (await top_up(context, TOP_UP)).debt_paid == 10_000_000
    await top_up(context, TopUp("a", 500_000_000, "alipay", "order-2"))
    balance = await read_balance(context, "a")
    assert (balance.account.cash, balance.account.debt, balance.account.standing) == (10_000_000, 0, "good")
