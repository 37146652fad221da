"""Refusals that only a door has."""

from shared.errors import Refusal


class Unauthenticated(Refusal):
    """No key, or one that is not known or was revoked; which of these is not told."""

    code = "unauthenticated"


class Forbidden(Refusal):
    """The caller may know of the thing, but its role may not do this to it."""

    code = "forbidden"


class IdempotencyKeyReused(Refusal):
    """The same Idempotency-Key came with another request before."""

    code = "idempotency_key_reused"


class IdempotencyInProgress(Refusal):
    """The first request with this Idempotency-Key is still being answered."""

    code = "idempotency_in_progress"
