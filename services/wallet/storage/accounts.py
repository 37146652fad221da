"""Account rows: every change of an account happens under the lock of its row.

Lock in one statement, read in the next: a statement that waits for a lock still reads from before the wait.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.wallet.domain.account import Account, crossings
from services.wallet.storage import arrays
from services.wallet.storage.arrays import ACCOUNT_IDS, integer_column
from shared.contracts.facts import encode_fact
from shared.contracts.topics import ACCOUNT_STANDING
from shared.kafka import Message
from shared.outbox import enqueue
from shared.time import SECONDS_PER_HOUR

_INSERT_MISSING = text(
    f"""
    INSERT INTO account (account_id, created_at)
    SELECT wanted.account_id, :now
    FROM unnest({ACCOUNT_IDS}) AS wanted (account_id)
    WHERE NOT EXISTS (SELECT FROM account WHERE account.account_id = wanted.account_id)
    ORDER BY wanted.account_id COLLATE "C"
    ON CONFLICT DO NOTHING
    RETURNING account_id
    """
)
_LOCK = text(
    f"""
    SELECT account.account_id
    FROM unnest({ACCOUNT_IDS}) AS wanted (account_id) JOIN account USING (account_id)
    ORDER BY account.account_id FOR NO KEY UPDATE OF account
    """
)
# Of one account with a lot that has ended and has something left: rare, so that what follows is seldom run.
_DUE_FROM_ENDED = """
    SELECT CAST(least(sum(least(lot.remaining, accrued.before_end)), max(accrued.before_end)) AS bigint)
    FROM lot CROSS JOIN LATERAL (
        SELECT greatest(0, coalesce(sum(charge.amount - charge.settled), 0)) AS before_end
        FROM unsettled_hour waiting JOIN charge USING (account_id, hour)
        WHERE waiting.account_id = lot.account_id AND waiting.hour < lot.expires_at
    ) accrued
    WHERE lot.account_id = a.account_id AND lot.open AND lot.kind <> 'cash' AND lot.expires_at <= :now
"""
_READ = text(
    f"""
    SELECT a.account_id, a.cash, coalesce(p.promotional, 0) AS promotional, a.accrued, a.debt, a.held,
           a.charged_ever, a.charged_at, a.burn_rate_per_hour, a.review_at, a.standing, a.epoch,
           CASE WHEN p.has_ended THEN coalesce(({_DUE_FROM_ENDED}), 0) ELSE 0 END AS due_from_ended
    FROM unnest({ACCOUNT_IDS}) AS wanted (account_id)
    JOIN account a USING (account_id)
    LEFT JOIN (
        SELECT account_id,
               CAST(sum(remaining) FILTER (WHERE expires_at IS NULL OR expires_at > :now) AS bigint)
                   AS promotional,
               bool_or(expires_at <= :now) AS has_ended
        FROM unnest({ACCOUNT_IDS}) AS wanted (account_id) JOIN lot USING (account_id)
        WHERE open AND kind <> 'cash' AND effective_at <= :now
        GROUP BY account_id
    ) p USING (account_id)
    ORDER BY a.account_id
    """
)
_BURN_RATES = text(
    f"""
    SELECT account_id, CAST(sum(rate_per_hour) AS bigint) AS rate, min(covered_until) AS first_covered_until
    FROM (
        SELECT DISTINCT ON (account_id, resource_id) account_id, rate_per_hour, covered_until
        FROM unnest({ACCOUNT_IDS}) AS wanted (account_id) JOIN charge USING (account_id)
        WHERE hour > :hours_after AND covered_until > :running_after
        ORDER BY account_id, resource_id, hour DESC
    ) running
    GROUP BY account_id
    """
)
_WRITE = text(
    f"""
    UPDATE account SET
        cash = new.cash, accrued = new.accrued, debt = new.debt, held = new.held,
        charged_ever = new.charged_ever, charged_at = new.charged_at,
        burn_rate_per_hour = new.burn_rate_per_hour, burning = new.burn_rate_per_hour > 0,
        review_at = new.review_at, standing = new.standing, epoch = new.epoch
    FROM unnest(
        {ACCOUNT_IDS}, {integer_column("cash")}, {integer_column("accrued")},
        {integer_column("debt")}, {integer_column("held")}, CAST(:charged_ever AS boolean[]),
        CAST(:charged_at AS timestamptz[]), {integer_column("burn_rate_per_hour")},
        CAST(:review_at AS timestamptz[]), CAST(:standing AS text[]), {integer_column("epoch")}
    ) AS new (account_id, cash, accrued, debt, held, charged_ever, charged_at, burn_rate_per_hour,
              review_at, standing, epoch)
    WHERE account.account_id = new.account_id
    """
)
_OPEN = text(
    """
    UPDATE account SET opened = true, name = :name, kind = :kind, registered_at = :registered_at
    WHERE account_id = :account_id AND NOT opened
    """
)
_FIND = text(
    """
    SELECT account_id, name, kind, registered_at, opened, created_at FROM account
    WHERE account_id = :account_id
    """
)
_UNKNOWN = text(
    """
    SELECT account_id, created_at, charged_ever, accrued FROM account
    WHERE NOT opened AND account_id > :after
    ORDER BY account_id LIMIT :limit
    """
)
_REVIEWS_DUE = text(
    """
    (SELECT account_id FROM account WHERE burning AND review_at <= :now LIMIT :limit)
    UNION
    (SELECT account_id FROM lot_boundary WHERE at <= :now ORDER BY at LIMIT :limit)
    ORDER BY account_id
    """
)
_DROP_BOUNDARIES = text(f"DELETE FROM lot_boundary WHERE at <= :now AND account_id = ANY({ACCOUNT_IDS})")


@dataclass(frozen=True, slots=True)
class AccountRow:
    """What the wallet knows of an account besides money; `opened` false: only heard of through a charge."""

    account_id: str
    name: str
    kind: str
    registered_at: datetime | None
    opened: bool
    created_at: datetime


class UnknownAccount(NamedTuple):
    account_id: str
    created_at: datetime
    charged_ever: bool
    accrued: int


class BurnRate(NamedTuple):
    """`falls_at`: when it falls by itself, if no newer usage comes."""

    rate_per_hour: int
    falls_at: datetime | None


NOTHING_BURNS = BurnRate(0, None)


async def insert_missing(
    connection: AsyncConnection, account_ids: Collection[str], now: datetime
) -> list[str]:
    """Open an empty wallet for each account not heard of before; which these were.

    Before the lock of any account, and in order, so that two workers cannot wait for each other.
    """
    rows = await connection.execute(_INSERT_MISSING, {"account_ids": arrays.ids(account_ids), "now": now})
    return list(rows.scalars())


async def lock(connection: AsyncConnection, account_ids: Collection[str]) -> list[str]:
    """Lock the accounts that exist, in order; which these are."""
    rows = await connection.execute(_LOCK, {"account_ids": arrays.ids(account_ids)})
    return list(rows.scalars())


async def read(
    connection: AsyncConnection, account_ids: Collection[str], now: datetime
) -> dict[str, Account]:
    rows = await connection.execute(_READ, {"account_ids": arrays.ids(account_ids), "now": now})
    return {row[0]: Account(*row) for row in rows}


async def burn_rates(
    connection: AsyncConnection, account_ids: Collection[str], now: datetime, running_seconds: int
) -> Mapping[str, BurnRate]:
    """What each account's running resources cost per hour; who is not in it burns nothing.

    Running: covered within the last `running_seconds`; of each resource its newest hour counts.
    """
    running_after = now - timedelta(seconds=running_seconds)
    rows = await connection.execute(
        _BURN_RATES,
        {
            "account_ids": arrays.ids(account_ids),
            "running_after": running_after,
            # covered_until is at most the end of its hour
            "hours_after": running_after - timedelta(seconds=SECONDS_PER_HOUR),
        },
    )
    return {
        row.account_id: BurnRate(row.rate, row.first_covered_until + timedelta(seconds=running_seconds))
        for row in rows
    }


async def write(
    connection: AsyncConnection, before: Collection[Account], after: Sequence[Account], now: datetime
) -> list[str]:
    """Store locked accounts, and with them the news of each crossing; the standings crossed to."""
    if not after:
        return []
    result = await connection.execute(
        _WRITE,
        {
            "account_ids": arrays.ids(account.account_id for account in after),
            "cash": arrays.integers(account.cash for account in after),
            "accrued": arrays.integers(account.accrued for account in after),
            "debt": arrays.integers(account.debt for account in after),
            "held": arrays.integers(account.held for account in after),
            "charged_ever": [account.charged_ever for account in after],
            "charged_at": [account.charged_at for account in after],
            "burn_rate_per_hour": arrays.integers(account.burn_rate_per_hour for account in after),
            "review_at": [account.review_at for account in after],
            "standing": [account.standing for account in after],
            "epoch": arrays.integers(account.epoch for account in after),
        },
    )
    expect_rows(result.rowcount, len(after), "account")
    facts = crossings(before, after, now)
    await enqueue(
        connection,
        [
            Message(ACCOUNT_STANDING.name, key, encode_fact(fact), key)
            for fact in facts
            for key in [fact.account_id.encode()]
        ],
    )
    return [fact.standing for fact in facts]


async def complete(
    connection: AsyncConnection, account_id: str, name: str, kind: str, registered_at: datetime
) -> bool:
    """False when the account had been opened before."""
    result = await connection.execute(
        _OPEN, {"account_id": account_id, "name": name, "kind": kind, "registered_at": registered_at}
    )
    return result.rowcount == 1


async def find(connection: AsyncConnection, account_id: str) -> AccountRow | None:
    row = (await connection.execute(_FIND, {"account_id": account_id})).one_or_none()
    return None if row is None else AccountRow(*row)


async def unknown_accounts(connection: AsyncConnection, after: str, limit: int) -> list[UnknownAccount]:
    rows = await connection.execute(_UNKNOWN, {"after": after, "limit": limit})
    return [UnknownAccount(*row) for row in rows]


async def reviews_due(connection: AsyncConnection, now: datetime, limit: int) -> list[str]:
    """Accounts whose burn rate has fallen or of whose lots one has begun or ended, by time alone."""
    return list((await connection.execute(_REVIEWS_DUE, {"now": now, "limit": limit})).scalars())


async def drop_boundaries(connection: AsyncConnection, account_ids: Collection[str], now: datetime) -> None:
    await connection.execute(_DROP_BOUNDARIES, {"account_ids": arrays.ids(account_ids), "now": now})


def expect_rows(found: int, expected: int, table: str) -> None:
    """A set-based statement that touched other rows than it was given would move money in silence."""
    if found != expected:
        raise AssertionError(f"{table}: {found} rows written where {expected} were meant")
