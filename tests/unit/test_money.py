from fractions import Fraction

import pytest

from shared.money import amount_micro, parse_cny


@pytest.mark.parametrize(
    ("text", "micro"),
    [
        ("0", 0),
        ("1.66", 1_660_000),
        ("0.000001", 1),
        ("12.345678", 12_345_678),
        ("007", 7_000_000),
        ("-0.5", -500_000),
        ("9999999999999.999999", 9_999_999_999_999_999_999),
    ],
)
def test_a_plain_decimal_is_read_exactly(text: str, micro: int) -> None:
    assert parse_cny(text) == micro


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1e3",
        "NaN",
        "Infinity",
        "0.0000001",
        "1.",
        ".5",
        "+1",
        "1,000",
        " 1",
        "1\n",
        "0x10",
        "\u0661",
        "--1",
        "1_000",
    ],
)
def test_anything_else_is_refused_with_words_for_the_caller(text: str) -> None:
    with pytest.raises(ValueError, match="decimal string"):
        parse_cny(text)


@pytest.mark.parametrize(
    ("price", "quantity", "seconds", "factors", "period", "amount"),
    [
        (1_660_000, 1, 1, [], 3_600, 461),
        (1_660_000, 1, 1, [Fraction("0.5")], 3_600, 230),
        (1_660_000, 1, 3_600, [Fraction("0.5"), Fraction("0.3")], 3_600, 249_000),
        (1_580_000, 1, 30 * 86_400, [], 3_600, 1_137_600_000),
        (1_900_000, 32, 42 * 3_600, [], 3_600, 2_553_600_000),
        (4_000, 100, 3_600, [], 86_400, 16_666),
        (1_660_000, 1, 0, [], 3_600, 0),
    ],
)
def test_an_amount_is_rounded_down_once(
    price: int, quantity: int, seconds: int, factors: list[Fraction], period: int, amount: int
) -> None:
    assert amount_micro(price, quantity, seconds, factors, period) == amount
