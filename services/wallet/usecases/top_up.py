"""Cash comes in: debt is paid first, the rest is a lot of its own (R13, R19)."""

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from services.wallet.domain import chart
from services.wallet.domain.account import assessed
from services.wallet.domain.chart import Transfer
from services.wallet.domain.commands import TopUp, refuse_other_content
from services.wallet.domain.lots import PRIORITY_OF_KIND, Lot
from services.wallet.storage import accounts, journal, lots
from services.wallet.storage.journal import Entry
from services.wallet.storage.lots import NewLot
from services.wallet.usecases.context import Context, retried
from services.wallet.usecases.telling import count_crossings


@dataclass(frozen=True, slots=True)
class ToppedUp:
    """`debt_paid` of the amount went to debt. `repeated`: booked before, nothing was done now."""

    command: TopUp
    entry_id: UUID
    lot_id: UUID
    debt_paid: int
    occurred_at: datetime
    repeated: bool


@retried
async def top_up(context: Context, command: TopUp) -> ToppedUp:
    """Raises Conflict when the reference was used before with other content."""
    account_id = command.account_id
    async with context.database.transaction() as connection:
        await accounts.insert_missing(connection, [account_id], context.clock())
        await accounts.lock(connection, [account_id])
        now = context.clock()
        booked = await journal.find(connection, account_id, "top_up", command.reference)
        if booked is not None:
            refuse_other_content(command.reference, booked.command, command.content())
            transfers = (await journal.transfers(connection, account_id, [booked.entry_id]))[booked.entry_id]
            debt_paid = sum(
                transfer.amount_micro
                for transfer in transfers
                if transfer.credit == chart.receivable(account_id)
            )
            lot = await lots.of_entry(connection, account_id, booked.entry_id)
            return ToppedUp(command, booked.entry_id, lot.lot_id, debt_paid, booked.occurred_at, True)
        account = (await accounts.read(connection, [account_id], now))[account_id]
        debt_paid = min(account.debt, command.amount)
        lot = Lot(
            lot_id=context.new_id(),
            kind="cash",
            priority=PRIORITY_OF_KIND["cash"],
            granted=command.amount,
            remaining=command.amount - debt_paid,
            effective_at=now,
            expires_at=None,
            created_at=now,
        )
        entry_id = context.new_id()
        transfers = [Transfer(chart.provider(command.channel), chart.lot(lot.lot_id), command.amount)]
        if debt_paid:
            transfers.append(Transfer(chart.lot(lot.lot_id), chart.receivable(account_id), debt_paid))
        await journal.book(
            connection,
            [
                Entry(
                    account_id,
                    entry_id,
                    "top_up",
                    command.reference,
                    None,
                    now,
                    f"top-up through {command.channel}",
                    command.content(),
                    transfers,
                )
            ],
        )
        await lots.insert(connection, [NewLot(account_id, lot, command.reference, entry_id)], now)
        funded = replace(account, cash=account.cash + lot.remaining, debt=account.debt - debt_paid)
        crossed = await accounts.write(connection, [account], [assessed(funded, context.limits)], now)
    count_crossings(crossed)
    return ToppedUp(command, entry_id, lot.lot_id, debt_paid, now, False)
