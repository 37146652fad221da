"""Entries and their transfers: only ever added to (R10)."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.wallet.domain.account import EntryKind
from services.wallet.domain.chart import Transfer
from services.wallet.storage import arrays
from services.wallet.storage.arrays import ACCOUNT_IDS, integer_column

_INSERT_ENTRIES = text(
    f"""
    INSERT INTO entry (account_id, entry_id, kind, reference, hour, occurred_at, memo, command)
    SELECT * FROM unnest(
        {ACCOUNT_IDS}, CAST(CAST(:entry_ids AS text) AS uuid[]), CAST(CAST(:kinds AS text) AS text[]),
        CAST(:references AS text[]), CAST(:hours AS timestamptz[]), CAST(:occurred_at AS timestamptz[]),
        CAST(:memos AS text[]), CAST(:commands AS text[]))
    """
)
_INSERT_TRANSFERS = text(
    f"""
    INSERT INTO transfer (account_id, entry_id, seq, debit_account, credit_account, amount)
    SELECT * FROM unnest(
        {ACCOUNT_IDS}, CAST(CAST(:entry_ids AS text) AS uuid[]), {integer_column("seqs")},
        CAST(CAST(:debits AS text) AS text[]), CAST(CAST(:credits AS text) AS text[]),
        {integer_column("amounts")})
    """
)
_FIND = text(
    """
    SELECT entry_id, occurred_at, memo, command FROM entry
    WHERE account_id = :account_id AND kind = :kind AND reference = :reference
    """
)
_PAGE = text(
    """
    SELECT entry_id, kind, reference, hour, occurred_at, memo FROM entry
    WHERE account_id = :account_id AND (CAST(:before AS uuid) IS NULL OR entry_id < :before)
    ORDER BY entry_id DESC LIMIT :limit
    """
)
_TRANSFERS = text(
    """
    SELECT entry_id, debit_account, credit_account, amount FROM transfer
    WHERE account_id = :account_id AND entry_id = ANY(CAST(:entry_ids AS uuid[]))
    ORDER BY entry_id, seq
    """
)


class Entry(NamedTuple):
    """One booking. `reference` and `command` for what was asked for, `hour` for what was settled."""

    account_id: str
    entry_id: UUID
    kind: EntryKind
    reference: str | None
    hour: datetime | None
    occurred_at: datetime
    memo: str
    command: str | None
    transfers: Sequence[Transfer]


class EntryFound(NamedTuple):
    entry_id: UUID
    occurred_at: datetime
    memo: str
    command: str | None


class EntryListed(NamedTuple):
    entry_id: UUID
    kind: str
    reference: str | None
    hour: datetime | None
    occurred_at: datetime
    memo: str


async def book(connection: AsyncConnection, entries: Sequence[Entry]) -> None:
    """Entries with their transfers; one that only changes who paid which second has none."""
    if not entries:
        return
    await connection.execute(
        _INSERT_ENTRIES,
        {
            "account_ids": arrays.ids(entry.account_id for entry in entries),
            "entry_ids": arrays.uuids(entry.entry_id for entry in entries),
            "kinds": arrays.ids(entry.kind for entry in entries),
            "references": [entry.reference for entry in entries],
            "hours": [entry.hour for entry in entries],
            "occurred_at": [entry.occurred_at for entry in entries],
            "memos": [entry.memo for entry in entries],
            "commands": [entry.command for entry in entries],
        },
    )
    rows = [(entry, seq, transfer) for entry in entries for seq, transfer in enumerate(entry.transfers)]
    if not rows:
        return
    await connection.execute(
        _INSERT_TRANSFERS,
        {
            "account_ids": arrays.ids(entry.account_id for entry, _, _ in rows),
            "entry_ids": arrays.uuids(entry.entry_id for entry, _, _ in rows),
            "seqs": arrays.integers(seq for _, seq, _ in rows),
            "debits": arrays.ids(transfer.debit for _, _, transfer in rows),
            "credits": arrays.ids(transfer.credit for _, _, transfer in rows),
            "amounts": arrays.integers(transfer.amount_micro for _, _, transfer in rows),
        },
    )


async def find(
    connection: AsyncConnection, account_id: str, kind: EntryKind, reference: str
) -> EntryFound | None:
    """What was booked under this reference before, if anything (R19)."""
    row = (
        await connection.execute(_FIND, {"account_id": account_id, "kind": kind, "reference": reference})
    ).one_or_none()
    return None if row is None else EntryFound(*row)


async def page(
    connection: AsyncConnection, account_id: str, before: UUID | None, limit: int
) -> list[EntryListed]:
    """Newest first, entries older than `before`."""
    rows = await connection.execute(_PAGE, {"account_id": account_id, "before": before, "limit": limit})
    return [EntryListed(*row) for row in rows]


async def transfers(
    connection: AsyncConnection, account_id: str, entry_ids: Sequence[UUID]
) -> dict[UUID, list[Transfer]]:
    found: dict[UUID, list[Transfer]] = {}
    rows = await connection.execute(_TRANSFERS, {"account_id": account_id, "entry_ids": list(entry_ids)})
    for entry_id, debit, credit, amount in rows:
        found.setdefault(entry_id, []).append(Transfer(debit, credit, amount))
    return found
