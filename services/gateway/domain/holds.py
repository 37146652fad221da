"""What a hold reserves."""

from collections.abc import Sequence
from fractions import Fraction

from msgspec import Struct

from shared.money import PERIOD_SECONDS, Micro, amount_micro, parse_cny


class QuotedFactor(Struct, frozen=True):
    factor: str


class QuotedLine(Struct, frozen=True):
    """As pricing quotes it: all seconds at one price with the same factors."""

    seconds: int
    unit_price: str
    per: str
    factors: list[QuotedFactor]


def price_of_stretch(quantity: int, lines: Sequence[QuotedLine]) -> Micro:
    """The quoted prices over the time as one stretch, floored once per line.

    A bill floors each hour of the clock, so its total depends on where in the hour a start falls, by some
    micro-yuan; a hold of an hour at 1.66 is 1.66 at any second, and never less than the bill.
    """
    return Micro(
        sum(
            amount_micro(
                parse_cny(line.unit_price),
                quantity,
                line.seconds,
                [Fraction(factor.factor) for factor in line.factors],
                PERIOD_SECONDS[line.per],
            )
            for line in lines
        )
    )
