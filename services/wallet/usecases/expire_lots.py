"""What a promotional lot has left when its time is over goes to breakage, by an entry (R15)."""

from collections.abc import Callable
from datetime import timedelta

from opentelemetry.metrics import get_meter

from services.wallet.domain import chart
from services.wallet.domain.chart import Transfer
from services.wallet.storage import accounts, journal, lots
from services.wallet.storage.journal import Entry
from services.wallet.storage.lots import RemainingChange
from services.wallet.usecases.context import Context

_expired = get_meter(__name__).create_counter(
    "wallet.expired.micro", description="micro-yuan of promotional credit that ended unspent"
)


async def expire_lots(context: Context, is_caught_up: Callable[[], bool]) -> int:
    """Sweep lots whose grace is over and whose hours are all settled; how many.

    None while charges wait to be read, as after an outage: they may be of a lot's time (R15).
    Available does not change: an ended lot has counted for nothing since its end.
    """
    if not is_caught_up():
        return 0
    settings = context.settings
    ended_until = context.clock() - timedelta(seconds=settings.expiry_grace_seconds)
    async with context.database.transaction() as connection:
        account_ids = await lots.accounts_with_ended(connection, ended_until, settings.sweep_accounts_max)
        if not account_ids:
            return 0
        await accounts.lock(connection, account_ids)
        now = context.clock()
        ended = [
            (account_id, lot)
            for account_id, found in (await lots.to_sweep(connection, account_ids, ended_until)).items()
            for lot in found
        ]
        entry_ids = sorted(context.new_id() for _ in ended)
        await journal.book(
            connection,
            [
                Entry(
                    account_id,
                    entry_id,
                    "expiry",
                    str(lot.lot_id),
                    None,
                    now,
                    f"{lot.kind} credit ended unspent",
                    None,
                    [Transfer(chart.lot(lot.lot_id), chart.BREAKAGE, lot.remaining)],
                )
                for (account_id, lot), entry_id in zip(ended, entry_ids, strict=True)
            ],
        )
        await lots.write_remaining(
            connection, [RemainingChange(account_id, lot.lot_id, 0, swept=True) for account_id, lot in ended]
        )
    _expired.add(sum(lot.remaining for _, lot in ended))
    return len(ended)
