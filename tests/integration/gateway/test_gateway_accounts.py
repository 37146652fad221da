"""Accounts are opened once, with their news in the same transaction, and seen only by those they concern."""

import asyncio
from datetime import timedelta

import httpx
import msgspec
import pytest
from sqlalchemy import text

from services.gateway.domain.principals import Role
from services.gateway.usecases.record_standings import record_standings
from shared.contracts.facts import AccountOpened, AccountStanding
from shared.database import Database
from shared.time import format_instant, parse_instant
from tests.support.databases import unique_suffix
from tests.support.gateway import Gateway, opening


async def _news_of(owner: Database, account_id: str) -> list[AccountOpened]:
    async with owner.reading() as connection:
        rows = await connection.execute(
            text("SELECT value FROM outbox WHERE topic = 'account.opened.v1' AND key = :key"),
            {"key": account_id.encode()},
        )
        return [msgspec.json.decode(row.value, type=AccountOpened) for row in rows]


async def test_opening_an_account_tells_it_once(operator: httpx.AsyncClient, owner: Database) -> None:
    account_id = f"acct-{unique_suffix()}"
    first = await operator.post("/v1/accounts", json=opening(account_id))
    again = await operator.post("/v1/accounts", json=opening(account_id))
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert first.headers["location"] == f"/v1/accounts/{account_id}"
    (news,) = await _news_of(owner, account_id)
    assert (news.account_id, news.kind, news.trial_amount) == (account_id, "university", 0)
    assert parse_instant(news.registered_at) == parse_instant(first.json()["registered_at"])


async def test_of_many_who_open_it_at_once_one_does(operator: httpx.AsyncClient, owner: Database) -> None:
    account_id = f"acct-{unique_suffix()}"
    answers = await asyncio.gather(
        *(operator.post("/v1/accounts", json=opening(account_id)) for _ in range(8))
    )
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert len(await _news_of(owner, account_id)) == 1


async def test_an_account_and_its_news_stand_or_fall_together(
    operator: httpx.AsyncClient, owner: Database
) -> None:
    account_id = f"acct-{unique_suffix()}"
    async with owner.transaction() as connection:
        await connection.execute(text("ALTER TABLE outbox ADD CONSTRAINT refuse_all CHECK (false) NOT VALID"))
    try:
        response = await operator.post("/v1/accounts", json=opening(account_id))
    finally:
        async with owner.transaction() as connection:
            await connection.execute(text("ALTER TABLE outbox DROP CONSTRAINT refuse_all"))
    assert response.status_code == 500
    assert response.json()["code"] == "internal_error"
    assert "refuse_all" not in response.text
    assert (await operator.get(f"/v1/accounts/{account_id}")).status_code == 404
    assert (await operator.post("/v1/accounts", json=opening(account_id))).status_code == 201


@pytest.mark.parametrize(
    "change", [{"name": "Other"}, {"kind": "personal"}, {"registered_at": "2026-01-01T00:00:00Z"}], ids=str
)
async def test_other_content_under_a_known_id_is_a_conflict(
    change: dict[str, str], operator: httpx.AsyncClient, account_id: str
) -> None:
    response = await operator.post("/v1/accounts", json=opening(account_id, **change))
    assert (response.status_code, response.json()["code"]) == (409, "conflict")


async def test_an_account_without_a_name_of_its_own_gets_one(operator: httpx.AsyncClient) -> None:
    one, two = [(await operator.post("/v1/accounts", json=opening())).json() for _ in range(2)]
    assert one["account_id"] != two["account_id"]
    assert (await operator.get(f"/v1/accounts/{one['account_id']}")).json() == one


@pytest.mark.parametrize("name", ["org/lab/7", "a:b@c", "-._", "A" * 128])
async def test_every_id_of_the_contract_is_an_account_id(name: str, operator: httpx.AsyncClient) -> None:
    account_id = f"{unique_suffix()}{name}"[:128]
    made = await operator.post("/v1/accounts", json=opening(account_id))
    assert made.status_code == 201
    for path in (made.headers["location"], f"/v1/accounts/{account_id}"):
        assert (await operator.get(path)).json()["account_id"] == account_id
    assert (await operator.get(f"/v1/accounts/{account_id}/balance")).status_code == 503


@pytest.mark.parametrize(
    "fields",
    [
        {"account_id": "a b"},
        {"account_id": "A" * 129},
        {"account_id": "line\n"},
        {"account_id": ""},
        {"name": ""},
        {"name": "x" * 201},
        {"name": "nul\u0000"},
        {"kind": "school"},
        {"registered_at": "yesterday"},
        {"registered_at": "2026-03-10T15:00:00"},
        {"registered_at": 1},
        {"trial": "no"},
        {"colour": "red"},
    ],
    ids=str,
)
async def test_an_opening_that_means_nothing_is_refused_with_the_field(
    fields: dict[str, object], operator: httpx.AsyncClient
) -> None:
    response = await operator.post("/v1/accounts", json=opening(**fields))  # type: ignore[arg-type]
    assert response.status_code == 422
    assert next(iter(fields)) in response.json()["errors"][0]["field"]


async def test_nobody_registers_in_the_future(gateway: Gateway, operator: httpx.AsyncClient) -> None:
    later = format_instant(gateway.clock() + timedelta(seconds=30))
    response = await operator.post("/v1/accounts", json=opening(registered_at=later))
    assert (response.status_code, response.json()["field"]) == (422, "registered_at")


async def test_a_trial_waits_for_pricing_and_opens_nothing_meanwhile(operator: httpx.AsyncClient) -> None:
    account_id = f"acct-{unique_suffix()}"
    response = await operator.post("/v1/accounts", json=opening(account_id, trial=True))
    assert (response.status_code, response.json()["code"], response.json()["part"]) == (
        503,
        "unavailable",
        "pricing",
    )
    assert response.headers["retry-after"]
    assert (await operator.get(f"/v1/accounts/{account_id}")).status_code == 404


async def test_each_sees_only_what_is_its_own(
    gateway: Gateway, operator: httpx.AsyncClient, account_id: str
) -> None:
    other = f"acct-{unique_suffix()}"
    await operator.post("/v1/accounts", json=opening(other))
    customer = await gateway.key(Role.CUSTOMER, frozenset({account_id}))
    partner = await gateway.key(Role.PARTNER, frozenset({account_id}))
    agent = await gateway.key(Role.AGENT, prefix="/nodes")
    for key, sees_mine in ((customer, True), (partner, True), (agent, False)):
        async with gateway.client(key) as client:
            assert (await client.get(f"/v1/accounts/{account_id}")).status_code == (200 if sees_mine else 404)
            for path in ("", "/balance", "/journal", "/usage", "/charges"):
                theirs = await client.get(f"/v1/accounts/{other}{path}")
                nobodys = await client.get(f"/v1/accounts/nobody{path}")
                assert (theirs.status_code, nobodys.status_code) == (404, 404)
                assert theirs.text.replace(other, "nobody") == nobodys.text
            for path, body in (("/top-ups", {"amount": "1"}), ("/grants", {})):
                assert (await client.post(f"/v1/accounts/{other}{path}", json=body)).status_code == 404
            hold = {"account_id": other, "sku": "x", "quantity": 1, "seconds": 60, "reference": "r"}
            assert (await client.post("/v1/holds", json=hold)).status_code == 404
            assert (await client.post("/v1/accounts", json=opening())).status_code == 403
    async with gateway.client(partner) as client:
        listed = (await client.get("/v1/accounts")).json()["items"]
        assert [account["account_id"] for account in listed] == [account_id]


async def test_a_customer_may_not_pay_itself(gateway: Gateway, account_id: str) -> None:
    async with gateway.client(await gateway.key(Role.CUSTOMER, frozenset({account_id}))) as customer:
        body = {"amount": "1", "channel": "bank", "reference": "r"}
        response = await customer.post(f"/v1/accounts/{account_id}/top-ups", json=body)
    assert (response.status_code, response.json()["code"]) == (403, "forbidden")


async def test_accounts_are_listed_page_by_page(operator: httpx.AsyncClient) -> None:
    prefix = f"page-{unique_suffix()}"
    for number in range(5):
        await operator.post("/v1/accounts", json=opening(f"{prefix}-{number}"))
    seen: list[str] = []
    cursor: str | None = None
    while True:
        params = {"limit": "2"} if cursor is None else {"limit": "2", "cursor": cursor}
        page = (await operator.get("/v1/accounts", params=params)).json()
        seen += [account["account_id"] for account in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert [name for name in seen if name.startswith(prefix)] == [f"{prefix}-{number}" for number in range(5)]
    assert seen == sorted(seen)


async def test_the_newest_standing_wins_in_any_order(gateway: Gateway, operator: httpx.AsyncClient) -> None:
    account_id = f"acct-{unique_suffix()}"

    def told(standing: str, epoch: int) -> AccountStanding:
        return AccountStanding(account_id, standing, epoch, 0, 0, None, "2026-03-10T15:00:00Z")  # type: ignore[arg-type]

    # Told before the account is known here: kept for it.
    await record_standings([told("exhausted", 3), told("low", 2)], database=gateway.parts.database)
    await operator.post("/v1/accounts", json=opening(account_id))
    assert (await operator.get(f"/v1/accounts/{account_id}")).json()["standing"] == "exhausted"
    await record_standings([told("low", 2)], database=gateway.parts.database)
    assert (await operator.get(f"/v1/accounts/{account_id}")).json()["standing"] == "exhausted"
    await record_standings([told("good", 4), told("low", 1)], database=gateway.parts.database)
    assert (await operator.get(f"/v1/accounts/{account_id}")).json()["standing"] == "good"
