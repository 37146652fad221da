"""Accounts and their standing. One statement per function, in the caller's transaction."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.gateway.domain.accounts import Account
from shared.contracts.facts import AccountStanding

_INSERT = text(
    """
    INSERT INTO account (account_id, name, kind, trial, registered_at, created_at)
    VALUES (:account_id, :name, :kind, :trial, :registered_at, :created_at)
    ON CONFLICT (account_id) DO NOTHING
    RETURNING account_id
    """
)

_SELECT = """
    SELECT account.account_id, name, kind, trial, registered_at, created_at,
           coalesce(standing, 'good') AS standing
    FROM account LEFT JOIN account_standing USING (account_id)
"""
_ONE = text(f"{_SELECT} WHERE account.account_id = :account_id")
_PAGE_OF_ALL = text(
    f"""{_SELECT} WHERE account.account_id > :after
    ORDER BY account.account_id LIMIT :limit"""
)
_PAGE_OF_SOME = text(
    f"""{_SELECT} WHERE account.account_id > :after
    AND account.account_id = ANY(CAST(:account_ids AS text[]))
    ORDER BY account.account_id LIMIT :limit"""
)
_UNKNOWN = text(
    """
    SELECT named.account_id
    FROM unnest(CAST(:account_ids AS text[])) AS named (account_id) LEFT JOIN account USING (account_id)
    WHERE account.account_id IS NULL ORDER BY named.account_id
    """
)

_KEEP_NEWEST_STANDING = text(
    """
    INSERT INTO account_standing (account_id, standing, epoch)
    SELECT * FROM unnest(CAST(:account_ids AS text[]), CAST(:standings AS text[]), CAST(:epochs AS bigint[]))
                  AS told (account_id, standing, epoch)
    ORDER BY account_id
    ON CONFLICT (account_id) DO UPDATE SET standing = excluded.standing, epoch = excluded.epoch
    WHERE account_standing.epoch < excluded.epoch
    """
)


async def insert(connection: AsyncConnection, account: Account) -> bool:
    """False if the account id is taken."""
    inserted = await connection.scalar(
        _INSERT,
        {
            "account_id": account.account_id,
            "name": account.name,
            "kind": account.kind,
            "trial": account.trial,
            "registered_at": account.registered_at,
            "created_at": account.created_at,
        },
    )
    return inserted is not None


async def find(connection: AsyncConnection, account_id: str) -> Account | None:
    row = (await connection.execute(_ONE, {"account_id": account_id})).one_or_none()
    return None if row is None else _account(row)


async def unknown_of(connection: AsyncConnection, account_ids: frozenset[str]) -> list[str]:
    """Those among `account_ids` that are no account."""
    if not account_ids:
        return []
    return list(await connection.scalars(_UNKNOWN, {"account_ids": sorted(account_ids)}))


async def page(
    connection: AsyncConnection, after: str, limit: int, only: frozenset[str] | None
) -> list[Account]:
    """Accounts whose id comes after `after`, in byte order; `only` those, if given."""
    if only is None:
        rows = await connection.execute(_PAGE_OF_ALL, {"after": after, "limit": limit})
    else:
        rows = await connection.execute(
            _PAGE_OF_SOME, {"after": after, "limit": limit, "account_ids": sorted(only)}
        )
    return [_account(row) for row in rows]


async def keep_newest_standing(connection: AsyncConnection, told: Sequence[AccountStanding]) -> None:
    """`told` has each account once. An epoch that is not newer than the one here changes nothing."""
    await connection.execute(
        _KEEP_NEWEST_STANDING,
        {
            "account_ids": [fact.account_id for fact in told],
            "standings": [fact.standing for fact in told],
            "epochs": [fact.epoch for fact in told],
        },
    )


def _account(row: Row[Any]) -> Account:
    return Account(
        account_id=row.account_id,
        name=row.name,
        kind=row.kind,
        trial=row.trial,
        registered_at=row.registered_at,
        created_at=row.created_at,
        standing=row.standing,
    )
