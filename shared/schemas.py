"""Field types of the REST edges: money, instants and ids as they are on the wire (DESIGN 3)."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from shared.ids import ID_PATTERN
from shared.money import AMOUNT_MICRO_MAX, format_cny, parse_cny
from shared.time import format_instant, parse_instant


def _micro(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, str):
        raise ValueError('an amount is a decimal string such as "12.50", never a number')  # noqa: TRY004
    return parse_cny(value)


def _positive(value: Any) -> int:
    micro = _micro(value)
    if not 0 < micro <= AMOUNT_MICRO_MAX:
        raise ValueError(f"the amount must be more than 0 and at most {format_cny(AMOUNT_MICRO_MAX)}")
    return micro


def _natural(value: Any) -> int:
    micro = _micro(value)
    if not 0 <= micro <= AMOUNT_MICRO_MAX:
        raise ValueError(f"the amount must be at least 0 and at most {format_cny(AMOUNT_MICRO_MAX)}")
    return micro


def _instant(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        raise ValueError("a time is an RFC 3339 string such as 2026-03-10T15:00:00Z")  # noqa: TRY004
    return parse_instant(value)


_CNY_SCHEMA = {"type": "string", "pattern": r"^-?\d+\.\d{6}$", "examples": ["12.345678"]}
_CNY_IN_SCHEMA = {"type": "string", "pattern": r"^\d{1,13}(\.\d{1,6})?$", "examples": ["12.50"]}
_INSTANT_SCHEMA = {"type": "string", "format": "date-time", "examples": ["2026-03-10T15:00:00Z"]}

CnyOut = Annotated[
    int,
    PlainSerializer(format_cny, return_type=str),
    WithJsonSchema(_CNY_SCHEMA, mode="serialization"),
    WithJsonSchema(_CNY_SCHEMA, mode="validation"),
]
"""Micro-yuan inside, "12.345678" on the wire."""

CnyPositive = Annotated[
    int,
    BeforeValidator(_positive),
    PlainSerializer(format_cny, return_type=str),
    WithJsonSchema(_CNY_IN_SCHEMA, mode="validation"),
]
"""An amount in a command: a decimal string, more than zero, at most six places."""

CnyNatural = Annotated[
    int,
    BeforeValidator(_natural),
    PlainSerializer(format_cny, return_type=str),
    WithJsonSchema(_CNY_IN_SCHEMA, mode="validation"),
]
"""A price in a command, which may be nothing: what costs less than a micro-yuan is free."""

Instant = Annotated[
    datetime,
    BeforeValidator(_instant),
    PlainSerializer(format_instant, return_type=str),
    WithJsonSchema(_INSTANT_SCHEMA, mode="validation"),
    WithJsonSchema(_INSTANT_SCHEMA, mode="serialization"),
]
"""RFC 3339: any offset in, UTC with Z out."""

IdField = Annotated[str, Field(pattern=ID_PATTERN.replace(r"\Z", "$"), examples=["acct-7"])]
"""An account, resource or event id."""

ReferenceField = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,128}$", examples=["order-2026-000123"])]
"""The caller's own name for a command; the same reference never books twice (R19)."""

NameField = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,200}$", examples=["Xingyu Lab"])]
