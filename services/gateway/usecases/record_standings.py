"""Remember the newest standing of each account."""

from collections.abc import Sequence

from services.gateway.storage import accounts
from shared.contracts.facts import AccountStanding
from shared.database import Database


async def record_standings(told: Sequence[AccountStanding], *, database: Database) -> None:
    """In any order, any number of times: the greatest epoch wins."""
    newest: dict[str, AccountStanding] = {}
    for fact in told:
        known = newest.get(fact.account_id)
        if known is None or known.epoch < fact.epoch:
            newest[fact.account_id] = fact
    if not newest:
        return
    async with database.transaction() as connection:
        await accounts.keep_newest_standing(connection, list(newest.values()))
