"""Delete idempotency records that are past keeping, a bounded number at a time."""

import asyncio
import logging
from datetime import timedelta
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from services.gateway.storage import idempotency
from shared.database import Database
from shared.time import Clock

log = logging.getLogger(__name__)

RECORDS_MAX: Final = 1_000
PAUSE_SECONDS: Final = 60.0


async def forget_answers(*, database: Database, clock: Clock, keep_hours: int) -> int:
    """How many were deleted; RECORDS_MAX means that there may be more."""
    async with database.transaction() as connection:
        return await idempotency.forget(connection, clock() - timedelta(hours=keep_hours), RECORDS_MAX)


async def keep_forgetting(stop: asyncio.Event, *, database: Database, clock: Clock, keep_hours: int) -> None:
    while not stop.is_set():
        try:
            if await forget_answers(database=database, clock=clock, keep_hours=keep_hours) == RECORDS_MAX:
                continue
        except (SQLAlchemyError, OSError) as error:
            log.warning("old idempotency records wait: %s", type(error).__name__)
        try:
            await asyncio.wait_for(stop.wait(), PAUSE_SECONDS)
        except TimeoutError:
            continue
