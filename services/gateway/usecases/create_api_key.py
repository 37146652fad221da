"""Make a key; its secret is told once, here, and kept nowhere."""

from collections.abc import Callable
from dataclasses import dataclass

from services.gateway.domain.api_keys import (
    KEY_RANDOM_BYTES,
    ApiKey,
    bind,
    hash_of,
    secret_from,
    shown_part,
)
from services.gateway.domain.principals import Role
from services.gateway.storage import accounts, api_keys
from shared.database import Database
from shared.errors import Invalid
from shared.ids import IdSource
from shared.time import Clock

RandomBytes = Callable[[int], bytes]
"""Unpredictable bytes; handed in by the composition root."""


@dataclass(frozen=True)
class NewKey:
    name: str
    role: Role
    account_ids: frozenset[str] = frozenset()
    source_prefix: str | None = None


async def create_api_key(
    wanted: NewKey, *, database: Database, clock: Clock, new_id: IdSource, random_bytes: RandomBytes
) -> tuple[ApiKey, str]:
    """The key and its secret. Raises Invalid if it is bound to the wrong things or to unknown accounts."""
    key_id = str(new_id())
    principal = bind(key_id, wanted.role, wanted.account_ids, wanted.source_prefix)
    secret = secret_from(random_bytes(KEY_RANDOM_BYTES))
    key = ApiKey(key_id, wanted.name, shown_part(secret), principal, clock(), None)
    async with database.transaction() as connection:
        unknown = await accounts.unknown_of(connection, principal.account_ids)
        if unknown:
            raise Invalid(f"account_ids: there is no account {unknown[0]!r}", field="account_ids")
        await api_keys.insert(connection, key, hash_of(secret))
    return key, secret
