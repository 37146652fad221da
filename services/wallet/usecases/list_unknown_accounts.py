"""Accounts that were charged or topped up before they were opened: to be looked into."""

from services.wallet.storage import accounts
from services.wallet.storage.accounts import UnknownAccount
from services.wallet.usecases.context import Context, retried


@retried
async def list_unknown_accounts(context: Context, after: str, limit: int) -> list[UnknownAccount]:
    async with context.database.reading() as connection:
        return await accounts.unknown_accounts(connection, after, limit)
