"""Holds take from available in one statement: those that fit, fit; the rest are refused (R17)."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from services.wallet.domain.commands import Grant, HoldRequest, TopUp
from services.wallet.usecases.context import Context
from services.wallet.usecases.expire_holds import expire_holds
from services.wallet.usecases.grant_credit import grant_credit
from services.wallet.usecases.place_hold import HoldPlaced, place_hold
from services.wallet.usecases.read_balance import read_balance
from services.wallet.usecases.release_hold import release_hold
from services.wallet.usecases.top_up import top_up
from shared.errors import Conflict, InsufficientFunds, NotFound
from tests.support.wallet import NOON, NOON_EPOCH, MovingClock, charge, charge_account, line, standings_told

REQUEST = HoldRequest("a", "rtx-4090", 1, "gpu", "on_demand", 3600, "start-1", 1_660_000)


async def available(context: Context) -> int:
    return (await read_balance(context, "a")).account.funds.available


async def test_available_1_and_an_hour_of_a_4090_is_short_of_0_66(context: Context) -> None:
    await top_up(context, TopUp("a", 1_000_000, "alipay", "r"))
    with pytest.raises(InsufficientFunds) as refused:
        await place_hold(context, REQUEST)
    assert refused.value.facts == {"shortfall": "0.660000", "currency": "CNY"}
    assert await available(context) == 1_000_000


async def test_of_many_holds_at_once_exactly_those_that_fit_are_placed(context: Context) -> None:
    await top_up(context, TopUp("a", 5 * 1_660_000 + 1, "alipay", "r"))

    async def start(number: int) -> HoldPlaced | None:
        try:
            return await place_hold(context, replace(REQUEST, reference=f"start-{number}"))
        except InsufficientFunds:
            return None

    placed = await asyncio.gather(*(start(number) for number in range(20)))
    assert sum(each is not None for each in placed) == 5
    assert await available(context) == 1


async def test_the_same_reference_takes_once_and_other_content_is_a_conflict(context: Context) -> None:
    await top_up(context, TopUp("a", 10_000_000, "alipay", "r"))
    placed = await asyncio.gather(*(place_hold(context, REQUEST) for _ in range(6)))
    assert len({each.hold.hold_id for each in placed}) == 1
    assert sum(not each.repeated for each in placed) == 1
    again = await place_hold(context, replace(REQUEST, amount=830_000))
    assert again.hold.amount == 1_660_000
    for other in (
        replace(REQUEST, seconds=60),
        replace(REQUEST, quantity=2),
        replace(REQUEST, sku="a100-80g"),
    ):
        with pytest.raises(Conflict):
            await place_hold(context, other)
    assert await available(context) == 10_000_000 - 1_660_000


async def test_a_released_hold_gives_back_once(context: Context) -> None:
    await top_up(context, TopUp("a", 10_000_000, "alipay", "r"))
    placed = await place_hold(context, REQUEST)
    await asyncio.gather(*(release_hold(context, placed.hold.hold_id) for _ in range(5)))
    await release_hold(context, placed.hold.hold_id, "a")
    assert await available(context) == 10_000_000
    with pytest.raises(NotFound):
        await release_hold(context, placed.hold.hold_id, "b")
    with pytest.raises(NotFound):
        await release_hold(context, UUID(int=1))


async def test_a_hold_that_was_released_or_has_expired_is_not_given_out_again(
    context: Context, clock: MovingClock
) -> None:
    await top_up(context, TopUp("a", 10_000_000, "alipay", "r"))
    released = await place_hold(context, REQUEST)
    await release_hold(context, released.hold.hold_id)
    with pytest.raises(Conflict, match="was released"):
        await place_hold(context, REQUEST)
    expiring = replace(REQUEST, reference="start-2")
    placed = await place_hold(context, expiring)
    clock.now = placed.hold.expires_at - timedelta(microseconds=1)
    assert (await place_hold(context, expiring)).repeated
    clock.now = placed.hold.expires_at
    for _ in range(2):
        with pytest.raises(Conflict, match="has expired"):
            await place_hold(context, expiring)
        await expire_holds(context)
    assert await available(context) == 10_000_000
    assert not (await place_hold(context, replace(REQUEST, reference="start-3"))).repeated


async def test_a_hold_ends_by_itself_after_its_time_and_a_grace(context: Context, clock: MovingClock) -> None:
    await top_up(context, TopUp("a", 10_000_000, "alipay", "r"))
    placed = await place_hold(context, REQUEST)
    clock.now = NOON + timedelta(seconds=3659)
    assert await expire_holds(context) == 0
    clock.forward(seconds=1)
    assert sum(await asyncio.gather(*(expire_holds(context) for _ in range(3)))) == 1
    assert await available(context) == 10_000_000
    await release_hold(context, placed.hold.hold_id)
    assert await available(context) == 10_000_000


async def test_credit_counts_for_a_hold_only_in_its_time(context: Context, clock: MovingClock) -> None:
    await grant_credit(context, Grant("a", "promo", 2_000_000, "v", expires_at=NOON + timedelta(seconds=10)))
    clock.forward(seconds=10)
    with pytest.raises(InsufficientFunds):
        await place_hold(context, REQUEST)


async def test_a_hold_reserves_but_stops_nobody(context: Context, clock: MovingClock) -> None:
    await top_up(context, TopUp("a", 11_660_000, "alipay", "r"))
    clock.forward(hours=2)
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, 3600))]))
    assert await available(context) == 10_000_000
    await place_hold(context, replace(REQUEST, amount=10_000_000))
    assert (await read_balance(context, "a")).account.standing == "good"
    assert await standings_told(context, "a") == []


async def test_a_hold_for_an_account_without_a_wallet_is_not_found(context: Context) -> None:
    with pytest.raises(NotFound):
        await place_hold(context, REQUEST)
