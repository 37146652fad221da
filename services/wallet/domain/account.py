"""An account's position, and the news when it crosses from one standing to another (R18)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from services.wallet.domain.standing import Funds, StandingLimits, runway_seconds, standing_of
from shared.contracts.facts import AccountStanding, Standing
from shared.time import format_instant

EntryKind = Literal["trial", "grant", "top_up", "settlement", "expiry"]


@dataclass(frozen=True, slots=True)
class Account:
    """What the account's row says, read under its lock, and the sum of its valid promotional lots.

    `due_from_ended`: of what is accrued, what lots that have ended still pay: they count for nothing in
    available (R17), but they will settle the seconds of their time, so nobody is stopped for those.
    `review_at`: when the burn rate falls by itself unless newer usage comes.
    """

    account_id: str
    cash: int
    promotional: int
    accrued: int
    debt: int
    held: int
    charged_ever: bool
    charged_at: datetime | None
    burn_rate_per_hour: int
    review_at: datetime | None
    standing: Standing
    epoch: int
    due_from_ended: int = 0

    @property
    def funds(self) -> Funds:
        return Funds(self.cash, self.promotional, self.accrued, self.debt, self.held)

    @property
    def judged_by(self) -> int:
        """What is left to pay for usage once all that is accrued is settled: standing looks at this."""
        return self.funds.spendable + self.due_from_ended


def assessed(account: Account, limits: StandingLimits) -> Account:
    """The account with its standing made right; `epoch` grows only if that is a crossing."""
    spendable = account.cash + account.promotional + account.due_from_ended - account.accrued - account.debt
    standing = standing_of(
        spendable, account.burn_rate_per_hour, charged_ever=account.charged_ever, limits=limits
    )
    if standing == account.standing:
        return account
    return replace(account, standing=standing, epoch=account.epoch + 1)


def crossings(before: Iterable[Account], after: Sequence[Account], at: datetime) -> list[AccountStanding]:
    """One fact for each account whose epoch grew."""
    epochs = {account.account_id: account.epoch for account in before}
    return [_standing_fact(account, at) for account in after if account.epoch != epochs[account.account_id]]


def _standing_fact(account: Account, at: datetime) -> AccountStanding:
    spendable = account.judged_by
    runway = runway_seconds(spendable, account.burn_rate_per_hour)
    return AccountStanding(
        account_id=account.account_id,
        standing=account.standing,
        epoch=account.epoch,
        available=spendable,
        burn_rate_per_hour=account.burn_rate_per_hour,
        exhausts_at=None if runway is None else exhausts_at(at, runway),
        at=format_instant(at),
    )


def exhausts_at(at: datetime, runway: int) -> str | None:
    """None when that is beyond the calendar."""
    try:
        return format_instant(at + timedelta(seconds=runway))
    except OverflowError:
        return None
