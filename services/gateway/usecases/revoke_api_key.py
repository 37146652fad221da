"""End a key. It stays on record, and stays ended."""

from uuid import UUID

from services.gateway.storage import api_keys
from services.gateway.usecases.authenticate import KeyRing
from shared.database import Database
from shared.errors import NotFound
from shared.time import Clock


async def revoke_api_key(key_id: UUID, *, database: Database, clock: Clock, keys: KeyRing) -> None:
    """Raises NotFound. Revoking twice is revoking once."""
    async with database.transaction() as connection:
        if not await api_keys.revoke(connection, key_id, clock()):
            raise NotFound(f"there is no API key {str(key_id)!r}")
    keys.forget()
