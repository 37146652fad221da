"""The gateway as composed for production, called in the test's own process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import httpx

from services.gateway.api.parts import Parts
from services.gateway.app import compose
from services.gateway.domain.principals import Role
from services.gateway.settings import GatewaySettings
from services.gateway.usecases.create_api_key import NewKey, create_api_key
from shared.serving import Service
from shared.settings import KafkaSettings
from shared.time import system_clock
from tests.support.databases import DatabaseUrls, unique_suffix

NOBODY_LISTENS: Final = "http://127.0.0.1:9"


class MovableClock:
    """The real time, moved by as much as a test wants."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def __call__(self) -> datetime:
        return system_clock() + self.ahead


@dataclass
class Gateway:
    service: Service
    parts: Parts
    clock: MovableClock

    async def key(self, role: Role, accounts: frozenset[str] = frozenset(), prefix: str | None = None) -> str:
        parts = self.parts
        _, secret = await create_api_key(
            NewKey(f"test-{unique_suffix()}", role, accounts, prefix),
            database=parts.database,
            clock=parts.clock,
            new_id=parts.new_id,
            random_bytes=parts.random_bytes,
        )
        return secret

    def client(self, key: str | None) -> httpx.AsyncClient:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        transport = httpx.ASGITransport(app=self.service.api, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers)


@asynccontextmanager
async def running_gateway(
    urls: DatabaseUrls, kafka: KafkaSettings, **settings: Any
) -> AsyncIterator[Gateway]:
    """No sibling listens, so that whatever needs one shows how it refuses."""
    clock = MovableClock()
    siblings = dict.fromkeys(("metering_url", "pricing_url", "wallet_url"), NOBODY_LISTENS)
    chosen = {"database_url": urls.role_url, "key_cache_seconds": 0, "wallet_wait_seconds": 0, **siblings}
    service = await compose(GatewaySettings(**{**chosen, **settings}), kafka, clock)
    try:
        yield Gateway(service, service.api.state.parts, clock)
    finally:
        await service.close()


def opening(account_id: str | None = None, **fields: Any) -> dict[str, Any]:
    named = {} if account_id is None else {"account_id": account_id}
    return {**named, "name": "Xingyu Lab", "kind": "university", "trial": False, **fields}
