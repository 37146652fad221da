"""Give a hold back to available, for a caller that may see its account."""

from http import HTTPStatus
from uuid import UUID

from services.gateway.clients.wallet import WalletClient
from services.gateway.domain.answers import Answer
from services.gateway.domain.permissions import SEES_EVERY_ACCOUNT, Operation, require, require_on
from services.gateway.domain.principals import Principal
from shared.errors import NotFound


async def release_hold(
    hold_id: str, account_id: str | None, caller: Principal, *, wallet: WalletClient
) -> Answer:
    """The wallet releases only a hold of the account it is told, so a caller that is bound to accounts
    reaches the holds of these and no others. Raises NotFound or Forbidden.
    """
    try:
        UUID(hold_id)
    except ValueError:
        raise _not_found(hold_id) from None
    if account_id is not None:
        require_on(caller, Operation.RELEASE_HOLD, account_id)
        return await wallet.release_hold(hold_id, account_id)
    require(caller, Operation.RELEASE_HOLD)
    if caller.role in SEES_EVERY_ACCOUNT:
        return await wallet.release_hold(hold_id, None)
    for own in sorted(caller.account_ids):
        answer = await wallet.release_hold(hold_id, own)
        if answer.status != HTTPStatus.NOT_FOUND:
            return answer
    raise _not_found(hold_id)


def _not_found(hold_id: str) -> NotFound:
    return NotFound(f"there is no hold {hold_id!r}")
