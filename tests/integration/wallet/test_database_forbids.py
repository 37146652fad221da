"""What the service must never do, its database refuses to its own role, by direct SQL."""

from datetime import UTC, datetime
from uuid import UUID

import asyncpg
import pytest

from services.wallet.domain.commands import TopUp
from services.wallet.domain.openings import Opening
from services.wallet.usecases.context import Context
from services.wallet.usecases.open_accounts import open_accounts
from services.wallet.usecases.top_up import ToppedUp, top_up
from tests.support.wallet import NOON, NOON_EPOCH, MovingClock, charge, charge_account, line, settle_all

ENTRY = UUID(int=7)


@pytest.fixture
async def booked(context: Context, clock: MovingClock) -> ToppedUp:
    """An account with a trial, a top-up and a settled hour."""
    await open_accounts(context, [Opening("a", "", "personal", NOON, 10_000_000, 30)])
    done = await top_up(context, TopUp("a", 10_000_000, "alipay", "r"))
    await charge_account(context, charge("a", NOON_EPOCH, [line((0, 3600))]))
    clock.forward(hours=2)
    await settle_all(context)
    return done


async def test_a_negative_lot(booked: ToppedUp, role: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match="lot_never_negative"):
        await role.execute("UPDATE lot SET remaining = -1")
    with pytest.raises(asyncpg.CheckViolationError, match="lot_never_negative"):
        await role.execute("UPDATE lot SET remaining = granted + 1")


async def test_a_lot_with_other_facts(booked: ToppedUp, role: asyncpg.Connection) -> None:
    for column in ("granted = granted + 1", "expires_at = NULL", "kind = 'promo'", "priority = 1"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await role.execute(f"UPDATE lot SET {column}")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await role.execute("DELETE FROM lot")


async def test_a_second_trial(booked: ToppedUp, role: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.UniqueViolationError, match="lot_one_trial"):
        await role.execute(
            "INSERT INTO lot (account_id, lot_id, kind, priority, granted, remaining, effective_at,"
            " reference, entry_id, created_at) VALUES ('a', $1, 'trial', 10, 1, 1, $2, 'x', $1, $2)",
            ENTRY,
            datetime.now(UTC),  # noqa: TID251 - any instant will do
        )


@pytest.mark.parametrize(
    ("debit", "credit", "amount"),
    [("revenue", "revenue", 1), ("revenue", "promotion", 0), ("revenue", "promotion", -1)],
)
async def test_an_unbalanced_transfer(
    booked: ToppedUp, role: asyncpg.Connection, debit: str, credit: str, amount: int
) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await role.execute(
            "INSERT INTO transfer VALUES ('a', $1, 9, $2, $3, $4)", booked.entry_id, debit, credit, amount
        )


async def test_a_transfer_without_an_entry(booked: ToppedUp, role: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await role.execute("INSERT INTO transfer VALUES ('a', $1, 0, 'revenue', 'promotion', 1)", ENTRY)


@pytest.mark.parametrize("table", ["entry", "transfer", "allocation"])
async def test_a_changed_journal_by_the_role_and_by_the_owner(
    booked: ToppedUp, role: asyncpg.Connection, owner: asyncpg.Connection, table: str
) -> None:
    for statement in (
        f"UPDATE {table} SET account_id = 'b'",
        f"DELETE FROM {table}",
        f"TRUNCATE {table} CASCADE",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await role.execute(statement)
        with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="append-only"):
            await owner.execute(statement)


async def test_a_reference_booked_twice(booked: ToppedUp, role: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.UniqueViolationError, match="entry_once_per_reference"):
        await role.execute(
            "INSERT INTO entry (account_id, entry_id, kind, reference, occurred_at, memo)"
            " VALUES ('a', $1, 'top_up', 'r', now(), '')",
            ENTRY,
        )


async def test_seconds_paid_twice_under_one_number(booked: ToppedUp, role: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.UniqueViolationError):
        await role.execute("INSERT INTO allocation SELECT * FROM allocation")


async def test_an_account_with_cash_that_still_owes(booked: ToppedUp, role: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match="account_pays_debt_first"):
        await role.execute("UPDATE account SET debt = 1")
    with pytest.raises(asyncpg.CheckViolationError):
        await role.execute("UPDATE account SET cash = -1")


async def test_another_schema_of_things(booked: ToppedUp, role: asyncpg.Connection) -> None:
    for statement in (
        "DROP TABLE lot",
        "DELETE FROM account",
        "DELETE FROM charge",
        "ALTER TABLE lot DISABLE TRIGGER ALL",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await role.execute(statement)
