"""Charges accrue at once; the newest revision counts, whatever comes when, twice, or from two workers."""

import asyncio
import random
from datetime import timedelta

from services.wallet.consumers import charges_handler
from services.wallet.domain.charges import fold
from services.wallet.domain.commands import TopUp
from services.wallet.usecases.apply_charges import apply_charges
from services.wallet.usecases.context import Context
from services.wallet.usecases.list_unknown_accounts import list_unknown_accounts
from services.wallet.usecases.read_balance import read_balance
from services.wallet.usecases.review_standings import review_standings
from services.wallet.usecases.top_up import top_up
from shared.kafka import Record
from tests.support.wallet import (
    NOON_EPOCH,
    MovingClock,
    charge,
    charge_account,
    line,
    rated,
    standings_told,
)


async def test_accrued_follows_the_newest_revision_in_any_order_of_delivery(context: Context) -> None:
    charges = [
        charge("a", NOON_EPOCH, [line((0, 60 * n))], resource_id=resource, revision=n)
        for n in range(1, 11)
        for resource in ("i", "j", "k")
    ]
    random.Random(7).shuffle(charges)
    for one in charges:
        await charge_account(context, one)
    await charge_account(context, *charges)
    balance = await read_balance(context, "a")
    assert balance.account.accrued == 3 * line((0, 600)).amount


async def test_a_lower_amount_of_a_newer_revision_lowers_what_is_accrued(context: Context) -> None:
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, 3600))], revision=1))
    assert await charge_account(context, charge("a", NOON_EPOCH, [line((0, 10))], revision=2)) == 1
    assert await charge_account(context, charge("a", NOON_EPOCH, [line((0, 3600))], revision=1)) == 0
    assert (await read_balance(context, "a")).account.accrued == line((0, 10)).amount


async def test_a_newer_price_book_re_rates_the_same_revision(context: Context) -> None:
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, 3600))], price_book=1))
    dearer = charge("a", NOON_EPOCH, [line((0, 3600), price=1_800_000)], price_book=2)
    assert await charge_account(context, dearer) == 1
    assert (await read_balance(context, "a")).account.accrued == 1_800_000


async def test_two_workers_on_the_same_accounts_neither_block_for_ever_nor_count_twice(
    context: Context,
) -> None:
    """Each worker has its own shuffled batches of the same facts, also of accounts nobody has heard of."""
    facts = [
        charge(
            f"acct-{n % 20}", NOON_EPOCH, [line((0, 30 * revision))], resource_id=f"r{n}", revision=revision
        )
        for n in range(60)
        for revision in range(1, 6)
    ]

    async def work(seed: int) -> None:
        shuffled = random.Random(seed).sample(facts, len(facts))
        for start in range(0, len(shuffled), 25):
            await apply_charges(context, fold(shuffled[start : start + 25]))

    await asyncio.wait_for(asyncio.gather(*(work(seed) for seed in range(4))), 60)
    for n in range(20):
        assert (await read_balance(context, f"acct-{n}")).account.accrued == 3 * line((0, 150)).amount


async def test_a_charge_for_an_account_not_heard_of_opens_an_empty_wallet_and_lists_it(
    context: Context,
) -> None:
    await charge_account(context, charge("ghost", NOON_EPOCH, [line((0, 3600))]))
    (unknown,) = await list_unknown_accounts(context, "", 10)
    assert (unknown.account_id, unknown.charged_ever, unknown.accrued) == ("ghost", True, 1_660_000)
    assert (await read_balance(context, "ghost")).account.funds.available == -1_660_000


async def test_a_record_that_is_no_charge_is_refused_and_the_rest_is_applied(context: Context) -> None:
    values = [rated("a", NOON_EPOCH, [line((0, 60))]), b"{", None, rated("b", NOON_EPOCH, [line((0, 60))])]
    records = [Record("charge.rated.v1", 0, n, 0, None, value, ()) for n, value in enumerate(values)]
    outcome = await charges_handler(context)(records)
    assert [(refused.record.offset, refused.code) for refused in outcome.rejected] == [
        (1, "invalid_fact"),
        (2, "invalid_fact"),
    ]
    assert (await read_balance(context, "b")).account.accrued == line((0, 60)).amount


async def test_the_burn_rate_counts_each_running_resource_once_and_falls_when_reports_stop(
    context: Context, clock: MovingClock
) -> None:
    await top_up(context, TopUp("a", 100_000_000, "alipay", "r1"))
    clock.forward(hours=1, seconds=30)
    await charge_account(
        context,
        charge("a", NOON_EPOCH, [line((0, 3600))], resource_id="i"),
        charge("a", NOON_EPOCH + 3600, [line((0, 20))], resource_id="i"),
        charge("a", NOON_EPOCH + 3600, [line((0, 10), quantity=2)], resource_id="j"),
        charge("a", NOON_EPOCH, [line((0, 1800))], resource_id="stopped"),
    )
    balance = await read_balance(context, "a")
    assert balance.account.burn_rate_per_hour == 3 * 1_660_000
    assert balance.runway_seconds is not None
    clock.forward(seconds=99)
    assert await review_standings(context) == 0
    clock.forward(seconds=1)
    assert await review_standings(context) == 1
    assert (await read_balance(context, "a")).account.burn_rate_per_hour == 1_660_000
    clock.forward(seconds=10)
    assert await review_standings(context) == 1
    stopped = await read_balance(context, "a")
    assert (stopped.account.burn_rate_per_hour, stopped.runway_seconds) == (0, None)
    assert await review_standings(context) == 0


async def test_each_crossing_of_standing_is_told_once(context: Context, clock: MovingClock) -> None:
    await top_up(context, TopUp("a", 12_000_000, "alipay", "r1"))
    clock.forward(hours=1)
    for revision in range(1, 61):
        fact = charge(
            "a", NOON_EPOCH, [line((0, 60 * revision), quantity=8)], revision=revision, rate_per_hour=0
        )
        await charge_account(context, fact)
        await charge_account(context, fact)
    told = await standings_told(context, "a")
    assert [(fact.standing, fact.epoch) for fact in told] == [("low", 1), ("exhausted", 2)]
    assert told[1].available <= 0
    await top_up(context, TopUp("a", 100_000_000, "alipay", "r2"))
    told = await standings_told(context, "a")
    assert [(fact.standing, fact.epoch) for fact in told][2:] == [("good", 3)]


async def test_charges_ahead_of_the_clock_run_too(context: Context, clock: MovingClock) -> None:
    clock.forward(minutes=30)
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, 2000))]))
    assert (await read_balance(context, "a")).account.burn_rate_per_hour == 1_660_000
    assert clock.now - timedelta(minutes=30) < clock.now
