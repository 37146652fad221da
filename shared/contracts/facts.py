"""Internal facts (DESIGN 3). Each is the whole truth about its key, with a revision that only grows.

Hours and instants are RFC 3339 text, amounts whole micro-yuan, ranges half-open seconds of the hour.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

_Second = Annotated[int, Meta(ge=0, le=3600)]
_Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]

Range = tuple[_Second, _Second]
"""[from, to) in seconds of the hour, 0 <= from < to <= 3600."""

Standing = Literal["good", "low", "exhausted"]
Period = Literal["hour", "day"]
AccountKind = Literal["personal", "university", "enterprise"]


class Segment(Struct, frozen=True, gc=False):
    """The seconds of a resource-hour that one state owns; no second is in two segments of a fact."""

    sku: str
    quantity: int
    mode: str
    purchase: str
    labels: dict[str, str]
    ranges: list[Range]


class UsageMetered(Struct, frozen=True, gc=False):
    """usage.metered.v1: which seconds of a resource-hour were used, and how."""

    account_id: str
    resource_id: str
    hour: str
    revision: int
    segments: list[Segment]


class Factor(Struct, frozen=True, gc=False):
    """One rule of the book that applied; `factor` is an exact decimal such as "0.50"."""

    rule: str
    factor: Annotated[str, Meta(pattern=r"^[0-9]{1,9}(\.[0-9]{1,18})?\Z")]


class ChargeLine(Struct, frozen=True, gc=False):
    """amount = floor(unit_price x quantity x seconds x factors / per) (R6); `unit_price` in micro-yuan."""

    sku: str
    quantity: _Natural
    mode: str
    purchase: str
    labels: dict[str, str]
    ranges: list[Range]
    seconds: _Natural
    unit_price: _Natural
    per: Period
    factors: list[Factor]
    amount: _Natural


class Unpriced(Struct, frozen=True, gc=False):
    sku: str
    seconds: int


class ChargeRated(Struct, frozen=True, gc=False):
    """charge.rated.v1: what a resource-hour costs under the newest price book, and why (R7).

    `covered_until` is the end of its last covered second; `rate_per_hour` the price in micro-yuan of an
    hour in that second's state, from which the wallet knows the burn rate.
    """

    account_id: str
    resource_id: str
    hour: str
    revision: int
    price_book: int
    amount: int
    lines: list[ChargeLine]
    unpriced: list[Unpriced]
    covered_until: str
    rate_per_hour: int


class AccountOpened(Struct, frozen=True):
    """account.opened.v1. `trial_amount` is the credit to grant once, micro-yuan, 0 for none (R16).

    The amount and its days are those of the price book in force at `registered_at`.
    """

    account_id: str
    name: str
    kind: AccountKind
    registered_at: str
    trial_amount: int
    trial_days: int


class AccountStanding(Struct, frozen=True):
    """account.standing.v1: told once per crossing; `epoch` grows with each (R18)."""

    account_id: str
    standing: Standing
    epoch: int
    available: int
    burn_rate_per_hour: int
    exhausts_at: str | None
    at: str


def fact_key(account_id: str, resource_id: str, hour: str) -> bytes:
    """Kafka key of the hourly facts: compaction keeps the newest of each resource-hour."""
    return f"{account_id}|{resource_id}|{hour}".encode()


encode_fact = msgspec.json.Encoder().encode
