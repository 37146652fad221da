"""Names of things as distinct types, and where new ids come from."""

import os
import re
from collections.abc import Callable
from datetime import datetime
from typing import NewType
from uuid import UUID

AccountId = NewType("AccountId", str)
ResourceId = NewType("ResourceId", str)
Sku = NewType("Sku", str)

ID_CHARACTERS_MAX = 128
ID_PATTERN = r"^[A-Za-z0-9._:/@-]{1,128}\Z"
"""What an account, resource, event or source may be called (DESIGN 3)."""

_ID = re.compile(ID_PATTERN)

IdSource = Callable[[], UUID]
"""Gives a new unique id at each call; handed in by the composition root."""


def is_id(text: str) -> bool:
    return _ID.match(text) is not None


def uuid7_source(clock: Callable[[], datetime]) -> IdSource:
    """Time-ordered ids (RFC 9562, version 7), so that indexes on them grow at one end."""

    def new_id() -> UUID:
        unix_ms = int(clock().timestamp() * 1000)
        value = (unix_ms & 0xFFFFFFFFFFFF) << 80 | int.from_bytes(os.urandom(10), "big")
        value = value & ~(0xF << 76) | 0x7 << 76
        value = value & ~(0x3 << 62) | 0x2 << 62
        return UUID(int=value)

    return new_id
