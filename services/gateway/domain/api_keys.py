"""API keys: `gk_` and 256 random bits in base64url.

A key is kept as its SHA-256 only. A slow password hash would add nothing: nobody can guess 256 random bits,
however fast the guesses are checked, and the hash is looked up for every request that is not in the cache.
"""

import base64
import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from services.gateway.domain.principals import Principal, Role
from shared.errors import Invalid
from shared.ids import is_id

KEY_RANDOM_BYTES: Final = 32
SHOWN_CHARACTERS: Final = 11
NAME_CHARACTERS_MAX: Final = 128
ACCOUNTS_PER_KEY_MAX: Final = 1000
_KEY = re.compile(r"gk_[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(frozen=True)
class ApiKey:
    """What is known of a key. `shown` is its beginning, by which people tell keys apart."""

    key_id: str
    name: str
    shown: str
    principal: Principal
    created_at: datetime
    revoked_at: datetime | None


def secret_from(random_bytes: bytes) -> str:
    return "gk_" + base64.urlsafe_b64encode(random_bytes).rstrip(b"=").decode()


def looks_like_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def hash_of(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def shown_part(secret: str) -> str:
    return secret[:SHOWN_CHARACTERS]


def bind(key_id: str, role: Role, account_ids: frozenset[str], source_prefix: str | None) -> Principal:
    """A principal bound exactly to what its role needs. Raises Invalid with what is missing or too much."""
    needs_prefix = role is Role.AGENT
    if needs_prefix != (source_prefix is not None):
        raise Invalid("source_prefix is for keys of role agent, which need one", field="source_prefix")
    if source_prefix is not None and not is_id(source_prefix):
        raise Invalid(
            "source_prefix: at most 128 characters of A-Z a-z 0-9 . _ : / @ -", field="source_prefix"
        )
    accounts_min, accounts_max = _ACCOUNTS_BY_ROLE[role]
    if not accounts_min <= len(account_ids) <= accounts_max:
        raise Invalid(
            f"a key of role {role} is bound to {_counted(accounts_min, accounts_max)}", field="account_ids"
        )
    if not all(is_id(account_id) for account_id in account_ids):
        raise Invalid("account_ids: at most 128 characters of A-Z a-z 0-9 . _ : / @ -", field="account_ids")
    return Principal(key_id, role, account_ids, source_prefix)


_ACCOUNTS_BY_ROLE: Final = {
    Role.OPERATOR: (0, 0),
    Role.FINANCE: (0, 0),
    Role.PARTNER: (1, ACCOUNTS_PER_KEY_MAX),
    Role.CUSTOMER: (1, 1),
    Role.AGENT: (0, 0),
}


def _counted(least: int, most: int) -> str:
    if most == 0:
        return "no account"
    return "one account" if most == 1 else f"{least} to {most} accounts"
