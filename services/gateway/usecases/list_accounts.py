"""The accounts a caller may see, in the order of their ids."""

from services.gateway.domain.accounts import Account
from services.gateway.domain.permissions import SEES_EVERY_ACCOUNT
from services.gateway.domain.principals import Principal
from services.gateway.storage import accounts
from shared.database import Database


async def list_accounts(caller: Principal, after: str, limit: int, *, database: Database) -> list[Account]:
    only = None if caller.role in SEES_EVERY_ACCOUNT else caller.account_ids
    async with database.reading() as connection:
        return await accounts.page(connection, after, limit, only)
