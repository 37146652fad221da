"""Promotional credit: once per reference, valid in its time, never for debt (R11, R12, R13, R19)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from services.wallet.domain import chart
from services.wallet.domain.chart import Transfer
from services.wallet.domain.commands import Grant
from services.wallet.usecases.context import Context
from services.wallet.usecases.grant_credit import grant_credit
from services.wallet.usecases.read_balance import read_balance
from services.wallet.usecases.review_standings import review_standings
from shared.errors import Conflict, Invalid
from tests.support.wallet import (
    NOON,
    NOON_EPOCH,
    MovingClock,
    charge,
    charge_account,
    journal_of,
    line,
    settle_all,
    standings_told,
)

GRANT = Grant("a", "promo", 50_000_000, "spring")


async def test_a_grant_is_valid_from_now_without_end_at_the_priority_of_its_kind(context: Context) -> None:
    done = await grant_credit(context, GRANT)
    assert (done.lot.priority, done.lot.effective_at, done.lot.expires_at) == (10, NOON, None)
    compensation = await grant_credit(context, Grant("a", "compensation", 1, "sorry"))
    assert compensation.lot.priority == 20
    assert (await read_balance(context, "a")).account.funds.available == 50_000_001
    assert (await journal_of(context, "a"))[0] == (
        "grant",
        [Transfer(chart.PROMOTION, chart.lot(done.lot.lot_id), 50_000_000)],
    )


async def test_the_same_reference_answers_the_first_result_and_other_content_is_a_conflict(
    context: Context, clock: MovingClock
) -> None:
    first = await grant_credit(context, GRANT)
    clock.forward(minutes=5)
    again = await grant_credit(context, GRANT)
    assert (again.lot, again.entry_id, again.occurred_at, again.repeated) == (
        first.lot,
        first.entry_id,
        first.occurred_at,
        True,
    )
    for other in (
        replace(GRANT, amount=1),
        replace(GRANT, kind="compensation"),
        replace(GRANT, priority=10),
        replace(GRANT, expires_at=NOON + timedelta(days=1)),
        replace(GRANT, effective_at=NOON),
    ):
        with pytest.raises(Conflict):
            await grant_credit(context, other)
    assert (await read_balance(context, "a")).account.promotional == 50_000_000


async def test_a_grant_that_would_end_before_it_begins_is_refused_and_leaves_nothing(
    context: Context,
) -> None:
    with pytest.raises(Invalid):
        await grant_credit(context, replace(GRANT, effective_at=NOON, expires_at=NOON))
    with pytest.raises(Invalid):
        await grant_credit(context, replace(GRANT, expires_at=NOON - timedelta(days=1)))
    assert await journal_of(context, "a") == []


async def test_credit_counts_only_in_its_time_and_standing_follows_by_time_alone(
    context: Context, clock: MovingClock
) -> None:
    clock.forward(hours=1)
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, 60))]))
    grant = replace(GRANT, effective_at=NOON + timedelta(hours=2), expires_at=NOON + timedelta(hours=3))
    await grant_credit(context, grant)
    assert [fact.standing for fact in await standings_told(context, "a")] == ["exhausted"]
    assert await review_standings(context) == 0
    clock.now = NOON + timedelta(hours=2)
    assert await review_standings(context) == 1
    assert (await read_balance(context, "a")).account.funds.available > 0
    clock.now = NOON + timedelta(hours=3)
    assert await review_standings(context) == 1
    assert await review_standings(context) == 0
    told = await standings_told(context, "a")
    assert [(fact.standing, fact.epoch) for fact in told] == [("exhausted", 1), ("good", 2), ("exhausted", 3)]
    (expired,) = (await read_balance(context, "a")).credits
    assert expired.remaining == 50_000_000


async def test_promotional_credit_pays_no_debt(context: Context, clock: MovingClock) -> None:
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, 3600))]))
    clock.forward(hours=2)
    await settle_all(context)
    await grant_credit(context, GRANT)
    account = (await read_balance(context, "a")).account
    assert (account.debt, account.promotional) == (1_660_000, 50_000_000)


async def test_credit_granted_for_the_past_pays_what_is_not_settled_yet(
    context: Context, clock: MovingClock
) -> None:
    clock.forward(days=2)
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, 3600))]))
    await grant_credit(context, replace(GRANT, effective_at=NOON, expires_at=NOON + timedelta(seconds=1800)))
    clock.forward(seconds=5)
    await settle_all(context)
    balance = await read_balance(context, "a")
    assert balance.account.debt == 830_000
    assert [lot.remaining for lot in balance.credits] == [50_000_000 - 830_000]
    assert balance.account.funds.available == -830_000
