"""The keys that were made, oldest first, revoked ones among them; never a secret."""

from typing import Final
from uuid import UUID

from services.gateway.domain.api_keys import ApiKey
from services.gateway.storage import api_keys
from shared.database import Database

FIRST: Final = UUID(int=0)


async def list_api_keys(after: UUID, limit: int, *, database: Database) -> list[ApiKey]:
    async with database.reading() as connection:
        return await api_keys.page(connection, after, limit)
