"""What a hold took goes back, once."""

from uuid import UUID

from services.wallet.storage import accounts, holds
from services.wallet.usecases.context import Context, retried
from shared.errors import NotFound


@retried
async def release_hold(context: Context, hold_id: UUID, account_id: str | None = None) -> None:
    """Again, or after its end, changes nothing. Raises NotFound, also for the hold of another account."""
    async with context.database.transaction() as connection:
        hold = await holds.find_by_id(connection, hold_id)
        if hold is None or account_id not in (None, hold.account_id):
            raise NotFound(f"there is no hold {hold_id}")
        await accounts.lock(connection, [hold.account_id])
        await holds.release(connection, hold, context.clock())
