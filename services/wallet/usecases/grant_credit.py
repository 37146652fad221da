"""Credit given by us: a promotional lot with its validity (R11, R19)."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from services.wallet.domain import chart
from services.wallet.domain.account import assessed
from services.wallet.domain.chart import Transfer
from services.wallet.domain.commands import Grant, refuse_other_content
from services.wallet.domain.lots import Lot
from services.wallet.storage import accounts, journal, lots
from services.wallet.storage.journal import Entry
from services.wallet.storage.lots import NewLot
from services.wallet.usecases.context import Context, retried
from services.wallet.usecases.telling import count_crossings
from shared.errors import Invalid


@dataclass(frozen=True, slots=True)
class Granted:
    """`lot` as it is now. `repeated`: booked before, nothing was done now."""

    command: Grant
    entry_id: UUID
    lot: Lot
    occurred_at: datetime
    repeated: bool


@retried
async def grant_credit(context: Context, command: Grant) -> Granted:
    """Raises Conflict when the reference was used before with other content, Invalid for an empty validity.

    Promotional credit pays no debt (R13), and of usage before now only what is not settled yet.
    """
    account_id = command.account_id
    async with context.database.transaction() as connection:
        await accounts.insert_missing(connection, [account_id], context.clock())
        await accounts.lock(connection, [account_id])
        now = context.clock()
        booked = await journal.find(connection, account_id, "grant", command.reference)
        if booked is not None:
            refuse_other_content(command.reference, booked.command, command.content())
            lot = await lots.of_entry(connection, account_id, booked.entry_id)
            return Granted(command, booked.entry_id, lot, booked.occurred_at, True)
        lot = Lot(
            lot_id=context.new_id(),
            kind=command.kind,
            priority=command.burn_priority,
            granted=command.amount,
            remaining=command.amount,
            effective_at=command.effective_at or now,
            expires_at=command.expires_at,
            created_at=now,
        )
        if lot.expires_at is not None and lot.expires_at <= lot.effective_at:
            raise Invalid("the credit would end before it begins", field="expires_at")
        entry_id = context.new_id()
        await journal.book(
            connection,
            [
                Entry(
                    account_id,
                    entry_id,
                    "grant",
                    command.reference,
                    None,
                    now,
                    f"{command.kind} credit",
                    command.content(),
                    [Transfer(chart.PROMOTION, chart.lot(lot.lot_id), lot.granted)],
                )
            ],
        )
        await lots.insert(connection, [NewLot(account_id, lot, command.reference, entry_id)], now)
        account = (await accounts.read(connection, [account_id], now))[account_id]
        # Read after the lot was stored: it is counted already if it is valid now.
        crossed = await accounts.write(connection, [account], [assessed(account, context.limits)], now)
    count_crossings(crossed)
    return Granted(command, entry_id, lot, now, False)
