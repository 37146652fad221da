"""Idempotency keys: a write that is sent again gets the first answer instead of a second effect."""

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from services.gateway.domain.answers import Answer
from services.gateway.domain.refusals import IdempotencyInProgress, IdempotencyKeyReused
from shared.errors import Invalid

KEY_CHARACTERS_MAX: Final = 255
RETRY_AFTER_SECONDS: Final = 1
_KEY = re.compile(r"[\x21-\x7e]{1,255}", re.ASCII)
_UNKEPT_STATUSES: Final = frozenset({408, 425, 429})
_SERVER_ERRORS_FROM: Final = 500


@dataclass(frozen=True)
class Request:
    """One write. Its hash covers method, path and what the body means, not how it is spaced."""

    key_id: str
    idempotency_key: str
    command: str
    request_hash: bytes


@dataclass(frozen=True)
class Record:
    """What is stored under (key_id, idempotency_key). `answer` is None while `attempt` is at work."""

    request_hash: bytes
    attempt: UUID
    created_at: datetime
    lease_until: datetime
    answer: Answer | None


def check_key(text: str) -> str:
    if _KEY.fullmatch(text) is None:
        raise Invalid(
            f"Idempotency-Key: 1 to {KEY_CHARACTERS_MAX} printable ASCII characters without spaces",
            field="Idempotency-Key",
        )
    return text


def hash_request(method: str, target: str, body: bytes) -> bytes:
    try:
        meaning = msgspec.json.encode(msgspec.json.decode(body), order="sorted")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        meaning = body
    return hashlib.sha256(b"\n".join((method.encode(), target.encode(), meaning))).digest()


def first_answer(
    record: Record, request_hash: bytes, now: datetime, forget_before: datetime
) -> Answer | None:
    """The answer to replay, or None if the caller may run the command: the record is past keeping, or the
    attempt behind it died. Raises IdempotencyKeyReused or IdempotencyInProgress.
    """
    if record.created_at < forget_before:
        return None
    if record.request_hash != request_hash:
        raise IdempotencyKeyReused("this Idempotency-Key was used before with another request")
    if record.answer is None and record.lease_until > now:
        raise IdempotencyInProgress(
            "the first request with this Idempotency-Key is still running", retry_after=RETRY_AFTER_SECONDS
        )
    return record.answer


def is_kept(answer: Answer) -> bool:
    """Answers that another try could change are not kept, so that the try is made."""
    return answer.status < _SERVER_ERRORS_FROM and answer.status not in _UNKEPT_STATUSES
