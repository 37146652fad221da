"""Reservations on what is available (R17)."""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.wallet.domain.commands import HoldState

_COLUMNS = "hold_id, account_id, reference, amount, state, created_at, expires_at, command"
# One statement decides and takes: nobody can spend between the look and the grasp.
_TAKE = text(
    """
    UPDATE account SET held = held + :amount
    WHERE account_id = :account_id
      AND cash - accrued - debt - held + (
          SELECT coalesce(sum(remaining), 0) FROM lot
          WHERE lot.account_id = :account_id AND open AND kind <> 'cash'
            AND effective_at <= :now AND (expires_at IS NULL OR expires_at > :now)
      ) >= :amount
    """
)
_INSERT = text(
    """
    INSERT INTO hold (account_id, hold_id, reference, amount, created_at, expires_at, command)
    VALUES (:account_id, :hold_id, :reference, :amount, :created_at, :expires_at, :command)
    """
)
_FIND = text(f"SELECT {_COLUMNS} FROM hold WHERE account_id = :account_id AND reference = :reference")
_FIND_BY_ID = text(f"SELECT {_COLUMNS} FROM hold WHERE hold_id = :hold_id")
_CLOSE = text(
    """
    WITH closed AS (
        UPDATE hold SET state = :state, closed_at = :now
        WHERE account_id = :account_id AND state = 'active' AND hold_id = :hold_id
        RETURNING account_id, amount
    )
    UPDATE account SET held = held - closed.amount
    FROM closed WHERE account.account_id = closed.account_id
    """
)
_ACCOUNTS_WITH_ENDED = text(
    """
    SELECT DISTINCT ended.account_id FROM (
        SELECT account_id FROM hold WHERE state = 'active' AND expires_at <= :now
        ORDER BY expires_at LIMIT :limit
    ) ended ORDER BY ended.account_id
    """
)
_EXPIRE = text(
    """
    WITH closed AS (
        UPDATE hold SET state = 'expired', closed_at = :now
        WHERE account_id = ANY(CAST(:account_ids AS text[])) AND state = 'active' AND expires_at <= :now
        RETURNING account_id, amount
    ), sums AS (
        SELECT account_id, sum(amount) AS amount, count(*) AS holds FROM closed GROUP BY account_id
    ), given_back AS (
        UPDATE account SET held = held - sums.amount
        FROM sums WHERE account.account_id = sums.account_id
    )
    SELECT coalesce(CAST(sum(holds) AS bigint), 0) FROM sums
    """
)


class Hold(NamedTuple):
    """`command` is what was asked, as canonical JSON."""

    hold_id: UUID
    account_id: str
    reference: str
    amount: int
    state: HoldState
    created_at: datetime
    expires_at: datetime
    command: str


async def take(connection: AsyncConnection, hold: Hold, now: datetime) -> bool:
    """False, and nothing changed, when available does not cover it. The account is locked."""
    result = await connection.execute(
        _TAKE, {"account_id": hold.account_id, "amount": hold.amount, "now": now}
    )
    if result.rowcount == 0:
        return False
    await connection.execute(
        _INSERT,
        {
            "account_id": hold.account_id,
            "hold_id": hold.hold_id,
            "reference": hold.reference,
            "amount": hold.amount,
            "created_at": hold.created_at,
            "expires_at": hold.expires_at,
            "command": hold.command,
        },
    )
    return True


async def find(connection: AsyncConnection, account_id: str, reference: str) -> Hold | None:
    row = (await connection.execute(_FIND, {"account_id": account_id, "reference": reference})).one_or_none()
    return None if row is None else Hold(*row)


async def find_by_id(connection: AsyncConnection, hold_id: UUID) -> Hold | None:
    row = (await connection.execute(_FIND_BY_ID, {"hold_id": hold_id})).one_or_none()
    return None if row is None else Hold(*row)


async def release(connection: AsyncConnection, hold: Hold, now: datetime) -> bool:
    """False when it was closed before. The account is locked."""
    result = await connection.execute(
        _CLOSE,
        {"account_id": hold.account_id, "hold_id": hold.hold_id, "state": "released", "now": now},
    )
    return result.rowcount == 1


async def accounts_with_ended(connection: AsyncConnection, now: datetime, limit: int) -> list[str]:
    rows = await connection.execute(_ACCOUNTS_WITH_ENDED, {"now": now, "limit": limit})
    return list(rows.scalars())


async def expire(connection: AsyncConnection, account_ids: Collection[str], now: datetime) -> int:
    """Give back what ended holds of these accounts, which are locked, had taken; how many holds."""
    ended: int = await connection.scalar(_EXPIRE, {"account_ids": list(account_ids), "now": now}) or 0
    return ended
