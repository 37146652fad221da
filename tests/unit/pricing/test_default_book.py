"""The default book is the table of RULES."""

import pytest

from services.pricing.domain.book import TrialCredit
from shared.money import parse_cny
from tests.support.books import DEFAULT_BOOK, book, metered, pricer, segment

NIGHT, NOON = "2026-03-10T16:00:00Z", "2026-03-10T04:00:00Z"
COMPUTE = {
    "rtx-3090": (1_580_000, 24),
    "rtx-4090": (1_660_000, 24),
    "rtx-4090-cluster": (1_900_000, 24),
    "a100-80g": (3_300_000, 80),
    "h100-80g": (9_900_000, 80),
    "ascend-910b": (1_195_200, 64),
    "mlu370-x8": (1_100_000, 48),
    "mtt-s4000": (1_100_000, 48),
    "hybrid-a100-910b": (3_300_000, 112),
    "app-llm-7b": (1_000_000, None),
}


@pytest.mark.parametrize(("sku", "price"), [(sku, price) for sku, (price, _) in COMPUTE.items()])
def test_an_hour_of_compute_costs_what_the_table_says(sku: str, price: int) -> None:
    rate = pricer().rate
    assert rate(metered(NOON, segment(sku=sku))).amount == price
    assert rate(metered(NOON, segment(sku=sku, purchase="night_auction"))).amount == price
    assert rate(metered(NIGHT, segment(sku=sku, purchase="night_auction"))).amount == price // 2
    assert rate(metered(NIGHT, segment(sku=sku))).amount == price
    assert rate(metered(NOON, segment(sku=sku, mode="no_gpu"))).amount == price * 3 // 10


@pytest.mark.parametrize(
    ("sku", "gigabytes", "amount"), [("disk-ssd", 100, 50_000), ("object-standard", 24, 4_000)]
)
def test_storage_knows_neither_night_nor_mode(sku: str, gigabytes: int, amount: int) -> None:
    stored = segment(sku=sku, quantity=gigabytes, mode="no_gpu", purchase="night_auction")
    charge = pricer().rate(metered(NIGHT, stored))
    assert charge.amount == amount
    assert charge.lines[0].factors == []


def test_memory_trial_and_zone_are_those_of_the_table() -> None:
    memory = {sku["sku"]: sku.get("memory_gib") for sku in DEFAULT_BOOK["skus"]}
    assert memory == {sku: gib for sku, (_, gib) in COMPUTE.items()} | {
        "disk-ssd": None,
        "object-standard": None,
    }
    built = book(DEFAULT_BOOK)
    assert built.trial_credit == TrialCredit(parse_cny("10.00"), 30)
    assert built.zone.key == "Asia/Shanghai"
    assert [rule.factor.rule for rule in built.rules] == ["night_auction", "no_gpu"]
