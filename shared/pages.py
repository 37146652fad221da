"""Cursor pagination: `{"items": [...], "next_cursor": "..." | null}` with an opaque cursor."""

import base64
import binascii
from typing import Annotated, Final

import msgspec
from fastapi import Query

from shared.errors import Invalid

PAGE_ITEMS_DEFAULT: Final = 100
PAGE_ITEMS_MAX: Final = 500
CURSOR_CHARACTERS_MAX: Final = 2_000

PageLimit = Annotated[int, Query(ge=1, le=PAGE_ITEMS_MAX, description="How many items at most.")]
PageCursor = Annotated[
    str | None,
    Query(max_length=CURSOR_CHARACTERS_MAX, description="`next_cursor` of the page before; opaque."),
]


def encode_cursor(*position: str | int) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def decode_cursor(cursor: str, *types: type[str] | type[int]) -> tuple[str | int, ...]:
    """The position inside a cursor; raises Invalid unless it has exactly the given types."""
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        position: tuple[str | int, ...] = msgspec.json.decode(raw, type=tuple[types])  # type: ignore[valid-type]
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise Invalid("the cursor is not one that this list gave out", field="cursor") from None
    return position
