"""API keys. The secret itself never gets here."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.gateway.domain.api_keys import ApiKey
from services.gateway.domain.principals import Principal, Role

_INSERT = text(
    """
    INSERT INTO api_key (key_id, key_hash, shown, name, role, account_ids, source_prefix, created_at)
    VALUES (:key_id, :key_hash, :shown, :name, :role, CAST(:account_ids AS text[]), :source_prefix,
            :created_at)
    """
)
_COLUMNS = "key_id, shown, name, role, account_ids, source_prefix, created_at, revoked_at"
_LIVE_BY_HASH = text(f"SELECT {_COLUMNS} FROM api_key WHERE key_hash = :key_hash AND revoked_at IS NULL")
_PAGE = text(f"SELECT {_COLUMNS} FROM api_key WHERE key_id > :after ORDER BY key_id LIMIT :limit")
_REVOKE = text(
    "UPDATE api_key SET revoked_at = coalesce(revoked_at, :now) WHERE key_id = :key_id RETURNING key_id"
)


async def insert(connection: AsyncConnection, key: ApiKey, key_hash: bytes) -> None:
    await connection.execute(
        _INSERT,
        {
            "key_id": UUID(key.key_id),
            "key_hash": key_hash,
            "shown": key.shown,
            "name": key.name,
            "role": key.principal.role.value,
            "account_ids": sorted(key.principal.account_ids),
            "source_prefix": key.principal.source_prefix,
            "created_at": key.created_at,
        },
    )


async def find_live(connection: AsyncConnection, key_hash: bytes) -> ApiKey | None:
    row = (await connection.execute(_LIVE_BY_HASH, {"key_hash": key_hash})).one_or_none()
    return None if row is None else _key(row)


async def page(connection: AsyncConnection, after: UUID, limit: int) -> list[ApiKey]:
    return [_key(row) for row in await connection.execute(_PAGE, {"after": after, "limit": limit})]


async def revoke(connection: AsyncConnection, key_id: UUID, now: datetime) -> bool:
    """False if there is no such key; a key that is revoked stays as it was."""
    return await connection.scalar(_REVOKE, {"key_id": key_id, "now": now}) is not None


def _key(row: Row[Any]) -> ApiKey:
    key_id = str(row.key_id)
    return ApiKey(
        key_id=key_id,
        name=row.name,
        shown=row.shown,
        principal=Principal(key_id, Role(row.role), frozenset(row.account_ids), row.source_prefix),
        created_at=row.created_at,
        revoked_at=row.revoked_at,
    )
