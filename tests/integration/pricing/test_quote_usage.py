"""Quotes over REST."""

from typing import Any

import httpx
import pytest

from tests.support.books import repriced

ITEM = {
    "sku": "rtx-4090-cluster",
    "quantity": 32,
    "purchase": "night_auction",
    "start": "2026-03-10T23:00:00+08:00",
    "end": "2026-03-12T17:00:00+08:00",
}


async def test_a_quote_shows_its_lines_and_its_total(api: httpx.AsyncClient) -> None:
    answer = await api.post("/v1/quotes", json={"items": [ITEM]})
    assert answer.status_code == 200
    assert answer.json() == {
        "currency": "CNY",
        "price_book": 1,
        "items": [
            {
                **ITEM,
                "mode": "gpu",
                "labels": {},
                "start": "2026-03-10T15:00:00Z",
                "end": "2026-03-12T09:00:00Z",
                "seconds": 151_200,
                "lines": [
                    {
                        "seconds": 64_800,
                        "unit_price": "1.900000",
                        "per": "hour",
                        "factors": [{"rule": "night_auction", "factor": "0.50"}],
                        "amount": "547.200000",
                    },
                    {
                        "seconds": 86_400,
                        "unit_price": "1.900000",
                        "per": "hour",
                        "factors": [],
                        "amount": "1459.200000",
                    },
                ],
                "amount": "2006.400000",
            }
        ],
        "total": "2006.400000",
    }


async def test_a_quote_knows_a_book_as_soon_as_it_is_published(api: httpx.AsyncClient) -> None:
    item = {"sku": "rtx-4090", "quantity": 1, "start": "2026-03-11T12:00:00Z", "end": "2026-03-11T13:00:00Z"}
    assert (await api.post("/v1/quotes", json={"items": [item]})).json()["total"] == "1.660000"
    later = repriced({"rtx-4090": "1.80"}, effective_from="2026-03-11T12:30:00Z")
    await api.post("/v1/price-books", json=later)
    quote = (await api.post("/v1/quotes", json={"items": [item]})).json()
    assert (quote["total"], quote["price_book"]) == ("1.730000", 2)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sku": "rtx-6090"}, "items[1].sku"),
        ({"end": ITEM["start"]}, "items[1].end"),
        ({"end": "2027-03-12T23:00:00+08:00"}, "items[1].end"),
        ({"start": "2025-03-12T23:00:00+08:00", "end": "2026-01-02T00:00:00Z"}, "items[1].start"),
        ({"quantity": 0}, "items.1.quantity"),
        ({"quantity": 10**12}, "items.1.quantity"),
        ({"quantity": "8"}, "items.1.quantity"),
        ({"mode": "off"}, "items.1.mode"),
        ({"purchases": "on_demand"}, "items.1.purchases"),
        ({"start": "2026-03-10T23:00:00"}, "items.1.start"),
        ({"labels": {str(number): "x" for number in range(17)}}, "items.1.labels"),
    ],
    ids=str,
)
async def test_an_item_that_cannot_be_quoted_is_named(
    api: httpx.AsyncClient, change: dict[str, Any], field: str
) -> None:
    answer = await api.post("/v1/quotes", json={"items": [ITEM, {**ITEM, **change}]})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert field in answer.json()["detail"]


@pytest.mark.parametrize("count", [0, 101])
async def test_a_quote_has_one_to_a_hundred_items(api: httpx.AsyncClient, count: int) -> None:
    assert (await api.post("/v1/quotes", json={"items": [ITEM] * count})).status_code == 422
    assert (await api.post("/v1/quotes", json={"items": [ITEM] * 100})).status_code == 200
