"""A quote is the bill of what it describes."""

from datetime import datetime

import pytest

from services.pricing.domain.quotes import NoPrice, QuoteItem, QuoteRefused, quote
from shared.errors import Invalid
from shared.time import parse_instant
from tests.support.books import book_body, pricer, repriced


def item(
    start: str,
    end: str,
    *,
    sku: str = "rtx-4090",
    quantity: int = 1,
    mode: str = "gpu",
    purchase: str = "on_demand",
) -> QuoteItem:
    return QuoteItem(sku, quantity, mode, purchase, {}, parse_instant(start), parse_instant(end))


def test_32_cards_for_42_hours_from_23_o_clock() -> None:
    start, end = "2026-03-10T23:00:00+08:00", "2026-03-12T17:00:00+08:00"
    auction = item(start, end, sku="rtx-4090-cluster", quantity=32, purchase="night_auction")
    quoted = quote(pricer(), [auction])
    assert quoted.total_micro == 2_006_400_000
    (lines,) = [it.lines for it in quoted.items]
    assert [(line.seconds, len(line.factors), line.amount_micro) for line in lines] == [
        (18 * 3_600, 1, 547_200_000),
        (24 * 3_600, 0, 1_459_200_000),
    ]


def test_each_hour_is_floored_as_it_will_be_billed() -> None:
    # One second before 23:00 and one after: 461 + 230, not floor(691.6) of them together.
    span = item("2026-03-10T22:59:59+08:00", "2026-03-10T23:00:01+08:00", purchase="night_auction")
    assert quote(pricer(), [span]).total_micro == 691
    # 1.660001 x 3,599 / 3,600 is cut in each of two hours.
    odd = repriced({"rtx-4090": "1.660001"})
    two = item("2026-03-10T10:00:01Z", "2026-03-10T11:59:59Z")
    assert quote(pricer(odd), [two]).total_micro == 2 * (1_660_001 * 3_599 // 3_600)


def test_a_change_of_book_inside_the_span_is_two_lines() -> None:
    later = repriced({"rtx-4090": "1.80"}, effective_from="2026-03-10T10:30:00Z")
    quoted = quote(pricer(book_body(), later), [item("2026-03-10T10:00:00Z", "2026-03-10T11:00:00Z")])
    assert quoted.total_micro == 1_730_000
    assert [line.unit_price_micro for line in quoted.items[0].lines] == [1_660_000, 1_800_000]
    assert quoted.price_book == 2


def test_fractions_of_a_second_are_counted_as_in_a_report() -> None:
    quoted = quote(pricer(), [item("2026-03-10T10:00:00.9Z", "2026-03-10T10:00:02.1Z")])
    assert quoted.items[0].seconds == 2
    assert quote(pricer(), [item("2026-03-10T10:00:00.1Z", "2026-03-10T10:00:00.9Z")]).total_micro == 0


def test_a_year_of_hours_is_the_sum_of_them() -> None:
    year = item("2026-02-01T00:00:00Z", "2027-02-01T00:00:00Z", purchase="night_auction")
    quoted = quote(pricer(), [year, year])
    hours = 365 * 24
    assert quoted.items[0].amount_micro == 1_660_000 * hours * 15 // 24 + 830_000 * hours * 9 // 24
    assert quoted.total_micro == 2 * quoted.items[0].amount_micro


@pytest.mark.parametrize(
    ("wrong", "kind", "field"),
    [
        (item("2026-03-10T10:00:00Z", "2026-03-10T10:00:00Z"), QuoteRefused, "items[1].end"),
        (item("2026-03-10T10:00:00Z", "2027-03-11T10:00:01Z"), QuoteRefused, "items[1].end"),
        (item("1999-12-31T23:00:00Z", "2000-01-01T00:00:00Z"), QuoteRefused, "items[1].start"),
        (item("2026-03-10T10:00:00Z", "2026-03-10T11:00:00Z", sku="rtx-6090"), NoPrice, "items[1].sku"),
        (item("2025-12-31T15:59:59Z", "2026-01-01T00:00:00Z"), NoPrice, "items[1].start"),
    ],
)
def test_an_item_that_cannot_be_quoted_is_named(wrong: QuoteItem, kind: type[Invalid], field: str) -> None:
    good = item("2026-03-10T10:00:00Z", "2026-03-10T11:00:00Z")
    with pytest.raises(kind) as refused:
        quote(pricer(), [good, wrong])
    assert refused.value.facts["field"] == field


def test_a_sku_that_a_coming_book_drops_cannot_be_quoted_past_it() -> None:
    skus = [sku for sku in book_body()["skus"] if sku["sku"] != "rtx-3090"]
    later = book_body(effective_from="2026-03-10T12:00:00Z", skus=skus)
    both = pricer(book_body(), later)
    quote(both, [item("2026-03-10T10:00:00Z", "2026-03-10T12:00:00Z", sku="rtx-3090")])
    with pytest.raises(NoPrice) as refused:
        quote(both, [item("2026-03-10T10:00:00Z", "2026-03-10T12:00:01Z", sku="rtx-3090")])
    assert refused.value.facts["field"] == "items[0].sku"


def test_a_span_may_be_366_days() -> None:
    start = datetime.fromisoformat("2026-03-10T10:00:00+00:00")
    long = item("2026-03-10T10:00:00Z", "2027-03-11T10:00:00Z")
    assert (long.end - start).days == 366
    assert quote(pricer(), [long]).items[0].seconds == 366 * 86_400
