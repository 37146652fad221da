"""What a hold reserves does not depend on the second at which it is asked for."""

import pytest

from services.gateway.domain.holds import QuotedFactor, QuotedLine, price_of_stretch


@pytest.mark.parametrize(
    ("quantity", "lines", "expected"),
    [
        (1, [QuotedLine(3_600, "1.660000", "hour", [])], 1_660_000),
        (8, [QuotedLine(3_600, "1.660000", "hour", [QuotedFactor("0.50")])], 6_640_000),
        (1, [QuotedLine(3_600, "1.660000", "hour", [QuotedFactor("0.50"), QuotedFactor("0.30")])], 249_000),
        (100, [QuotedLine(86_400, "0.004000", "day", [])], 400_000),
        # Rules of RULES.md, by hand 1: one second on each side of 23:00.
        (
            1,
            [
                QuotedLine(1, "1.660000", "hour", []),
                QuotedLine(1, "1.660000", "hour", [QuotedFactor("0.50")]),
            ],
            691,
        ),
        (1, [], 0),
    ],
)
def test_a_hold_reserves_the_quoted_prices_floored_once_per_line(
    quantity: int, lines: list[QuotedLine], expected: int
) -> None:
    assert price_of_stretch(quantity, lines) == expected
