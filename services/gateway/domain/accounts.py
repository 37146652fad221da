"""Accounts: who is billed. The gateway owns their names; what they own is the wallet's."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from shared.contracts.facts import AccountKind, Standing
from shared.errors import Conflict

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
    """A wish to open an account; what is None is chosen here."""

    account_id: str | None
    name: str
    kind: AccountKind
    registered_at: datetime | None
    trial: bool


def generated_account_id(new_id: UUID) -> str:
    return f"acct-{new_id}"


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
