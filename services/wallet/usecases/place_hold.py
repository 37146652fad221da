"""May this start? A hold takes its price from available, or is refused with the shortfall (R17)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from services.wallet.domain.commands import HoldRequest, refuse_other_content
from services.wallet.storage import accounts, holds
from services.wallet.storage.holds import Hold
from services.wallet.usecases.context import Context, retried
from shared.errors import Conflict, InsufficientFunds, NotFound
from shared.money import format_cny


@dataclass(frozen=True, slots=True)
class HoldPlaced:
    """`repeated`: placed before under this reference, nothing was taken now."""

    request: HoldRequest
    hold: Hold
    repeated: bool


@retried
async def place_hold(context: Context, request: HoldRequest) -> HoldPlaced:
    """Raises InsufficientFunds with `shortfall`, Conflict for a reference used with other content,
    or whose hold is no longer in force: the first answer must not be taken for a reservation.
    """
    account_id = request.account_id
    async with context.database.transaction() as connection:
        if not await accounts.lock(connection, [account_id]):
            raise NotFound(f"there is no wallet of account {account_id}")
        now = context.clock()
        known = await holds.find(connection, account_id, request.reference)
        if known is not None:
            refuse_other_content(request.reference, known.command, request.content())
            _refuse_ended(known, now)
            return HoldPlaced(request, known, True)
        lasts_seconds = request.seconds + context.settings.hold_grace_seconds
        hold = Hold(
            hold_id=context.new_id(),
            account_id=account_id,
            reference=request.reference,
            amount=request.amount,
            state="active",
            created_at=now,
            expires_at=now + timedelta(seconds=lasts_seconds),
            command=request.content(),
        )
        if not await holds.take(connection, hold, now):
            account = (await accounts.read(connection, [account_id], now))[account_id]
            shortfall = request.amount - account.funds.available
            raise InsufficientFunds(
                f"available is {format_cny(account.funds.available)} CNY, "
                f"{format_cny(request.amount)} is needed",
                shortfall=format_cny(shortfall),
                currency="CNY",
            )
    return HoldPlaced(request, hold, False)


def _refuse_ended(hold: Hold, now: datetime) -> None:
    """A hold past its end reserves nothing that may be relied on, whether it was swept yet or not."""
    if hold.state == "released":
        ended = "was released"
    elif hold.state == "expired" or hold.expires_at <= now:
        ended = "has expired"
    else:
        return
    raise Conflict(
        f"the hold of reference {hold.reference} {ended}; take another reference for a new one",
        reference=hold.reference,
    )
