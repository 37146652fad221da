"""A wallet is opened and its trial granted once, whatever is repeated (R16)."""

import asyncio
from datetime import timedelta

from services.wallet.consumers import openings_handler
from services.wallet.domain import chart
from services.wallet.domain.chart import Transfer
from services.wallet.domain.openings import Opening
from services.wallet.usecases.context import Context
from services.wallet.usecases.open_accounts import open_accounts
from services.wallet.usecases.read_account import read_account
from services.wallet.usecases.read_balance import read_balance
from shared.contracts.facts import AccountOpened, encode_fact
from shared.kafka import Record
from tests.support.wallet import (
    NOON,
    NOON_EPOCH,
    MovingClock,
    charge,
    charge_account,
    journal_of,
    line,
    standings_told,
)

OPENING = Opening("a", "Xingyu Lab", "university", NOON, 10_000_000, 30)


async def test_the_trial_is_granted_once_from_the_registration_on(
    context: Context, clock: MovingClock
) -> None:
    clock.forward(hours=3)
    assert await open_accounts(context, [OPENING, OPENING]) == 1
    assert await open_accounts(context, [OPENING]) == 0
    balance = await read_balance(context, "a")
    (trial,) = balance.credits
    assert (trial.kind, trial.priority, trial.remaining) == ("trial", 10, 10_000_000)
    assert (trial.effective_at, trial.expires_at) == (NOON, NOON + timedelta(days=30))
    assert balance.account.funds.available == 10_000_000
    assert await journal_of(context, "a") == [
        ("trial", [Transfer(chart.PROMOTION, chart.lot(trial.lot_id), 10_000_000)])
    ]
    row = await read_account(context, "a")
    assert (row.name, row.kind, row.registered_at, row.opened) == ("Xingyu Lab", "university", NOON, True)


async def test_two_workers_open_the_same_accounts_once(context: Context) -> None:
    openings = [Opening(f"acct-{n}", "", "personal", NOON, 10_000_000, 30) for n in range(30)]
    opened = await asyncio.gather(*(open_accounts(context, openings) for _ in range(4)))
    assert sum(opened) == 30
    for opening in openings:
        assert (await read_balance(context, opening.account_id)).account.promotional == 10_000_000


async def test_a_wallet_that_a_charge_opened_is_completed(context: Context) -> None:
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, 3600), quantity=7)]))
    assert (await open_accounts(context, [OPENING])) == 1
    balance = await read_balance(context, "a")
    assert balance.account.funds.available == 10_000_000 - 7 * 1_660_000
    assert [fact.standing for fact in await standings_told(context, "a")] == ["exhausted"]


async def test_without_a_trial_there_is_no_lot_and_the_account_is_good_at_zero(context: Context) -> None:
    await open_accounts(context, [Opening("a", "", "personal", NOON, 0, 30)])
    balance = await read_balance(context, "a")
    assert (balance.credits, balance.account.standing, balance.account.epoch) == ([], "good", 0)


async def test_a_trial_that_is_over_when_it_is_granted_counts_for_nothing_now(
    context: Context, clock: MovingClock
) -> None:
    clock.forward(days=31)
    await open_accounts(context, [OPENING])
    balance = await read_balance(context, "a")
    assert balance.account.funds.available == 0
    assert [lot.remaining for lot in balance.credits] == [10_000_000]


async def test_a_record_that_is_no_opening_is_refused_and_the_rest_is_opened(context: Context) -> None:
    fact = AccountOpened("a", "A", "personal", "2026-03-10T20:00:00+08:00", 10_000_000, 30)
    records = [
        Record("account.opened.v1", 0, n, 0, None, value, ())
        for n, value in enumerate([b"?", encode_fact(fact), None])
    ]
    outcome = await openings_handler(context)(records)
    assert [refused.record.offset for refused in outcome.rejected] == [0, 2]
    assert (await read_account(context, "a")).registered_at == NOON
