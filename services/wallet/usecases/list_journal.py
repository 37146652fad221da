"""An account's entries with their transfers, newest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from services.wallet.domain.chart import Transfer
from services.wallet.storage import journal
from services.wallet.storage.journal import EntryListed
from services.wallet.usecases.context import Context, retried


@dataclass(frozen=True, slots=True)
class EntryBooked:
    entry: EntryListed
    transfers: Sequence[Transfer]


@retried
async def list_journal(
    context: Context, account_id: str, before: UUID | None, limit: int
) -> list[EntryBooked]:
    async with context.database.reading() as connection:
        entries = await journal.page(connection, account_id, before, limit)
        transfers = await journal.transfers(connection, account_id, [entry.entry_id for entry in entries])
    return [EntryBooked(entry, transfers.get(entry.entry_id, ())) for entry in entries]
