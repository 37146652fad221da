"""The REST of the wallet: bodies, status codes, pages and problems as the gateway passes them on."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx
import pytest

from services.wallet.api.routes import build_api
from services.wallet.domain.openings import Opening
from services.wallet.usecases.context import Context
from services.wallet.usecases.open_accounts import open_accounts
from tests.support.wallet import (
    NOON,
    NOON_EPOCH,
    MovingClock,
    charge,
    charge_account,
    line,
    settle_all,
    with_factor,
)


@pytest.fixture
async def wallet(context: Context) -> AsyncIterator[httpx.AsyncClient]:
    await open_accounts(context, [Opening("a", "Lab", "personal", NOON, 10_000_000, 30)])
    transport = httpx.ASGITransport(build_api(context))
    async with httpx.AsyncClient(transport=transport, base_url="http://wallet") as client:
        yield client


async def test_balance(wallet: httpx.AsyncClient) -> None:
    await wallet.post("/v1/accounts/a/top-ups", json={"amount": "5", "channel": "alipay", "reference": "r"})
    body = (await wallet.get("/v1/accounts/a/balance")).json()
    lot_id = body["credits"][0].pop("lot_id")
    assert len(lot_id) == 36
    assert body == {
        "currency": "CNY",
        "account_id": "a",
        "available": "15.000000",
        "cash": "5.000000",
        "credits": [
            {
                "kind": "trial",
                "granted": "10.000000",
                "remaining": "10.000000",
                "priority": 10,
                "effective_at": "2026-03-10T12:00:00Z",
                "expires_at": "2026-04-09T12:00:00Z",
                "expired": False,
                "counts": True,
            }
        ],
        "accrued": "0.000000",
        "held": "0.000000",
        "debt": "0.000000",
        "standing": "good",
        "epoch": 0,
        "burn_rate_per_hour": "0.000000",
        "runway_seconds": None,
        "as_of": "2026-03-10T12:00:00Z",
    }


async def test_an_expired_lot_is_shown_until_it_is_swept(
    wallet: httpx.AsyncClient, clock: MovingClock
) -> None:
    clock.forward(days=30)
    body = (await wallet.get("/v1/accounts/a/balance")).json()
    assert body["available"] == "0.000000"
    assert (body["credits"][0]["expired"], body["credits"][0]["counts"]) == (True, False)


async def test_a_lot_that_begins_later_is_shown_but_does_not_count(wallet: httpx.AsyncClient) -> None:
    later = {"kind": "promo", "amount": "5", "reference": "r", "effective_at": "2026-03-11T00:00:00Z"}
    await wallet.post("/v1/accounts/a/grants", json=later)
    body = (await wallet.get("/v1/accounts/a/balance")).json()
    assert body["available"] == "10.000000"
    assert [(lot["kind"], lot["expired"], lot["counts"]) for lot in body["credits"]] == [
        ("trial", False, True),
        ("promo", False, False),
    ]


@pytest.mark.parametrize("path", ["", "/balance", "/journal", "/charges"])
async def test_an_account_without_a_wallet_is_not_found(wallet: httpx.AsyncClient, path: str) -> None:
    answer = await wallet.get(f"/v1/accounts/nobody{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_the_account(wallet: httpx.AsyncClient) -> None:
    assert (await wallet.get("/v1/accounts/a")).json() == {
        "account_id": "a",
        "name": "Lab",
        "kind": "personal",
        "registered_at": "2026-03-10T12:00:00Z",
        "opened": True,
        "created_at": "2026-03-10T12:00:00Z",
    }


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("top-ups", {"amount": "5", "channel": "alipay", "reference": "r"}),
        (
            "grants",
            {"kind": "promo", "amount": "5", "reference": "r", "expires_at": "2026-03-11T08:00:00+08:00"},
        ),
    ],
)
async def test_a_command_is_created_once_and_answered_the_same_again(
    wallet: httpx.AsyncClient, path: str, body: dict[str, str]
) -> None:
    first = await wallet.post(f"/v1/accounts/a/{path}", json=body)
    again = await wallet.post(f"/v1/accounts/a/{path}", json=body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    conflict = await wallet.post(f"/v1/accounts/a/{path}", json={**body, "amount": "6"})
    assert (conflict.status_code, conflict.json()["code"]) == (409, "conflict")


@pytest.mark.parametrize(
    "amount", ["0", "-5", "1e3", "NaN", "0.0000001", "1000000000.000001", 5, 0.5, None, ""]
)
async def test_an_amount_that_is_none_is_refused(wallet: httpx.AsyncClient, amount: Any) -> None:
    body = {"amount": amount, "channel": "alipay", "reference": "r"}
    answer = await wallet.post("/v1/accounts/a/top-ups", json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "trial"},
        {"kind": "cash"},
        {"priority": -1},
        {"effective_at": "2026-03-10T12:00:00"},
        {"effective_at": "2026-03-12T00:00:00Z", "expires_at": "2026-03-12T00:00:00Z"},
        {"reference": ""},
        {"unknown": 1},
    ],
)
async def test_a_grant_that_means_nothing_is_refused(
    wallet: httpx.AsyncClient, wrong: dict[str, Any]
) -> None:
    body = {"kind": "promo", "amount": "5", "reference": "r", **wrong}
    assert (await wallet.post("/v1/accounts/a/grants", json=body)).status_code == 422


async def test_holds(wallet: httpx.AsyncClient) -> None:
    body = {
        "account_id": "a",
        "sku": "rtx-4090",
        "quantity": 1,
        "seconds": 3600,
        "reference": "s",
        "amount": "1.66",
    }
    placed = await wallet.post("/v1/holds", json=body)
    assert placed.status_code == 201
    assert (placed.json()["amount"], placed.json()["state"]) == ("1.660000", "active")
    assert (await wallet.get("/v1/accounts/a/balance")).json()["held"] == "1.660000"
    assert (await wallet.post("/v1/holds", json=body)).json() == placed.json()
    refused = await wallet.post("/v1/holds", json={**body, "reference": "s2", "amount": "9"})
    assert (refused.status_code, refused.json()["code"]) == (402, "insufficient_funds")
    assert refused.json()["shortfall"] == "0.660000"
    path = f"/v1/holds/{placed.json()['hold_id']}"
    assert (await wallet.delete(path, params={"account_id": "b"})).status_code == 404
    for _ in range(2):
        assert (await wallet.delete(path, params={"account_id": "a"})).status_code == 204
    assert (await wallet.get("/v1/accounts/a/balance")).json()["held"] == "0.000000"
    again = await wallet.post("/v1/holds", json=body)
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert "was released" in again.json()["detail"]


async def test_a_hold_of_what_costs_nothing_is_granted(wallet: httpx.AsyncClient) -> None:
    """1 GB of disk for a second costs less than a micro-yuan."""
    body = {"account_id": "a", "sku": "disk", "quantity": 1, "seconds": 1, "reference": "s", "amount": "0"}
    placed = await wallet.post("/v1/holds", json=body)
    assert (placed.status_code, placed.json()["amount"]) == (201, "0.000000")
    refused = await wallet.post("/v1/holds", json={**body, "reference": "t", "amount": "-0.000001"})
    assert refused.status_code == 422


async def test_charges_explain_themselves_page_by_page(
    wallet: httpx.AsyncClient, context: Context, clock: MovingClock
) -> None:
    night = with_factor(line((0, 3600)), "night_auction", "0.50")
    await charge_account(
        context,
        *(
            charge("a", NOON_EPOCH + 3600 * hour, [night], resource_id=resource)
            for hour in range(3)
            for resource in ("i", "j")
        ),
    )
    clock.forward(hours=2)
    await settle_all(context)
    found: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await wallet.get("/v1/accounts/a/charges", params={"limit": 4, **cursor})).json()
        found += page["items"]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert [(item["hour"][11:13], item["resource_id"]) for item in found] == [
        (hour, resource) for hour in ("12", "13", "14") for resource in ("i", "j")
    ]
    assert found[0]["lines"] == [
        {
            "sku": "rtx-4090",
            "quantity": 1,
            "mode": "gpu",
            "purchase": "on_demand",
            "labels": {},
            "ranges": [[0, 3600]],
            "seconds": 3600,
            "unit_price": "1.660000",
            "per": "hour",
            "factors": [{"rule": "night_auction", "factor": "0.50"}],
            "amount": "0.830000",
        }
    ]
    assert (found[0]["amount"], found[0]["settled"]) == ("0.830000", "0.830000")
    (payer,) = found[0]["paid_by"]
    assert (payer["source"], payer["kind"], payer["amount"]) == ("lot", "trial", "0.830000")
    assert (found[-1]["settled"], found[-1]["paid_by"]) == ("0.000000", [])
    window = {"from": "2026-03-10T21:00:00+08:00", "to": "2026-03-10T14:00:00Z", "resource_id": "j"}
    page = (await wallet.get("/v1/accounts/a/charges", params=window)).json()
    assert [(item["hour"], item["resource_id"]) for item in page["items"]] == [("2026-03-10T13:00:00Z", "j")]


async def test_a_row_that_cannot_be_explained_does_not_hide_the_others(
    wallet: httpx.AsyncClient, context: Context, owner: asyncpg.Connection
) -> None:
    await charge_account(
        context, *(charge("a", NOON_EPOCH, [line((0, 3600))], resource_id=name) for name in ("i", "j"))
    )
    await owner.execute("""UPDATE charge SET lines = '[{"sku": 1}]' WHERE resource_id = 'i'""")
    page = (await wallet.get("/v1/accounts/a/charges")).json()
    assert [(item["amount"], len(item["lines"])) for item in page["items"]] == [
        ("1.660000", 0),
        ("1.660000", 1),
    ]


async def test_the_journal_is_newest_first_and_pages(wallet: httpx.AsyncClient) -> None:
    for number in range(3):
        body = {"amount": "1", "channel": "alipay", "reference": f"r{number}"}
        await wallet.post("/v1/accounts/a/top-ups", json=body)
    first = (await wallet.get("/v1/accounts/a/journal", params={"limit": 3})).json()
    assert [item["reference"] for item in first["items"]] == ["r2", "r1", "r0"]
    assert first["items"][0]["transfers"][0]["debit_account"] == "provider:alipay"
    assert first["items"][0]["transfers"][0]["amount"] == "1.000000"
    rest = (await wallet.get("/v1/accounts/a/journal", params={"cursor": first["next_cursor"]})).json()
    assert ([item["kind"] for item in rest["items"]], rest["next_cursor"]) == (["trial"], None)


@pytest.mark.parametrize("path", ["accounts/a/journal", "accounts/a/charges", "unknown-accounts"])
@pytest.mark.parametrize(
    "query", [{"cursor": "x"}, {"cursor": "WyJ4Il0gZm9yZ2Vk"}, {"limit": "0"}, {"limit": "501"}]
)
async def test_a_cursor_or_limit_that_is_none_is_refused(
    wallet: httpx.AsyncClient, path: str, query: dict[str, str]
) -> None:
    assert (await wallet.get(f"/v1/{path}", params=query)).status_code == 422


async def test_accounts_not_heard_of_are_listed_page_by_page(
    wallet: httpx.AsyncClient, context: Context
) -> None:
    await charge_account(context, *(charge(f"ghost-{n}", NOON_EPOCH, [line((0, 3600))]) for n in range(3)))
    first = (await wallet.get("/v1/unknown-accounts", params={"limit": 2})).json()
    assert [item["account_id"] for item in first["items"]] == ["ghost-0", "ghost-1"]
    assert first["items"][0]["accrued"] == "1.660000"
    rest = (await wallet.get("/v1/unknown-accounts", params={"cursor": first["next_cursor"]})).json()
    assert ([item["account_id"] for item in rest["items"]], rest["next_cursor"]) == (["ghost-2"], None)
