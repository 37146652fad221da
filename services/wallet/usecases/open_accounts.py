"""An account that was opened gets its wallet, and its trial credit once (R16)."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from services.wallet.domain import chart
from services.wallet.domain.account import assessed
from services.wallet.domain.chart import Transfer
from services.wallet.domain.lots import PRIORITY_OF_KIND, Lot
from services.wallet.domain.openings import Opening
from services.wallet.storage import accounts, journal, lots
from services.wallet.storage.journal import Entry
from services.wallet.storage.lots import NewLot
from services.wallet.usecases.context import Context
from services.wallet.usecases.telling import count_crossings

TRIAL_REFERENCE = "trial"


async def open_accounts(context: Context, openings: Sequence[Opening]) -> int:
    """How many were news. A wallet that a charge had opened before is completed; a repeat changes nothing."""
    first = {opening.account_id: opening for opening in reversed(openings)}
    account_ids = sorted(first)
    if not account_ids:
        return 0
    opened = 0
    async with context.database.transaction() as connection:
        await accounts.insert_missing(connection, account_ids, context.clock())
        await accounts.lock(connection, account_ids)
        now = context.clock()
        entries: list[Entry] = []
        trials: list[NewLot] = []
        for account_id in account_ids:
            opening = first[account_id]
            if not await accounts.complete(
                connection, account_id, opening.name, opening.kind, opening.registered_at
            ):
                continue
            opened += 1
            if opening.trial_amount == 0 or opening.trial_days == 0:
                continue
            entry_id = context.new_id()
            lot = _trial(context, opening, now)
            trials.append(NewLot(account_id, lot, TRIAL_REFERENCE, entry_id))
            entries.append(
                Entry(
                    account_id,
                    entry_id,
                    "trial",
                    TRIAL_REFERENCE,
                    None,
                    now,
                    f"trial credit for {opening.trial_days} days",
                    None,
                    [Transfer(chart.PROMOTION, chart.lot(lot.lot_id), lot.granted)],
                )
            )
        await journal.book(connection, entries)
        await lots.insert(connection, trials, now)
        # Read after the trials were stored: they are counted already.
        granted = await accounts.read(connection, [trial.account_id for trial in trials], now)
        after = [assessed(account, context.limits) for account in granted.values()]
        crossed = await accounts.write(connection, granted.values(), after, now)
    count_crossings(crossed)
    return opened


def _trial(context: Context, opening: Opening, now: datetime) -> Lot:
    return Lot(
        lot_id=context.new_id(),
        kind="trial",
        priority=PRIORITY_OF_KIND["trial"],
        granted=opening.trial_amount,
        remaining=opening.trial_amount,
        effective_at=opening.registered_at,
        expires_at=opening.registered_at + timedelta(days=opening.trial_days),
        created_at=now,
    )
