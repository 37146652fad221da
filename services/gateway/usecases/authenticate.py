"""Who sent this? A key is looked up by its hash, and believed for a few seconds."""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from services.gateway.domain.api_keys import hash_of, looks_like_key
from services.gateway.domain.principals import Principal
from services.gateway.domain.refusals import Unauthenticated
from services.gateway.storage import api_keys
from shared.database import Database

REMEMBERED_MAX: Final = 10_000


class _Remembered(NamedTuple):
    """The look-up of a hash, shared by all who ask while it runs and until it is too old."""

    until: float
    lookup: asyncio.Task[Principal | None]


class KeyRing:
    """Without it every ingest request would ask the database; with it one per key and few seconds does.

    Unknown keys are remembered as well: an agent that keeps sending a revoked key costs nothing.
    """

    def __init__(self, database: Database, keep_seconds: float, monotonic: Callable[[], float]) -> None:
        self._database = database
        self._keep_seconds = keep_seconds
        self._monotonic = monotonic
        self._remembered: dict[bytes, _Remembered] = {}

    async def authenticate(self, authorization: str | None) -> Principal:
        """The caller behind an Authorization header. Raises Unauthenticated."""
        scheme, _, secret = (authorization or "").partition(" ")
        secret = secret.strip()
        if scheme.lower() != "bearer" or not looks_like_key(secret):
            raise Unauthenticated("send an API key: Authorization: Bearer gk_...")
        principal = await self._look_up(hash_of(secret))
        if principal is None:
            raise Unauthenticated("this API key is not known, or it was revoked")
        return principal

    def forget(self) -> None:
        """After a revocation in this process, which then takes effect at once."""
        self._remembered.clear()

    async def _look_up(self, key_hash: bytes) -> Principal | None:
        now = self._monotonic()
        remembered = self._remembered.get(key_hash)
        if remembered is None or remembered.until <= now or _has_failed(remembered.lookup):
            while len(self._remembered) >= REMEMBERED_MAX:
                del self._remembered[next(iter(self._remembered))]
            remembered = _Remembered(now + self._keep_seconds, asyncio.create_task(self._find(key_hash)))
            self._remembered.pop(key_hash, None)
            self._remembered[key_hash] = remembered
        return await asyncio.shield(remembered.lookup)

    async def _find(self, key_hash: bytes) -> Principal | None:
        async with self._database.reading() as connection:
            key = await api_keys.find_live(connection, key_hash)
        return None if key is None else key.principal


def _has_failed(lookup: asyncio.Task[Principal | None]) -> bool:
    return lookup.done() and (lookup.cancelled() or lookup.exception() is not None)
