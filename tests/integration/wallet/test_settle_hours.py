"""Closed hours settle once, in order, whoever settles them; newer revisions by their difference (R11-R14)."""

import asyncio
import random
from datetime import timedelta
from uuid import UUID

import asyncpg

from services.wallet.domain import chart
from services.wallet.domain.chart import Transfer
from services.wallet.domain.commands import Grant, TopUp
from services.wallet.domain.openings import Opening
from services.wallet.storage import journal
from services.wallet.storage.journal import Entry
from services.wallet.usecases.context import Context
from services.wallet.usecases.expire_lots import expire_lots
from services.wallet.usecases.grant_credit import grant_credit
from services.wallet.usecases.list_charges import list_charges
from services.wallet.usecases.open_accounts import open_accounts
from services.wallet.usecases.read_balance import read_balance
from services.wallet.usecases.review_standings import review_standings
from services.wallet.usecases.settle_hours import Settler, settle_hours
from services.wallet.usecases.top_up import top_up
from tests.support.wallet import (
    A100,
    NOON,
    NOON_EPOCH,
    MovingClock,
    caught_up,
    charge,
    charge_account,
    journal_of,
    line,
    make_context,
    settle_all,
    standings_told,
)

HOUR = 3600


async def payers(context: Context, account_id: str) -> list[tuple[int, str, UUID | None, int]]:
    listed = await list_charges(
        context, account_id, NOON - timedelta(days=9), NOON + timedelta(days=9), None, None, 500
    )
    return [
        (
            int(found.charge.hour.timestamp()) - NOON_EPOCH,
            found.charge.resource_id,
            payer.lot_id,
            payer.amount,
        )
        for found in listed
        for payer in found.paid_by
    ]


async def test_an_hour_settles_when_it_is_over_its_grace_and_quiet(
    context: Context, clock: MovingClock
) -> None:
    await top_up(context, TopUp("a", 10_000_000, "alipay", "r"))
    clock.now = NOON + timedelta(seconds=HOUR + 299)
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, HOUR))]))
    assert await settle_hours(context) == 0
    clock.forward(seconds=1)
    assert await settle_hours(context) == 0
    clock.forward(seconds=1)
    assert await settle_hours(context) == 1
    assert await settle_hours(context) == 0
    balance = await read_balance(context, "a")
    assert (balance.account.cash, balance.account.accrued) == (8_340_000, 0)


async def test_an_account_that_is_never_quiet_settles_after_a_while(
    context: Context, clock: MovingClock
) -> None:
    clock.now = NOON + timedelta(hours=5)
    for second in range(31):
        assert await settle_hours(context) == 0
        clock.forward(seconds=1)
        await charge_account(
            context,
            charge("a", NOON_EPOCH, [line((0, HOUR))]),
            charge("a", NOON_EPOCH + 5 * HOUR, [line((0, second + 1))], revision=second + 1),
        )
    assert await settle_hours(context) == 1


async def test_the_trial_burns_before_cash_and_each_charge_says_who_paid(
    context: Context, clock: MovingClock
) -> None:
    await open_accounts(context, [Opening("a", "", "personal", NOON - timedelta(days=2), 10_000_000, 30)])
    cash = await top_up(context, TopUp("a", 5_000_000, "alipay", "r"))
    hours = [charge("a", NOON_EPOCH + n * HOUR, [line((0, HOUR))]) for n in range(7)]
    clock.now = NOON + timedelta(hours=9)
    await charge_account(context, *hours)
    before = (await read_balance(context, "a")).account.funds.available
    clock.forward(seconds=3)
    assert await settle_all(context) == 7
    balance = await read_balance(context, "a")
    assert (balance.account.cash, balance.account.debt, balance.credits) == (3_380_000, 0, [])
    assert balance.account.funds.available == before == 15_000_000 - 11_620_000
    last = (await payers(context, "a"))[-2:]
    assert last[0][3] == 40_000
    assert last[1] == (6 * HOUR, "i", cash.lot_id, 1_620_000)


async def test_a_voucher_that_ends_in_the_hour_pays_only_the_seconds_before(
    context: Context, clock: MovingClock
) -> None:
    """The scenario voucher-expires-mid-hour: 12:17:30 is 1050 s into the second hour."""
    clock.now = NOON - timedelta(hours=10)
    cash = await top_up(context, TopUp("a", 10_000_000, "alipay", "r"))
    voucher = await grant_credit(
        context, Grant("a", "promo", 50_000_000, "v", expires_at=NOON + timedelta(seconds=1050))
    )
    clock.now = NOON + timedelta(hours=3)
    await charge_account(
        context,
        charge("a", NOON_EPOCH - HOUR, [line((1800, HOUR), price=A100, quantity=2)]),
        charge("a", NOON_EPOCH, [line((0, HOUR), price=A100, quantity=2)]),
    )
    clock.forward(seconds=3)
    await settle_all(context)
    balance = await read_balance(context, "a")
    assert [lot.remaining for lot in balance.credits] == [44_775_000]
    assert balance.account.cash == balance.account.funds.available == 5_325_000
    assert await payers(context, "a") == [
        (-HOUR, "i", voucher.lot.lot_id, 3_300_000),
        (0, "i", voucher.lot.lot_id, 1_925_000),
        (0, "i", cash.lot_id, 4_675_000),
    ]


async def test_a_late_revision_of_a_settled_hour_settles_its_difference_up_and_down(
    context: Context, clock: MovingClock
) -> None:
    cash = await top_up(context, TopUp("a", 10_000_000, "alipay", "r"))
    clock.now = NOON + timedelta(hours=2)
    for revision, seconds in enumerate((1800, HOUR, 900, 900, 0, 60), start=1):
        lines = [line((0, seconds))] if seconds else []
        await charge_account(context, charge("a", NOON_EPOCH, lines, revision=revision, rate_per_hour=0))
        clock.forward(seconds=3)
        await settle_all(context)
        account = (await read_balance(context, "a")).account
        assert (account.cash, account.accrued) == (10_000_000 - line((0, seconds)).amount, 0)
    lot = chart.lot(cash.lot_id)
    assert [transfers for _, transfers in await journal_of(context, "a")][1:] == [
        [Transfer(lot, chart.REVENUE, 830_000)],
        [Transfer(lot, chart.REVENUE, 830_000)],
        [Transfer(chart.REVENUE, lot, 1_245_000)],
        [Transfer(chart.REVENUE, lot, 415_000)],
        [Transfer(lot, chart.REVENUE, 27_666)],
    ]


async def test_a_revision_that_moves_seconds_across_a_cut_moves_who_pays_them(
    context: Context, clock: MovingClock
) -> None:
    clock.now = NOON - timedelta(hours=1)
    cash = await top_up(context, TopUp("a", 10_000_000, "alipay", "r"))
    voucher = await grant_credit(
        context, Grant("a", "promo", 10_000_000, "v", expires_at=NOON + timedelta(seconds=1800))
    )
    clock.now = NOON + timedelta(seconds=HOUR + 310)
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, 1000), price=HOUR)]))
    clock.forward(seconds=3)
    await settle_all(context)
    await charge_account(context, charge("a", NOON_EPOCH, [line((2000, 3000), price=HOUR)], revision=2))
    clock.forward(seconds=3)
    await settle_all(context)
    assert await payers(context, "a") == [(0, "i", cash.lot_id, 1000)]
    assert [lot.remaining for lot in (await read_balance(context, "a")).credits] == [10_000_000]
    assert voucher.lot.lot_id != cash.lot_id


async def test_what_a_swept_lot_had_paid_comes_back_as_compensation_for_30_days(
    context: Context, clock: MovingClock
) -> None:
    clock.now = NOON
    await grant_credit(context, Grant("a", "promo", 2_000_000, "v", expires_at=NOON + timedelta(hours=1)))
    clock.now = NOON + timedelta(hours=2)
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, HOUR))]))
    clock.forward(seconds=3)
    await settle_all(context)
    assert await expire_lots(context, caught_up) == 1
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, 1800))], revision=2))
    clock.forward(seconds=3)
    await settle_all(context)
    (compensation,) = (await read_balance(context, "a")).credits
    assert (compensation.kind, compensation.remaining) == ("compensation", 830_000)
    assert compensation.expires_at == clock.now + timedelta(days=30)
    assert (await read_balance(context, "a")).account.funds.available == 830_000


async def test_what_a_burned_lot_past_its_grace_had_paid_comes_back_as_compensation(
    context: Context, clock: MovingClock
) -> None:
    """Nothing of it was left to sweep; still what comes back must not go to breakage."""
    await grant_credit(context, Grant("a", "promo", 400_000, "v", expires_at=NOON + timedelta(minutes=30)))
    clock.now = NOON + timedelta(hours=2)
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, 1000))], rate_per_hour=0))
    clock.forward(seconds=3)
    await settle_all(context)
    clock.forward(hours=1)
    assert await expire_lots(context, caught_up) == 0
    told = await standings_told(context, "a")
    for revision, seconds in ((2, 600), (3, 500)):
        await charge_account(
            context, charge("a", NOON_EPOCH, [line((0, seconds))], revision=revision, rate_per_hour=0)
        )
        clock.forward(seconds=3)
        await settle_all(context)
        balance = await read_balance(context, "a")
        assert {lot.kind for lot in balance.credits} == {"compensation"}
        assert balance.account.funds.available == 400_000 - line((0, seconds)).amount
    clock.forward(days=1)
    assert await expire_lots(context, caught_up) == 0
    assert [fact.standing for fact in told] == ["exhausted"]
    assert [fact.standing for fact in await standings_told(context, "a")] == ["exhausted", "low"]


async def test_usage_that_an_ended_voucher_pays_for_stops_nobody_and_is_settled_at_once(
    context: Context, clock: MovingClock
) -> None:
    """Cash 50, a voucher of 100 that ends at 12:45 and 74.25 used until then: 50 stay to run on."""
    await top_up(context, TopUp("a", 50_000_000, "alipay", "r"))
    await grant_credit(
        context, Grant("a", "promo", 100_000_000, "v", expires_at=NOON + timedelta(minutes=45))
    )
    clock.now = NOON + timedelta(minutes=44, seconds=59)
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, 2700), price=99_000_000)]))
    assert await review_standings(context) == 0
    assert await settle_hours(context) == 0
    clock.forward(seconds=1)
    assert await review_standings(context) == 1
    balance = await read_balance(context, "a")
    assert (balance.account.funds.available, balance.account.standing) == (-24_250_000, "low")
    clock.forward(seconds=1)
    assert await settle_all(context) == 1
    balance = await read_balance(context, "a")
    assert (balance.account.cash, balance.account.accrued, balance.account.debt) == (50_000_000, 0, 0)
    assert [lot.remaining for lot in balance.credits] == [25_750_000]
    # Seconds after its end it does not pay: they are cash's, and when that is spent the account is.
    for minute in range(46, 80):
        clock.now = NOON + timedelta(minutes=minute)
        seconds = min(HOUR, minute * 60)
        await charge_account(
            context,
            charge("a", NOON_EPOCH, [line((0, seconds), price=99_000_000)], revision=minute),
            charge("a", NOON_EPOCH + HOUR, [line((0, minute * 60 - seconds + 1))], revision=minute),
        )
        clock.forward(seconds=2)
        await settle_all(context)
    balance = await read_balance(context, "a")
    assert [lot.remaining for lot in balance.credits] == [25_750_000]
    assert balance.account.cash == 50_000_000 - 24_750_000
    await charge_account(
        context, charge("a", NOON_EPOCH + HOUR, [line((0, 1200), price=99_000_000)], revision=99)
    )
    told = [fact.standing for fact in await standings_told(context, "a")]
    assert told == ["low", "good", "exhausted"]


async def test_the_news_of_an_account_that_an_ended_voucher_pays_for_say_what_is_left(
    context: Context, clock: MovingClock
) -> None:
    await top_up(context, TopUp("a", 9_000_000, "alipay", "r"))
    await grant_credit(context, Grant("a", "promo", 3_000_000, "v", expires_at=NOON + timedelta(minutes=30)))
    clock.now = NOON + timedelta(minutes=30)
    await charge_account(
        context, charge("a", NOON_EPOCH, [line((0, 1800), price=4_000_000)], rate_per_hour=0)
    )
    (fact,) = await standings_told(context, "a")
    assert (fact.standing, fact.available) == ("low", 9_000_000)
    assert (await read_balance(context, "a")).account.funds.available == 7_000_000


async def test_prompt_settlement_leaves_hours_alone_that_no_ended_lot_pays_for(
    context: Context, clock: MovingClock
) -> None:
    await grant_credit(context, Grant("a", "promo", 5_000_000, "v", expires_at=NOON + timedelta(minutes=30)))
    await grant_credit(context, Grant("b", "promo", 5_000_000, "v", expires_at=NOON + timedelta(hours=9)))
    clock.now = NOON + timedelta(minutes=64)
    for account_id in ("a", "b"):
        await charge_account(
            context,
            charge(account_id, NOON_EPOCH, [line((0, HOUR))]),
            charge(account_id, NOON_EPOCH + HOUR, [line((0, 200))]),
        )
    assert await settle_hours(context) == 0
    clock.forward(seconds=2)
    assert await settle_all(context) == 1
    accrued = [(await read_balance(context, account_id)).account.accrued for account_id in ("a", "b")]
    assert accrued == [line((0, 200)).amount, line((0, 200)).amount + 1_660_000]


async def test_an_hour_may_be_paid_by_more_lots_than_a_smallint_counts(context: Context) -> None:
    await top_up(context, TopUp("a", 1, "alipay", "r"))
    moves = [Transfer(chart.PROMOTION, chart.BREAKAGE, 1)] * 40_000
    entry = Entry("a", UUID(int=1), "grant", "many", None, NOON, "", None, moves)
    async with context.database.transaction() as connection:
        await journal.book(connection, [entry])
    async with context.database.reading() as connection:
        assert len((await journal.transfers(connection, "a", [entry.entry_id]))[entry.entry_id]) == 40_000


async def test_debt_that_was_repaid_since_comes_back_as_cash(context: Context, clock: MovingClock) -> None:
    clock.now = NOON + timedelta(hours=2)
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, HOUR))]))
    clock.forward(seconds=3)
    await settle_all(context)
    await top_up(context, TopUp("a", 1_000_000, "alipay", "r1"))
    await top_up(context, TopUp("a", 1_000_000, "alipay", "r2"))
    await charge_account(context, charge("a", NOON_EPOCH, [], revision=2, rate_per_hour=0))
    clock.forward(seconds=3)
    await settle_all(context)
    account = (await read_balance(context, "a")).account
    assert (account.cash, account.debt) == (2_000_000, 0)


async def test_workers_that_settle_and_charge_at_once_neither_block_nor_settle_twice(
    context: Context, clock: MovingClock
) -> None:
    clock.now = NOON + timedelta(hours=30)
    for n in range(6):
        await top_up(context, TopUp(f"acct-{n}", 20_000_000, "alipay", "r"))
    facts = [
        charge(
            f"acct-{n % 6}",
            NOON_EPOCH + hour * HOUR,
            [line((0, 600 * revision))],
            resource_id=f"r{n}",
            revision=revision,
        )
        for n in range(12)
        for hour in range(5)
        for revision in range(1, 7)
    ]
    eager = make_context(
        context.settings.database_url,
        clock,
        settle_quiet_seconds=0,
        settle_wait_seconds=0,
        settle_hours_max=7,
    )

    async def charging(seed: int) -> None:
        shuffled = random.Random(seed).sample(facts, len(facts))
        for start in range(0, len(shuffled), 30):
            await charge_account(context, *shuffled[start : start + 30])
            await asyncio.sleep(0)

    async def settling() -> None:
        for _ in range(25):
            await settle_hours(eager)
            await asyncio.sleep(0.01)

    await asyncio.wait_for(asyncio.gather(charging(1), charging(2), settling(), settling()), 120)
    await settle_all(eager)
    await eager.database.close()
    for n in range(6):
        account = (await read_balance(context, f"acct-{n}")).account
        assert (account.cash, account.accrued, account.debt) == (20_000_000 - 10 * 1_660_000, 0, 0)


async def test_hours_of_an_account_settle_in_order_of_time_even_in_small_steps(
    context: Context, clock: MovingClock
) -> None:
    await grant_credit(context, Grant("a", "promo", 2 * 1_660_000, "v", expires_at=NOON + timedelta(days=9)))
    await top_up(context, TopUp("a", 2 * 1_660_000, "alipay", "r"))
    clock.now = NOON + timedelta(hours=9)
    for n in (3, 1, 0, 2):
        await charge_account(context, charge("a", NOON_EPOCH + n * HOUR, [line((0, HOUR))]))
    clock.forward(seconds=3)
    steps = make_context(context.settings.database_url, clock, settle_hours_max=1)
    assert await settle_all(steps) == 4
    await steps.database.close()
    kinds = [lot_id for _, _, lot_id, _ in await payers(context, "a")]
    assert kinds[0] == kinds[1] != kinds[2] == kinds[3]


async def test_an_account_that_cannot_be_settled_does_not_stop_the_others(
    context: Context, clock: MovingClock, owner: asyncpg.Connection
) -> None:
    clock.now = NOON + timedelta(hours=9)
    for account_id in ("a", "b", "c"):
        await charge_account(context, charge(account_id, NOON_EPOCH, [line((0, HOUR))]))
    # One more micro-yuan of debt does not fit.
    await owner.execute("UPDATE account SET debt = 9223372036854775807 WHERE account_id = 'b'")
    clock.forward(seconds=3)
    settler = Settler(context)
    assert await settler.settle() == 2
    assert await settler.settle() == 0
    assert (await read_balance(context, "a")).account.debt == 1_660_000
    await owner.execute("UPDATE account SET debt = 0 WHERE account_id = 'b'")
    assert await settler.settle() == 0
    assert await Settler(context).settle() == 1


async def test_usage_that_comes_before_its_account_is_opened_waits_for_the_trial(
    context: Context, clock: MovingClock
) -> None:
    patient = make_context(context.settings.database_url, clock, settle_unopened_wait_seconds=600)
    clock.now = NOON + timedelta(hours=3)
    for account_id in ("a", "never-opened"):
        await charge_account(context, charge(account_id, NOON_EPOCH, [line((0, HOUR))]))
    clock.forward(seconds=60)
    assert await settle_hours(patient) == 0
    await open_accounts(context, [Opening("a", "", "personal", NOON, 10_000_000, 30)])
    assert await settle_hours(patient) == 1
    assert (await read_balance(context, "a")).account.debt == 0
    clock.forward(seconds=600)
    assert await settle_hours(patient) == 1
    assert (await read_balance(context, "never-opened")).account.debt == 1_660_000
    await patient.database.close()
