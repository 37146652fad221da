"""Lots of credit and the instants at which they begin and end."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.wallet.domain.lots import Lot
from services.wallet.storage.accounts import expect_rows

_COLUMNS = "lot_id, kind, priority, granted, remaining, effective_at, expires_at, created_at, swept"
_INSERT = text(
    """
    INSERT INTO lot (account_id, lot_id, kind, priority, granted, remaining, effective_at, expires_at,
                     reference, entry_id, created_at)
    SELECT * FROM unnest(
        CAST(:account_ids AS text[]), CAST(:lot_ids AS uuid[]), CAST(:kinds AS text[]),
        CAST(:priorities AS smallint[]), CAST(:granted AS bigint[]), CAST(:remaining AS bigint[]),
        CAST(:effective_at AS timestamptz[]), CAST(:expires_at AS timestamptz[]),
        CAST(:references AS text[]), CAST(:entry_ids AS uuid[]), CAST(:created_at AS timestamptz[]))
    """
)
_INSERT_BOUNDARIES = text(
    """
    INSERT INTO lot_boundary (at, account_id, lot_id)
    SELECT DISTINCT boundary.at, boundary.account_id, boundary.lot_id
    FROM unnest(CAST(:at AS timestamptz[]), CAST(:account_ids AS text[]), CAST(:lot_ids AS uuid[]))
         AS boundary (at, account_id, lot_id)
    """
)
_PAYING = text(
    f"""
    SELECT account_id, {_COLUMNS}
    FROM unnest(CAST(:account_ids AS text[])) AS wanted (account_id) JOIN lot USING (account_id)
    WHERE (open OR (kind <> 'cash' AND (effective_at > :since OR expires_at > :since)))
    ORDER BY account_id, lot_id
    """
)
_ALL = text(
    f"""
    SELECT account_id, {_COLUMNS}
    FROM unnest(CAST(:account_ids AS text[])) AS wanted (account_id) JOIN lot USING (account_id)
    ORDER BY account_id, lot_id
    """
)
_OF_ENTRY = text(f"SELECT {_COLUMNS} FROM lot WHERE account_id = :account_id AND entry_id = :entry_id")
_WRITE_REMAINING = text(
    """
    UPDATE lot SET remaining = new.remaining, swept = new.swept
    FROM unnest(CAST(:account_ids AS text[]), CAST(:lot_ids AS uuid[]), CAST(:remaining AS bigint[]),
                CAST(:swept AS boolean[]))
         AS new (account_id, lot_id, remaining, swept)
    WHERE lot.account_id = new.account_id AND lot.lot_id = new.lot_id
    """
)
_ENDED = text(
    """
    SELECT DISTINCT ended.account_id FROM (
        SELECT lot.account_id FROM lot
        WHERE open AND expires_at <= :ended_until AND created_at <= :ended_until
          AND NOT EXISTS (SELECT FROM unsettled_hour waiting
                          WHERE waiting.account_id = lot.account_id AND waiting.hour < lot.expires_at)
        ORDER BY expires_at LIMIT :limit
    ) ended ORDER BY ended.account_id
    """
)
_TO_SWEEP = text(
    f"""
    SELECT account_id, {_COLUMNS}
    FROM unnest(CAST(:account_ids AS text[])) AS wanted (account_id) JOIN lot USING (account_id)
    WHERE open AND expires_at <= :ended_until AND created_at <= :ended_until
      AND NOT EXISTS (SELECT FROM unsettled_hour waiting
                      WHERE waiting.account_id = lot.account_id AND waiting.hour < lot.expires_at)
    ORDER BY account_id, expires_at, lot_id
    """
)


class NewLot(NamedTuple):
    """A lot with the entry that made it. `reference` is what it was granted for."""

    account_id: str
    lot: Lot
    reference: str
    entry_id: UUID


class RemainingChange(NamedTuple):
    account_id: str
    lot_id: UUID
    remaining: int
    swept: bool = False


async def insert(connection: AsyncConnection, new: Sequence[NewLot], now: datetime) -> None:
    if not new:
        return
    await connection.execute(
        _INSERT,
        {
            "account_ids": [row.account_id for row in new],
            "lot_ids": [row.lot.lot_id for row in new],
            "kinds": [row.lot.kind for row in new],
            "priorities": [row.lot.priority for row in new],
            "granted": [row.lot.granted for row in new],
            "remaining": [row.lot.remaining for row in new],
            "effective_at": [row.lot.effective_at for row in new],
            "expires_at": [row.lot.expires_at for row in new],
            "references": [row.reference for row in new],
            "entry_ids": [row.entry_id for row in new],
            "created_at": [row.lot.created_at for row in new],
        },
    )
    boundaries = [
        (at, row.account_id, row.lot.lot_id)
        for row in new
        if not row.lot.is_cash
        for at in (row.lot.effective_at, row.lot.expires_at)
        if at is not None and at > now
    ]
    if boundaries:
        await connection.execute(
            _INSERT_BOUNDARIES,
            {
                "at": [at for at, _, _ in boundaries],
                "account_ids": [account_id for _, account_id, _ in boundaries],
                "lot_ids": [lot_id for _, _, lot_id in boundaries],
            },
        )


async def paying(
    connection: AsyncConnection, account_ids: Collection[str], since: datetime
) -> dict[str, list[Lot]]:
    """Per account: the lots with something left, and those that begin or end after `since`."""
    rows = await connection.execute(_PAYING, {"account_ids": list(account_ids), "since": since})
    return _by_account(rows.all())


async def every(connection: AsyncConnection, account_ids: Collection[str]) -> dict[str, list[Lot]]:
    rows = await connection.execute(_ALL, {"account_ids": list(account_ids)})
    return _by_account(rows.all())


async def of_entry(connection: AsyncConnection, account_id: str, entry_id: UUID) -> Lot:
    """The lot that an entry made, as it is now."""
    row = (await connection.execute(_OF_ENTRY, {"account_id": account_id, "entry_id": entry_id})).one()
    return Lot(*row)


async def write_remaining(connection: AsyncConnection, changes: Sequence[RemainingChange]) -> None:
    if not changes:
        return
    result = await connection.execute(
        _WRITE_REMAINING,
        {
            "account_ids": [change.account_id for change in changes],
            "lot_ids": [change.lot_id for change in changes],
            "remaining": [change.remaining for change in changes],
            "swept": [change.swept for change in changes],
        },
    )
    expect_rows(result.rowcount, len(changes), "lot")


async def accounts_with_ended(connection: AsyncConnection, ended_until: datetime, limit: int) -> list[str]:
    """Accounts with a lot to sweep: ended and made at or before `ended_until`, all its hours settled."""
    return list((await connection.execute(_ENDED, {"ended_until": ended_until, "limit": limit})).scalars())


async def to_sweep(
    connection: AsyncConnection, account_ids: Collection[str], ended_until: datetime
) -> Mapping[str, list[Lot]]:
    rows = await connection.execute(_TO_SWEEP, {"account_ids": list(account_ids), "ended_until": ended_until})
    return _by_account(rows.all())


def _by_account(rows: Sequence[Row[Any]]) -> dict[str, list[Lot]]:
    lots: dict[str, list[Lot]] = {}
    for row in rows:
        account_id: str = row[0]
        columns: Sequence[Any] = row[1:]
        lots.setdefault(account_id, []).append(Lot(*columns))
    return lots
