"""Accounts: who is billed. The gateway owns their names; what they own is the wallet's."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID, uuid5

from shared.contracts.facts import AccountKind, Standing
from shared.errors import Conflict
from shared.ids import IdSource

NAME_CHARACTERS_MAX: Final = 200


@dataclass(frozen=True)
class Account:
    account_id: str
    name: str
    kind: AccountKind
    trial: bool
    registered_at: datetime
    created_at: datetime
    standing: Standing = "good"


@dataclass(frozen=True)
class Opening:
    """What an account is opened with. `registered_at` None is the moment it is opened."""

    name: str
    kind: AccountKind
    registered_at: datetime | None
    trial: bool


def account_id_for(key_id: str, idempotency_key: str | None, new_id: IdSource) -> str:
    """An id for an account that was given none. The same caller with the same Idempotency-Key gets the same
    id, so that a request that died half-way and is run again opens no second account.
    """
    if idempotency_key is None:
        return f"acct-{new_id()}"
    return f"acct-{uuid5(UUID(key_id), idempotency_key)}"


def require_same(existing: Account, opening: Opening) -> None:
    """An account is opened once: a repeat is the same account, other content under its id is a conflict.

    An omitted registered_at was chosen at the first call, so it agrees with whatever was chosen.
    """
    same = (
        existing.name == opening.name
        and existing.kind == opening.kind
        and existing.trial == opening.trial
        and opening.registered_at in (None, existing.registered_at)
    )
    if not same:
        raise Conflict(f"account {existing.account_id!r} was opened before with other content")
