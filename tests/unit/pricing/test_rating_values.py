"""Values worked out by hand (RULES, "Right values"), and what a charge says about itself (R7)."""

import pytest

from services.pricing.domain.rating import FactRefused, Pricer
from shared.contracts.facts import Factor, Unpriced
from tests.support.books import book_body, metered, pricer, repriced, segment, sku_body

BEFORE_NIGHT, NIGHT = "2026-03-10T14:00:00Z", "2026-03-10T15:00:00Z"
LAST_OF_NIGHT, MORNING = "2026-03-09T23:00:00Z", "2026-03-10T00:00:00Z"


def test_one_second_each_side_of_the_night() -> None:
    rate = pricer().rate
    before = rate(metered(BEFORE_NIGHT, segment((3_599, 3_600), purchase="night_auction")))
    after = rate(metered(NIGHT, segment((0, 1), purchase="night_auction")))
    assert (before.amount, after.amount) == (461, 230)
    assert rate(metered(LAST_OF_NIGHT, segment((3_599, 3_600), purchase="night_auction"))).amount == 230
    assert rate(metered(MORNING, segment((0, 1), purchase="night_auction"))).amount == 461


def test_an_hour_without_gpu_at_night_by_auction_in_sixty_reports() -> None:
    minutes = [(start, start + 60) for start in range(0, 3_600, 60)]
    sliced = segment(*minutes, mode="no_gpu", purchase="night_auction")
    charge = pricer().rate(metered(NIGHT, sliced))
    assert charge.amount == 249_000
    (line,) = charge.lines
    assert line.ranges == [(0, 3_600)]
    assert line.factors == [Factor("night_auction", "0.50"), Factor("no_gpu", "0.30")]


def test_thirty_days_of_a_3090_second_by_second() -> None:
    seconds = [(second, second + 1) for second in range(3_600)]
    rate = pricer().rate
    hours = [f"2026-03-{day:02}T{hour:02}:00:00Z" for day in range(1, 31) for hour in range(24)]
    total = sum(rate(metered(hour, segment(*seconds, sku="rtx-3090"))).amount for hour in hours)
    assert total == 1_137_600_000


def test_a_new_price_at_half_past_ten_is_two_lines() -> None:
    later = repriced({"rtx-4090": "1.80"}, effective_from="2026-03-10T10:30:00Z")
    charge = pricer(book_body(), later).rate(metered("2026-03-10T10:00:00Z", segment()))
    assert charge.amount == 1_730_000
    assert charge.price_book == 2
    assert [(line.unit_price, line.ranges, line.amount) for line in charge.lines] == [
        (1_660_000, [(0, 1_800)], 830_000),
        (1_800_000, [(1_800, 3_600)], 900_000),
    ]
    assert charge.rate_per_hour == 1_800_000


def test_a_book_that_changes_another_price_leaves_one_line() -> None:
    later = repriced({"a100-80g": "3.00"}, effective_from="2026-03-10T10:30:00Z")
    charge = pricer(book_body(), later).rate(metered("2026-03-10T10:00:00Z", segment((0, 3_599))))
    (line,) = charge.lines
    assert (line.ranges, line.amount) == ([(0, 3_599)], 1_659_538)


def test_a_factor_written_otherwise_is_the_same_factor() -> None:
    rules = [{**book_body()["rules"][0], "factor": "0.5"}, book_body()["rules"][1]]
    later = book_body(effective_from="2026-03-10T15:30:00Z", rules=rules)
    charge = pricer(book_body(), later).rate(metered(NIGHT, segment(purchase="night_auction")))
    assert [line.ranges for line in charge.lines] == [[(0, 3_600)]]


def test_a_second_is_under_a_book_only_from_its_instant_on() -> None:
    later = repriced({"rtx-4090": "1.80"}, effective_from="2026-03-10T10:29:59.000001Z")
    charge = pricer(book_body(), later).rate(metered("2026-03-10T10:00:00Z", segment()))
    assert [line.ranges for line in charge.lines] == [[(0, 1_800)], [(1_800, 3_600)]]


def test_of_two_books_with_one_instant_the_later_published_is_in_force() -> None:
    first = repriced({"rtx-4090": "5.00"})
    second = repriced({"rtx-4090": "4.00"})
    assert pricer(first, second).rate(metered(NIGHT, segment())).amount == 4_000_000
    assert pricer(second, first).rate(metered(NIGHT, segment())).amount == 5_000_000


def test_a_correction_holds_until_the_next_book_begins() -> None:
    march = repriced({"rtx-4090": "2.00"}, effective_from="2026-03-01T00:00:00Z")
    correction = repriced({"rtx-4090": "1.00"}, effective_from="2026-02-01T00:00:00Z", correction=True)
    rate = pricer(book_body(), march, correction).rate
    amounts = [rate(metered(f"2026-{month}-10T00:00:00Z", segment())).amount for month in ("01", "02", "03")]
    assert amounts == [1_660_000, 1_000_000, 2_000_000]


def test_a_price_that_follows_another_is_told_in_whole_micro_yuan() -> None:
    (line,) = pricer().rate(metered(NIGHT, segment(sku="ascend-910b"))).lines
    assert (line.unit_price, line.factors) == (1_195_200, [])


def test_a_price_that_follows_another_by_less_than_a_micro_yuan_keeps_the_base_and_names_the_ratio() -> None:
    body = repriced({"rtx-4090": "1.660001"})
    charge = pricer(body).rate(metered(NIGHT, segment(sku="ascend-910b", quantity=100)))
    (line,) = charge.lines
    assert (line.unit_price, line.factors) == (1_660_001, [Factor("price_of", "0.72")])
    assert charge.amount == 119_520_072


def test_a_price_may_follow_one_that_follows_another() -> None:
    body = book_body(
        skus=[
            sku_body("a", price=None, price_of={"sku": "b", "ratio": "0.5"}),
            sku_body("b", price=None, price_of={"sku": "c", "ratio": "0.9"}),
            sku_body("c", price="2.00"),
        ],
        rules=[],
    )
    assert pricer(body).rate(metered(NIGHT, segment(sku="a"))).amount == 900_000


def test_usage_of_an_unknown_sku_is_unpriced_beside_what_has_a_price() -> None:
    charge = pricer().rate(
        metered(NIGHT, segment((0, 600)), segment((600, 700), (900, 1_000), sku="rtx-6090"))
    )
    assert charge.amount == 276_666
    assert charge.unpriced == [Unpriced("rtx-6090", 200)]
    assert charge.covered_until == "2026-03-10T15:16:40Z"
    assert charge.rate_per_hour == 0


def test_seconds_before_the_first_book_are_unpriced() -> None:
    body = book_body(effective_from="2026-03-10T15:10:00Z")
    charge = pricer(body).rate(metered(NIGHT, segment((0, 1_200))))
    assert charge.unpriced == [Unpriced("rtx-4090", 600)]
    assert [line.ranges for line in charge.lines] == [[(600, 1_200)]]
    assert charge.rate_per_hour == 1_660_000
    assert Pricer({}).rate(metered(NIGHT, segment())).unpriced == [Unpriced("rtx-4090", 3_600)]


def test_the_burn_rate_is_that_of_the_last_covered_second() -> None:
    charge = pricer().rate(
        metered(NIGHT, segment((1_800, 2_000), quantity=8), segment((0, 1_800), mode="no_gpu"))
    )
    assert charge.rate_per_hour == 13_280_000
    assert charge.covered_until == "2026-03-10T15:33:20Z"
    assert [line.ranges for line in charge.lines] == [[(0, 1_800)], [(1_800, 2_000)]]


def test_an_hour_without_seconds_costs_nothing() -> None:
    charge = pricer().rate(metered(NIGHT))
    assert (charge.amount, charge.lines, charge.unpriced) == (0, [], [])
    assert charge.covered_until == NIGHT


def test_labels_and_weekdays_decide_where_a_rule_names_them() -> None:
    rules = [
        {"rule": "clip", "factor": "0.90", "when": {"labels": {"project": "clip"}}},
        {"rule": "weekend", "factor": "0.80", "when": {"weekdays": ["sat", "sun"], "skus": ["rtx-4090"]}},
    ]
    rate = pricer(book_body(rules=rules)).rate
    # 2026-03-14 is a Saturday: in Shanghai it begins at 16:00 UTC on Friday.
    friday, saturday = "2026-03-13T15:00:00Z", "2026-03-13T16:00:00Z"
    clip = segment(labels={"project": "clip", "job": "1"})
    assert rate(metered(friday, segment())).amount == 1_660_000
    assert rate(metered(friday, clip)).amount == 1_494_000
    assert rate(metered(saturday, segment())).amount == 1_328_000
    assert rate(metered(saturday, clip)).amount == 1_195_200
    assert rate(metered(saturday, segment(sku="rtx-3090"))).amount == 1_580_000
    assert rate(metered("2026-03-15T16:00:00Z", segment())).amount == 1_660_000


@pytest.mark.parametrize(
    "fact",
    [
        metered("2026-03-10T15:00:01Z", segment()),
        metered("2026-03-10T23:00:00+08:00", segment()),
        metered("yesterday", segment()),
        metered(NIGHT, segment((0, 3_601))),
        metered(NIGHT, segment((-1, 10))),
        metered(NIGHT, segment((10, 10))),
        metered(NIGHT, segment((20, 10), (0, 5))),
        metered(NIGHT, segment(quantity=0)),
        metered(NIGHT, segment((0, 10)), segment((9, 20), quantity=2)),
    ],
    ids=[
        "not an hour",
        "offset",
        "no time",
        "too long",
        "negative",
        "empty",
        "backwards",
        "no card",
        "twice",
    ],
)
def test_a_fact_that_contradicts_its_contract_is_refused(fact: object) -> None:
    with pytest.raises(FactRefused):
        pricer().rate(fact)  # type: ignore[arg-type]
