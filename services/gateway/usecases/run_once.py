"""Run a command once per Idempotency-Key, and give its first answer to every repeat."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from services.gateway.domain.answers import Answer
from services.gateway.domain.idempotency import Request, first_answer, is_kept
from services.gateway.domain.refusals import IdempotencyInProgress
from services.gateway.storage import idempotency
from shared.database import Database
from shared.ids import IdSource
from shared.time import Clock

log = logging.getLogger(__name__)

REPLAYED: Final[Mapping[str, str]] = {"idempotency-replayed": "true"}


async def run_once(
    request: Request,
    command: Callable[[], Awaitable[Answer]],
    *,
    database: Database,
    clock: Clock,
    new_id: IdSource,
    lease_seconds: int,
    keep_hours: int,
) -> Answer:
    """Of those who come at once one runs the command, the others hear that it runs.

    The lease outlives a crash: the command is then run again, which every command further in survives.
    Raises IdempotencyKeyReused, IdempotencyInProgress, and what the command raises; that is not kept.
    """
    attempt, now = new_id(), clock()
    async with database.transaction() as connection:
        lease_until = now + timedelta(seconds=lease_seconds)
        await idempotency.claim(connection, request, attempt, now, lease_until)
        record = await idempotency.lock(connection, request)
        if record is None:
            raise IdempotencyInProgress(
                "the first request with this Idempotency-Key just ended", retry_after=1
            )
        if record.attempt != attempt:
            answered = first_answer(record, request.request_hash, now, now - timedelta(hours=keep_hours))
            if answered is not None:
                return replace(answered, headers={**answered.headers, **REPLAYED})
            await idempotency.take_over(connection, request, attempt, now, lease_until)
    try:
        answered = await command()
    except BaseException:
        await asyncio.shield(_end(database, request, attempt, None))
        raise
    await asyncio.shield(_end(database, request, attempt, answered if is_kept(answered) else None))
    return answered


async def _end(database: Database, request: Request, attempt: UUID, answered: Answer | None) -> None:
    """Keep the answer, or make way for another try. The command has been run either way, so a database
    that is lost just now must not turn its answer into an error: the lease runs out by itself.
    """
    try:
        async with database.transaction() as connection:
            if answered is None:
                await idempotency.release(connection, request, attempt)
            else:
                await idempotency.answer(connection, request, attempt, answered)
    except (SQLAlchemyError, OSError) as error:
        log.warning("the answer to %s could not be kept: %s", request.command, type(error).__name__)
