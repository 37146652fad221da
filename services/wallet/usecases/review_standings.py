"""Time alone moves an account: a stopped instance burns no more, a lot begins or ends (R18)."""

from dataclasses import replace

from services.wallet.domain.account import assessed
from services.wallet.storage import accounts
from services.wallet.usecases.context import Context
from services.wallet.usecases.telling import count_crossings


async def review_standings(context: Context) -> int:
    """Look again at the accounts whose time has come; how many."""
    settings = context.settings
    async with context.database.transaction() as connection:
        due = await accounts.reviews_due(connection, context.clock(), settings.sweep_accounts_max)
        if not due:
            return 0
        await accounts.lock(connection, due)
        now = context.clock()
        before = await accounts.read(connection, due, now)
        rates = await accounts.burn_rates(connection, due, now, settings.running_seconds)
        after = []
        for account_id, account in before.items():
            rate = rates.get(account_id, accounts.NOTHING_BURNS)
            looked_at = assessed(
                replace(account, burn_rate_per_hour=rate.rate_per_hour, review_at=rate.falls_at),
                context.limits,
            )
            if looked_at != account:
                after.append(looked_at)
        crossed = await accounts.write(connection, before.values(), after, now)
        await accounts.drop_boundaries(connection, due, now)
    count_crossings(crossed)
    return len(due)
