"""Give a hold back to available, for a caller that may see its account."""

from http import HTTPStatus

import msgspec

from services.gateway.clients.wallet import WalletClient
from services.gateway.domain.answers import Answer
from services.gateway.domain.permissions import SEES_EVERY_ACCOUNT, Operation, require, sees_account
from services.gateway.domain.principals import Principal
from shared.errors import NotFound, Unavailable
from shared.ids import is_id


class _Hold(msgspec.Struct):
    account_id: str


async def require_hold(hold_id: str, caller: Principal, *, wallet: WalletClient) -> None:
    """Raises NotFound for a hold of an account that the caller may not see, as for one that is not there."""
    require(caller, Operation.RELEASE_HOLD)
    if not is_id(hold_id):
        raise _not_found(hold_id)
    if caller.role in SEES_EVERY_ACCOUNT:
        return
    answer = await wallet.hold(hold_id)
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Unavailable("the wallet cannot be asked for this hold just now; try again")
    if answer.status != HTTPStatus.OK:
        raise _not_found(hold_id)
    if not sees_account(caller, msgspec.json.decode(answer.body, type=_Hold).account_id):
        raise _not_found(hold_id)


async def release_hold(hold_id: str, *, wallet: WalletClient) -> Answer:
    return await wallet.release_hold(hold_id)


def _not_found(hold_id: str) -> NotFound:
    return NotFound(f"there is no hold {hold_id!r}")
