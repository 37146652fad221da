"""What the composition root hands to the routes, and what each request finds out about itself.

All dependencies are coroutines: FastAPI runs plain functions in a thread, which costs more than they do.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Final, cast

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from services.gateway.clients.metering import MeteringClient
from services.gateway.clients.pricing import PricingClient
from services.gateway.clients.wallet import WalletClient
from services.gateway.domain.accounts import Account
from services.gateway.domain.permissions import Operation, require
from services.gateway.domain.principals import Principal
from services.gateway.settings import GatewaySettings
from services.gateway.usecases.authenticate import KeyRing
from services.gateway.usecases.create_api_key import RandomBytes
from services.gateway.usecases.find_account import find_account
from services.gateway.usecases.publish_reports import ReportPublisher
from shared.database import Database
from shared.ids import IdSource
from shared.time import Clock


@dataclass(frozen=True)
class Parts:
    settings: GatewaySettings
    database: Database
    keys: KeyRing
    reports: ReportPublisher
    metering: MeteringClient
    pricing: PricingClient
    wallet: WalletClient
    clock: Clock
    new_id: IdSource
    random_bytes: RandomBytes


def parts_in(request: Request) -> Parts:
    return cast("Parts", request.app.state.parts)


def caller_in(request: Request) -> Principal:
    """Put there by the door (api/door.py), which lets nobody in without a key."""
    return cast("Principal", request.scope["principal"])


async def parts_of(request: Request) -> Parts:
    return parts_in(request)


KEY_SCHEME: Final = "API key"

# Only describes the key in the OpenAPI document; the door is what asks for it.
_described = HTTPBearer(
    scheme_name=KEY_SCHEME, description="`gk_...`, as made by `POST /v1/api-keys`.", auto_error=False
)


async def caller_of(
    request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Security(_described)]
) -> Principal:
    return caller_in(request)


TheParts = Annotated[Parts, Depends(parts_of)]
Caller = Annotated[Principal, Depends(caller_of)]


def may(operation: Operation) -> Callable[[Principal], Awaitable[Principal]]:
    """A dependency for operations that name no account."""

    async def require_operation(caller: Caller) -> Principal:
        require(caller, operation)
        return caller

    return require_operation


def account_for(operation: Operation) -> Callable[[str, Principal, Parts], Awaitable[Account]]:
    """A dependency that finds the account named in the path, before the rest of the request is judged."""

    async def find_account_for(account_id: str, caller: Caller, parts: TheParts) -> Account:
        return await find_account(account_id, caller, operation, database=parts.database)

    return find_account_for
