"""What a resource was: (sku, quantity, mode, purchase, labels), and the one way to write it down."""

from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

STATES_CACHED_MAX: Final = 8192
"""A state with every label at its limit is 8 KiB, so a full cache stays under 100 MiB, usually under 4."""

Labels = tuple[tuple[str, str], ...]


class _Fields(msgspec.Struct, frozen=True, gc=False):
    labels: dict[str, str]
    mode: str
    purchase: str
    quantity: int
    sku: str


class UsageState(NamedTuple):
    """`canonical` is JSON with sorted keys and no spaces; `digest` names it in keys, as 32 hex digits.

    The digest is SHA-256 cut to 128 bits: two states of one resource, hour and `since` would need about
    2^64 tries to meet by intent, and no accident will do it, so equal digests are taken for equal states.
    It exists because the canonical JSON can be longer than an index entry may be.
    """

    canonical: str
    digest: str


@lru_cache(maxsize=STATES_CACHED_MAX)
def state_of(sku: str, quantity: int, mode: str, purchase: str, labels: Labels) -> UsageState:
    """The state; labels in any order give the same one."""
    canonical = _encode(_Fields(dict(labels), mode, purchase, quantity, sku))
    return UsageState(canonical.decode(), sha256(canonical).hexdigest()[:32])


_encode = msgspec.json.Encoder(order="sorted").encode
