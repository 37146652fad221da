"""An account by its id, for a caller that may see it."""

from services.gateway.domain.accounts import Account
from services.gateway.domain.permissions import Operation, account_not_found, require_on
from services.gateway.domain.principals import Principal
from services.gateway.storage import accounts
from shared.database import Database
from shared.ids import is_id


async def find_account(
    account_id: str, caller: Principal, operation: Operation, *, database: Database
) -> Account:
    """Raises NotFound or Forbidden, in this order, so that nothing is told of accounts of others."""
    if not is_id(account_id):
        raise account_not_found(account_id)
    require_on(caller, operation, account_id)
    async with database.reading() as connection:
        account = await accounts.find(connection, account_id)
    if account is None:
        raise account_not_found(account_id)
    return account
