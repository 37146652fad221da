"""A hold that nobody released ends by itself."""

from services.wallet.storage import accounts, holds
from services.wallet.usecases.context import Context


async def expire_holds(context: Context) -> int:
    """How many ended."""
    async with context.database.transaction() as connection:
        account_ids = await holds.accounts_with_ended(
            connection, context.clock(), context.settings.sweep_accounts_max
        )
        if not account_ids:
            return 0
        await accounts.lock(connection, account_ids)
        return await holds.expire(connection, account_ids, context.clock())
