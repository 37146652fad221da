"""What each role may do, as one table, and what a caller hears who may not."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from services.gateway.domain.principals import Principal, Role
from services.gateway.domain.refusals import Forbidden
from shared.errors import NotFound


class Operation(StrEnum):
    POST_EVENTS = "post events"
    OPEN_ACCOUNT = "open an account"
    LIST_ACCOUNTS = "list accounts"
    READ_ACCOUNT = "read an account"
    READ_BALANCE = "read a balance"
    READ_JOURNAL = "read a journal"
    READ_USAGE = "read usage"
    READ_CHARGES = "read charges"
    TOP_UP = "top up an account"
    GRANT_CREDIT = "grant credit"
    READ_PRICES = "read price books"
    PUBLISH_PRICES = "publish a price book"
    QUOTE = "ask for a quote"
    PLACE_HOLD = "place a hold"
    RELEASE_HOLD = "release a hold"
    READ_EXCEPTIONS = "read unpriced usage and unknown accounts"
    MANAGE_KEYS = "manage API keys"


ON_ONE_ACCOUNT: Final = frozenset(
    {
        Operation.READ_ACCOUNT,
        Operation.READ_BALANCE,
        Operation.READ_JOURNAL,
        Operation.READ_USAGE,
        Operation.READ_CHARGES,
        Operation.TOP_UP,
        Operation.GRANT_CREDIT,
        Operation.PLACE_HOLD,
        Operation.RELEASE_HOLD,
    }
)
"""Operations that name an account, whose existence is a secret from callers that are not bound to it."""

_READS_OF_ONE_ACCOUNT = frozenset(
    {
        Operation.READ_ACCOUNT,
        Operation.READ_BALANCE,
        Operation.READ_JOURNAL,
        Operation.READ_USAGE,
        Operation.READ_CHARGES,
    }
)

PERMITTED: Final[Mapping[Role, frozenset[Operation]]] = {
    Role.OPERATOR: frozenset(Operation),
    Role.FINANCE: _READS_OF_ONE_ACCOUNT
    | {Operation.LIST_ACCOUNTS, Operation.READ_PRICES, Operation.QUOTE, Operation.READ_EXCEPTIONS},
    Role.PARTNER: _READS_OF_ONE_ACCOUNT
    | {
        Operation.LIST_ACCOUNTS,
        Operation.READ_PRICES,
        Operation.QUOTE,
        Operation.PLACE_HOLD,
        Operation.RELEASE_HOLD,
    },
    Role.CUSTOMER: _READS_OF_ONE_ACCOUNT | {Operation.READ_PRICES, Operation.QUOTE},
    Role.AGENT: frozenset({Operation.POST_EVENTS}),
}

SEES_EVERY_ACCOUNT: Final = frozenset({Role.OPERATOR, Role.FINANCE})
"""Roles that are bound to no account; all others see those their key names, an agent none."""


def sees_account(principal: Principal, account_id: str) -> bool:
    return principal.role in SEES_EVERY_ACCOUNT or account_id in principal.account_ids


def require(principal: Principal, operation: Operation) -> None:
    """Raises Forbidden if the role never may do it. That an operation exists is no secret."""
    if operation not in PERMITTED[principal.role]:
        raise Forbidden(f"a key of role {principal.role} may not {operation}")


def require_on(principal: Principal, operation: Operation, account_id: str) -> None:
    """Raises NotFound for an account the caller may not see, before anything is said about permissions;
    Forbidden only for what may be seen but not done.
    """
    if not sees_account(principal, account_id):
        raise account_not_found(account_id)
    require(principal, operation)


def account_not_found(account_id: str) -> NotFound:
    """One answer for "does not exist" and "is not yours", so that the two cannot be told apart."""
    return NotFound(f"there is no account {account_id!r}")
