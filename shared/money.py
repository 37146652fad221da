"""Money: whole micro-yuan inside, decimal strings of CNY outside. Never a float."""

import re
from collections.abc import Iterable
from fractions import Fraction
from math import prod
from typing import Final, NewType

Micro = NewType("Micro", int)
"""Whole micro-yuan: 1 CNY is 1,000,000."""

CURRENCY: Final = "CNY"
MICRO_PER_YUAN: Final = 1_000_000
AMOUNT_MICRO_MAX: Final = 10**15
"""One command moves at most 1,000,000,000 CNY; sums of many stay far inside a BIGINT."""

_DECIMAL = re.compile(r"(-?)(\d{1,13})(?:\.(\d{1,6}))?", re.ASCII)


def parse_cny(text: str) -> Micro:
    """Micro-yuan of a plain decimal such as "12.5"; at most six places, no exponent, no sign but `-`.

    Raises ValueError with what is wrong in words meant for the caller.
    """
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise ValueError('an amount is a decimal string with at most six places, such as "12.50"')
    sign, whole, fraction = match.groups()
    micro = int(whole) * MICRO_PER_YUAN + int((fraction or "").ljust(6, "0"))
    return Micro(-micro if sign else micro)


def format_cny(micro: int) -> str:
    """A decimal string with six places: -1230000 is "-1.230000"."""
    whole, fraction = divmod(abs(micro), MICRO_PER_YUAN)
    return f"{'-' if micro < 0 else ''}{whole}.{fraction:06d}"


def amount_micro(
    unit_price_micro: int, quantity: int, seconds: int, factors: Iterable[Fraction], period_seconds: int
) -> Micro:
    """floor(price x quantity x seconds x factors / period), rounded once (R6).

    `unit_price_micro` is for one unit over `period_seconds`; `factors` are exact.
    """
    factor = prod(factors, start=Fraction(1))
    return Micro(
        unit_price_micro * quantity * seconds * factor.numerator // (period_seconds * factor.denominator)
    )


PERIOD_SECONDS: Final = {"hour": 3600, "day": 86400}
"""Length of the period a price is quoted for, by its name on the wire."""
