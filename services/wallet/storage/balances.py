"""An account with its promotional lots, in one statement and so of one instant."""

from datetime import datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.wallet.domain.account import Account
from services.wallet.domain.lots import Lot

_READ = text(
    """
    SELECT a.account_id, a.cash, a.accrued, a.debt, a.held, a.charged_ever, a.charged_at,
           a.burn_rate_per_hour, a.review_at, a.standing, a.epoch,
           lot.lot_id, lot.kind, lot.priority, lot.granted, lot.remaining, lot.effective_at, lot.expires_at,
           lot.created_at, lot.swept
    FROM account a
    LEFT JOIN lot ON lot.account_id = a.account_id AND lot.open AND lot.kind <> 'cash'
    WHERE a.account_id = :account_id
    """
)
_LOT_COLUMNS_FROM = 11


async def read(
    connection: AsyncConnection, account_id: str, now: datetime
) -> tuple[Account, list[Lot]] | None:
    """The lots in burn order, those out of their time too; None without such an account."""
    rows = (await connection.execute(_READ, {"account_id": account_id})).all()
    if not rows:
        return None
    first = rows[0]
    lots = [Lot(*row[_LOT_COLUMNS_FROM:]) for row in rows if row.lot_id is not None]
    account = Account(
        account_id=first.account_id,
        cash=first.cash,
        promotional=sum(lot.remaining for lot in lots if lot.is_valid_at(now)),
        accrued=first.accrued,
        debt=first.debt,
        held=first.held,
        charged_ever=first.charged_ever,
        charged_at=first.charged_at,
        burn_rate_per_hour=first.burn_rate_per_hour,
        review_at=first.review_at,
        standing=first.standing,
        epoch=first.epoch,
    )
    return account, sorted(lots, key=Lot.burn_order)
