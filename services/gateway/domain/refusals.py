"""Refusals that only a door has."""

from shared.errors import Conflict, Invalid, Refusal


class Unauthenticated(Refusal):
    """No key, or one that is not known or was revoked; which of these is not told."""

    code = "unauthenticated"


class Forbidden(Refusal):
    """The caller may know of the thing, but its role may not do this to it."""

    code = "forbidden"


class IdempotencyKeyReused(Conflict):
    """The same Idempotency-Key came with another request before."""

    code = "idempotency_key_reused"


class IdempotencyInProgress(Conflict):
    """The first request with this Idempotency-Key is still being answered."""

    code = "idempotency_in_progress"


class MalformedJson(Invalid):
    """The body as a whole is not JSON, so that no event in it can be named."""

    code = "malformed_json"


class BatchTooLarge(Refusal):
    """More events than one batch may have."""

    code = "batch_too_large"


class UnsupportedMediaType(Refusal):
    """The body is of a kind that this operation does not take; `accepted` names those it does."""

    code = "unsupported_media_type"
