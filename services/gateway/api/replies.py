"""From an Answer to the response that carries it, and writes that run once per Idempotency-Key."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from fastapi import Header, Request, Response

from services.gateway.api.parts import Parts
from services.gateway.domain.answers import Answer
from services.gateway.domain.idempotency import KEY_CHARACTERS_MAX, check_key, hash_request
from services.gateway.domain.idempotency import Request as IdempotentRequest
from services.gateway.domain.principals import Principal
from services.gateway.usecases.run_once import run_once

IdempotencyKey = Annotated[
    str | None,
    Header(
        description=(
            "Your own name for this write, unique per API key. The same key with the same request gives the "
            "first answer again (with `Idempotency-Replayed: true`), with another request 409; for 24 hours. "
            f"At most {KEY_CHARACTERS_MAX} printable ASCII characters."
        ),
        examples=["5f3c9a9e-0d5e-4c39-9c0e-6d3b8a6f1f11"],
    ),
]

COMMAND_CHARACTERS_MAX: Final = 300


def respond(answer: Answer) -> Response:
    return Response(answer.body, answer.status, answer.headers, answer.media_type if answer.body else None)


async def respond_once(
    request: Request,
    idempotency_key: str | None,
    command: Callable[[], Awaitable[Answer]],
    *,
    caller: Principal,
    parts: Parts,
) -> Response:
    """Without an Idempotency-Key every request is run: then the command's own reference must tell repeats."""
    if idempotency_key is None:
        return respond(await command())
    target = request.url.path
    if request.url.query:
        target += f"?{request.url.query}"
    idempotent = IdempotentRequest(
        key_id=caller.key_id,
        idempotency_key=check_key(idempotency_key),
        command=f"{request.method} {request.url.path}"[:COMMAND_CHARACTERS_MAX],
        request_hash=hash_request(request.method, target, await request.body()),
    )
    answer = await run_once(
        idempotent,
        command,
        database=parts.database,
        clock=parts.clock,
        new_id=parts.new_id,
        lease_seconds=parts.settings.idempotency_lease_seconds,
        keep_hours=parts.settings.idempotency_keep_hours,
    )
    return respond(answer)
