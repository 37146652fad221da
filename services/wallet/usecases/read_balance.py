"""What an account has, owes and burns, read in one snapshot (R17, R18)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from services.wallet.domain.account import Account
from services.wallet.domain.lots import Lot
from services.wallet.domain.standing import runway_seconds
from services.wallet.storage import balances
from services.wallet.usecases.context import Context, retried
from shared.errors import NotFound


@dataclass(frozen=True, slots=True)
class Balance:
    """`credits`: every promotional lot with something left, in burn order, also those out of their time."""

    account: Account
    credits: Sequence[Lot]
    runway_seconds: int | None
    as_of: datetime


@retried
async def read_balance(context: Context, account_id: str) -> Balance:
    async with context.database.reading() as connection:
        now = context.clock()
        found = await balances.read(connection, account_id, now)
    if found is None:
        raise NotFound(f"there is no wallet of account {account_id}")
    account, credit_lots = found
    runway = runway_seconds(account.funds.spendable, account.burn_rate_per_hour)
    return Balance(account, credit_lots, runway, now)
