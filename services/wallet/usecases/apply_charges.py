"""Charges move their account at once: a newer revision replaces an older one, accrued follows (DESIGN 4)."""

from collections.abc import Sequence
from dataclasses import replace

from opentelemetry.metrics import get_meter

from services.wallet.domain.account import Account, assessed
from services.wallet.domain.charges import Charge
from services.wallet.storage import accounts
from services.wallet.storage import charges as stored_charges
from services.wallet.usecases.context import Context
from services.wallet.usecases.telling import count_crossings

_meter = get_meter(__name__)
_applied = _meter.create_counter("wallet.charges.applied", description="charges that were news")
_stale = _meter.create_counter("wallet.charges.stale", description="charges older than what is held")
_batches = _meter.create_counter("wallet.charges.batches", description="batches of charges applied")
_unknown = _meter.create_counter(
    "wallet.accounts.unknown", description="wallets opened by a charge before their account was"
)


async def apply_charges(context: Context, charges: Sequence[Charge]) -> int:
    """Apply a folded batch, in order of key, in one transaction; how many were news.

    Running it twice, or beside another worker, or with older revisions, changes nothing.
    """
    if not charges:
        return 0
    account_ids = sorted({charge.account_id for charge in charges})
    async with context.database.transaction() as connection:
        unknown = await accounts.insert_missing(connection, account_ids, context.clock())
        await accounts.lock(connection, account_ids)
        now = context.clock()
        applied = await stored_charges.apply(connection, charges, now)
        touched = [row.account_id for row in applied]
        crossed: list[str] = []
        if touched:
            before = await accounts.read(connection, touched, now)
            rates = await accounts.burn_rates(connection, touched, now, context.settings.running_seconds)
            after = []
            for row in applied:
                account: Account = before[row.account_id]
                rate = rates.get(row.account_id, accounts.NOTHING_BURNS)
                moved = replace(
                    account,
                    accrued=account.accrued + row.change,
                    charged_ever=account.charged_ever or row.charged,
                    charged_at=now,
                    burn_rate_per_hour=rate.rate_per_hour,
                    review_at=rate.falls_at,
                )
                after.append(assessed(moved, context.limits))
            crossed = await accounts.write(connection, before.values(), after, now)
    news = sum(row.applied for row in applied)
    _applied.add(news)
    _stale.add(len(charges) - news)
    _batches.add(1)
    _unknown.add(len(unknown))
    count_crossings(crossed)
    return news
