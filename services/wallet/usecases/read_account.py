"""What the wallet knows of an account besides its money."""

from services.wallet.storage import accounts
from services.wallet.storage.accounts import AccountRow
from services.wallet.usecases.context import Context, retried
from shared.errors import NotFound


@retried
async def read_account(context: Context, account_id: str) -> AccountRow:
    async with context.database.reading() as connection:
        row = await accounts.find(connection, account_id)
    if row is None:
        raise NotFound(f"there is no wallet of account {account_id}")
    return row
