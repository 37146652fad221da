"""A connection that is lost, before or after COMMIT, loses nothing and doubles nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from services.wallet.domain.commands import Grant, HoldRequest, TopUp
from services.wallet.domain.openings import Opening
from services.wallet.usecases.context import ATTEMPTS_MAX, Context
from services.wallet.usecases.expire_lots import expire_lots
from services.wallet.usecases.grant_credit import grant_credit
from services.wallet.usecases.open_accounts import open_accounts
from services.wallet.usecases.place_hold import place_hold
from services.wallet.usecases.read_balance import read_balance
from services.wallet.usecases.release_hold import release_hold
from services.wallet.usecases.top_up import top_up
from shared.database import Database
from shared.errors import Unavailable
from tests.support.wallet import (
    NOON,
    NOON_EPOCH,
    MovingClock,
    caught_up,
    charge,
    charge_account,
    line,
    settle_all,
    standings_told,
)


class LosingDatabase(Database):
    """Loses the connection `losses` times, after COMMIT or just before it."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.losses = 0
        self.after_commit = True

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        async with super().transaction() as connection:
            yield connection
            if self.losses and not self.after_commit:
                self.losses -= 1
                raise ConnectionResetError("lost before COMMIT")
        if self.losses:
            self.losses -= 1
            raise ConnectionResetError("the answer to COMMIT was lost")


@pytest.fixture
async def losing(context: Context) -> AsyncIterator[Context]:
    made = replace(context, database=LosingDatabase(context.settings.database_url))
    yield made
    await made.database.close()


def lose(context: Context, times: int, *, after_commit: bool) -> None:
    assert isinstance(context.database, LosingDatabase)
    context.database.losses = times
    context.database.after_commit = after_commit


@pytest.mark.parametrize("after_commit", [True, False])
async def test_commands_are_tried_again_and_booked_once(losing: Context, after_commit: bool) -> None:
    lose(losing, 1, after_commit=after_commit)
    done = await top_up(losing, TopUp("a", 10_000_000, "alipay", "r"))
    assert done.repeated is after_commit
    lose(losing, 1, after_commit=after_commit)
    await grant_credit(losing, Grant("a", "promo", 5_000_000, "v"))
    request = HoldRequest("a", "rtx-4090", 1, "gpu", "on_demand", 60, "start", 1_000_000)
    lose(losing, 1, after_commit=after_commit)
    placed = await place_hold(losing, request)
    assert (await read_balance(losing, "a")).account.funds.available == 14_000_000
    lose(losing, 1, after_commit=after_commit)
    await release_hold(losing, placed.hold.hold_id)
    assert (await read_balance(losing, "a")).account.funds.available == 15_000_000


async def test_a_database_that_stays_away_is_named_unavailable(losing: Context) -> None:
    lose(losing, ATTEMPTS_MAX, after_commit=False)
    with pytest.raises(Unavailable):
        await top_up(losing, TopUp("a", 10_000_000, "alipay", "r"))
    assert not (await top_up(losing, TopUp("a", 10_000_000, "alipay", "r"))).repeated


@pytest.mark.parametrize("after_commit", [True, False])
async def test_batches_and_sweeps_that_run_again_change_nothing_more(
    losing: Context, clock: MovingClock, after_commit: bool
) -> None:
    """What the batch loop and the workers do after a fault: the same again."""
    opening = Opening("a", "", "personal", NOON, 1_000_000, 1)
    lose(losing, 1, after_commit=after_commit)
    with pytest.raises(ConnectionResetError):
        await open_accounts(losing, [opening])
    await open_accounts(losing, [opening])
    clock.forward(hours=1)
    fact = charge("a", NOON_EPOCH, [line((0, 1800))], rate_per_hour=0)
    lose(losing, 1, after_commit=after_commit)
    with pytest.raises(ConnectionResetError):
        await charge_account(losing, fact)
    await charge_account(losing, fact)
    clock.forward(hours=1)
    lose(losing, 1, after_commit=after_commit)
    with pytest.raises(ConnectionResetError):
        await settle_all(losing)
    await settle_all(losing)
    clock.forward(days=2)
    lose(losing, 1, after_commit=after_commit)
    with pytest.raises(ConnectionResetError):
        await expire_lots(losing, caught_up)
    await expire_lots(losing, caught_up)
    account = (await read_balance(losing, "a")).account
    assert (account.accrued, account.debt, account.promotional) == (0, 0, 0)
    assert [told.epoch for told in await standings_told(losing, "a")] == [1]


async def test_a_server_that_drops_the_connection_within_a_transaction_is_waited_for(
    context: Context, owner: asyncpg.Connection
) -> None:
    await top_up(context, TopUp("a", 1, "alipay", "r0"))
    await owner.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await top_up(context, TopUp("a", 1, "alipay", "r1"))
    assert (await read_balance(context, "a")).account.cash == 2
