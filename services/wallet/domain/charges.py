"""Rated facts as the wallet keeps them: checked at the door, their lines carried as they came."""

from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta, Raw, Struct

from shared.contracts.facts import ChargeLine, Unpriced
from shared.ids import ID_PATTERN
from shared.time import SECONDS_PER_HOUR, parse_epoch

_Id = Annotated[str, Meta(pattern=ID_PATTERN)]
_Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Charge(NamedTuple):
    """The whole price of a resource-hour; `lines` and `unpriced` are JSON, read only when needed.

    `hour` and `covered_until` in seconds since 1970.
    """

    account_id: str
    hour: int
    resource_id: str
    revision: int
    price_book: int
    amount: int
    rate_per_hour: int
    covered_until: int
    lines: str
    unpriced: str | None


class InvalidFact(ValueError):  # noqa: N818 - a refusal, named after what was refused
    """The record is no rated charge; the message says why."""


class _Fact(Struct, frozen=True, gc=False):
    account_id: _Id
    resource_id: _Id
    hour: str
    revision: _Natural
    price_book: _Natural
    amount: _Natural
    lines: Raw
    unpriced: Raw
    covered_until: str
    rate_per_hour: _Natural


_decode_fact = msgspec.json.Decoder(_Fact).decode
_decode_lines = msgspec.json.Decoder(list[ChargeLine]).decode
_decode_unpriced = msgspec.json.Decoder(list[Unpriced]).decode
_NOTHING = b"[]"
_HOUR_LATEST: Final = parse_epoch("9999-12-30T00:00:00Z")
"""Beyond it instants that settlement and the burn rate compute would leave the calendar."""


def decode_charge(value: bytes) -> Charge:
    """Raises InvalidFact unless settlement can later compute with it."""
    try:
        fact = _decode_fact(value)
        lines = bytes(fact.lines)
        unpriced = bytes(fact.unpriced)
        amount, misfit = 0, None
        for line in _decode_lines(lines):
            amount += line.amount
            if line.seconds != _seconds_of(line):
                misfit = line
        if unpriced != _NOTHING:
            _decode_unpriced(unpriced)
        hour = parse_epoch(fact.hour)
        covered_until = parse_epoch(fact.covered_until)
        text = lines.decode()
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidFact(str(error)) from None
    if misfit is not None:
        raise InvalidFact(f"ranges of {misfit.sku}: not in order, or not of {misfit.seconds} seconds")
    if hour % SECONDS_PER_HOUR or hour > _HOUR_LATEST:
        raise InvalidFact(f"hour {fact.hour} is not the start of an hour")
    if not hour <= covered_until <= hour + SECONDS_PER_HOUR:
        raise InvalidFact(f"covered_until {fact.covered_until} is not in its hour")
    if amount != fact.amount:
        raise InvalidFact(f"amount is {fact.amount}, its lines add up to {amount}")
    return Charge(
        fact.account_id,
        hour,
        fact.resource_id,
        fact.revision,
        fact.price_book,
        amount,
        fact.rate_per_hour,
        covered_until,
        text,
        None if unpriced == _NOTHING else unpriced.decode(),
    )


def _seconds_of(line: ChargeLine) -> int:
    """The seconds of its ranges; -1 unless each begins at or after the end of the one before."""
    seconds = last = 0
    for start, until in line.ranges:
        if not last <= start < until:
            return -1
        seconds += until - start
        last = until
    return seconds


def fold(charges: Iterable[Charge]) -> list[Charge]:
    """The newest of each resource-hour, in order of key: the greatest (revision, price_book) wins."""
    newest: dict[tuple[str, int, str], Charge] = {}
    for charge in charges:
        key = charge[:3]
        known = newest.get(key)
        if known is None or (charge.revision, charge.price_book) > (known.revision, known.price_book):
            newest[key] = charge
    return [newest[key] for key in sorted(newest)]
