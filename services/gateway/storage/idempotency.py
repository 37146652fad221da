"""Idempotency records: claimed before a command runs, answered after."""

import json
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.gateway.domain.answers import Answer
from services.gateway.domain.idempotency import Record, Request

_CLAIM = text(
    """
    INSERT INTO idempotency (key_id, idempotency_key, command, request_hash, attempt, created_at, lease_until)
    VALUES (:key_id, :idempotency_key, :command, :request_hash, :attempt, :now, :lease_until)
    ON CONFLICT (key_id, idempotency_key) DO NOTHING
    """
)
_LOCK = text(
    """
    SELECT request_hash, attempt, created_at, lease_until, status, body, media_type, headers
    FROM idempotency WHERE key_id = :key_id AND idempotency_key = :idempotency_key
    FOR NO KEY UPDATE
    """
)
_TAKE_OVER = text(
    """
    UPDATE idempotency
    SET command = :command, request_hash = :request_hash, attempt = :attempt, created_at = :now,
        lease_until = :lease_until, status = NULL, body = NULL, media_type = NULL, headers = NULL
    WHERE key_id = :key_id AND idempotency_key = :idempotency_key
    """
)
_ANSWER = text(
    """
    UPDATE idempotency
    SET status = :status, body = :body, media_type = :media_type, headers = CAST(:headers AS jsonb)
    WHERE key_id = :key_id AND idempotency_key = :idempotency_key AND attempt = :attempt
    """
)
_RELEASE = text(
    """
    DELETE FROM idempotency
    WHERE key_id = :key_id AND idempotency_key = :idempotency_key AND attempt = :attempt AND status IS NULL
    """
)
_FORGET = text(
    """
    DELETE FROM idempotency WHERE (key_id, idempotency_key) IN (
        SELECT key_id, idempotency_key FROM idempotency WHERE created_at < :before
        ORDER BY created_at LIMIT :records_max FOR UPDATE SKIP LOCKED)
    """
)


async def claim(
    connection: AsyncConnection, request: Request, attempt: UUID, now: datetime, lease_until: datetime
) -> None:
    """Write the record unless there is one; then lock whichever is there with `lock`."""
    await connection.execute(_CLAIM, _claim(request, attempt, now, lease_until))


async def lock(connection: AsyncConnection, request: Request) -> Record | None:
    row = (await connection.execute(_LOCK, _place(request))).one_or_none()
    return None if row is None else _record(row)


async def take_over(
    connection: AsyncConnection, request: Request, attempt: UUID, now: datetime, lease_until: datetime
) -> None:
    await connection.execute(_TAKE_OVER, _claim(request, attempt, now, lease_until))


async def answer(connection: AsyncConnection, request: Request, attempt: UUID, answered: Answer) -> None:
    """Changes nothing if another attempt has taken over since."""
    await connection.execute(
        _ANSWER,
        {
            **_place(request),
            "attempt": attempt,
            "status": answered.status,
            "body": answered.body if answered.kept_body is None else answered.kept_body,
            "media_type": answered.media_type,
            "headers": json.dumps(dict(answered.headers)),
        },
    )


async def release(connection: AsyncConnection, request: Request, attempt: UUID) -> None:
    await connection.execute(_RELEASE, {**_place(request), "attempt": attempt})


async def forget(connection: AsyncConnection, before: datetime, records_max: int) -> int:
    """How many records from before `before` were deleted, at most `records_max`."""
    return (await connection.execute(_FORGET, {"before": before, "records_max": records_max})).rowcount


def _place(request: Request) -> dict[str, Any]:
    return {"key_id": UUID(request.key_id), "idempotency_key": request.idempotency_key}


def _claim(request: Request, attempt: UUID, now: datetime, lease_until: datetime) -> dict[str, Any]:
    return {
        **_place(request),
        "command": request.command,
        "request_hash": request.request_hash,
        "attempt": attempt,
        "now": now,
        "lease_until": lease_until,
    }


def _record(row: Row[Any]) -> Record:
    answered = None
    if row.status is not None:
        answered = Answer(row.status, row.body, row.media_type, row.headers)
    return Record(row.request_hash, row.attempt, row.created_at, row.lease_until, answered)
