"""Open an account and tell the wallet, which opens its wallet and grants the trial once (R16)."""

import asyncio
from typing import Final, NamedTuple

from services.gateway.clients.pricing import PricingClient, TrialCredit
from services.gateway.clients.wallet import WalletClient
from services.gateway.domain.accounts import Account, Opening, require_same
from services.gateway.storage import accounts
from shared.contracts.facts import AccountOpened, encode_fact
from shared.contracts.topics import ACCOUNT_OPENED
from shared.database import Database
from shared.errors import Invalid, Unavailable
from shared.kafka import Message
from shared.outbox import enqueue
from shared.time import Clock, format_instant

WALLET_POLL_SECONDS: Final = 0.05
NO_TRIAL: Final = TrialCredit(amount_micro=0, days=0)


class Opened(NamedTuple):
    account: Account
    is_new: bool


async def open_account(
    account_id: str,
    opening: Opening,
    *,
    database: Database,
    pricing: PricingClient,
    clock: Clock,
) -> Opened:
    """Account and news are one transaction: there is no account that the wallet never hears of.

    Raises Conflict if the id was opened with other content, Invalid for a registration in the future,
    Unavailable if the trial's terms cannot be asked for.
    """
    now = clock()
    if opening.registered_at is not None and opening.registered_at > now:
        raise Invalid("registered_at lies in the future", field="registered_at")
    existing = await _find(database, account_id)
    if existing is not None:
        require_same(existing, opening)
        return Opened(existing, is_new=False)

    account = Account(
        account_id=account_id,
        name=opening.name,
        kind=opening.kind,
        trial=opening.trial,
        registered_at=opening.registered_at or now,
        created_at=now,
    )
    trial = await pricing.trial_credit(account.registered_at) if account.trial else NO_TRIAL
    async with database.transaction() as connection:
        is_new = await accounts.insert(connection, account)
        if is_new:
            await enqueue(connection, [_news(account, trial)])
    if is_new:
        return Opened(account, is_new=True)
    existing = await _find(database, account_id)
    if existing is None:
        raise Unavailable(f"account {account_id!r} is being opened by another request")
    require_same(existing, opening)
    return Opened(existing, is_new=False)


async def await_wallet(account_id: str, wallet: WalletClient, seconds_max: float) -> None:
    """Returns when the wallet is open, or after `seconds_max`: it opens later then, nothing is lost."""
    try:
        async with asyncio.timeout(seconds_max):
            while not await _is_open(account_id, wallet):  # noqa: ASYNC110 - the event is in another service
                await asyncio.sleep(WALLET_POLL_SECONDS)
    except TimeoutError:
        return


async def _is_open(account_id: str, wallet: WalletClient) -> bool:
    try:
        return await wallet.is_open(account_id)
    except Unavailable:
        return False


async def _find(database: Database, account_id: str) -> Account | None:
    async with database.reading() as connection:
        return await accounts.find(connection, account_id)


def _news(account: Account, trial: TrialCredit) -> Message:
    key = account.account_id.encode()
    opened = AccountOpened(
        account_id=account.account_id,
        name=account.name,
        kind=account.kind,
        registered_at=format_instant(account.registered_at),
        trial_amount=trial.amount_micro,
        trial_days=trial.days,
    )
    return Message(ACCOUNT_OPENED.name, key, encode_fact(opened), key)
