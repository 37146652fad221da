"""Keys are told once, stored as digests, bound to what they may see, and end when they are revoked."""

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from services.gateway.domain.principals import Role
from shared.database import Database
from shared.settings import KafkaSettings
from tests.support.databases import DatabaseUrls, unique_suffix
from tests.support.gateway import Gateway, running_gateway


async def test_a_key_is_told_once_and_kept_only_as_a_digest(
    operator: httpx.AsyncClient, owner: Database
) -> None:
    made = await operator.post("/v1/api-keys", json={"name": "books", "role": "finance"})
    assert made.status_code == 201
    secret = made.json()["key"]
    assert secret.startswith(made.json()["shown"])
    async with owner.reading() as connection:
        rows = (await connection.execute(text("SELECT api_key::text FROM api_key"))).scalars().all()
    assert rows
    assert not any(secret in row or secret[3:] in row for row in rows)
    listed = await operator.get("/v1/api-keys", params={"limit": 500})
    assert secret not in listed.text


async def test_a_replay_does_not_tell_the_key_again(operator: httpx.AsyncClient, owner: Database) -> None:
    headers = {"idempotency-key": unique_suffix()}
    body = {"name": "books", "role": "finance"}
    first = await operator.post("/v1/api-keys", json=body, headers=headers)
    again = await operator.post("/v1/api-keys", json=body, headers=headers)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == {**first.json(), "key": None}


async def test_a_revoked_key_is_refused_and_stays_on_record(
    gateway: Gateway, operator: httpx.AsyncClient
) -> None:
    made = (await operator.post("/v1/api-keys", json={"name": "leaver", "role": "finance"})).json()
    async with gateway.client(made["key"]) as leaver:
        assert (await leaver.get("/v1/accounts")).status_code == 200
        for _ in range(2):
            assert (await operator.delete(f"/v1/api-keys/{made['key_id']}")).status_code == 204
        refused = await leaver.get("/v1/accounts")
    assert refused.status_code == 401
    assert refused.json()["code"] == "unauthenticated"
    keys = (await operator.get("/v1/api-keys", params={"limit": 500})).json()["items"]
    assert [key["revoked_at"] is not None for key in keys if key["key_id"] == made["key_id"]] == [True]


async def test_a_revocation_elsewhere_takes_effect_when_the_cache_is_old(
    gateway: Gateway, operator: httpx.AsyncClient, gateway_urls: DatabaseUrls, kafka: KafkaSettings
) -> None:
    made = (await operator.post("/v1/api-keys", json={"name": "leaver", "role": "finance"})).json()
    async with (
        running_gateway(gateway_urls, kafka, key_cache_seconds=0.3) as other,
        other.client(made["key"]) as leaver,
    ):
        assert (await leaver.get("/v1/accounts")).status_code == 200
        await operator.delete(f"/v1/api-keys/{made['key_id']}")
        statuses = [(await leaver.get("/v1/accounts")).status_code for _ in range(3)]
        assert set(statuses) <= {200, 401}
        for _ in range(2_000):
            if (await leaver.get("/v1/accounts")).status_code == 401:
                break
        else:
            pytest.fail("the revoked key still works")


@pytest.mark.parametrize(
    "binding",
    [
        {"role": "customer"},
        {"role": "customer", "account_ids": ["nobody-at-all"]},
        {"role": "agent"},
        {"role": "operator", "source_prefix": "/nodes"},
        {"role": "root"},
        {"role": "finance", "account_id": "acct-7"},
    ],
    ids=str,
)
async def test_a_key_that_is_bound_wrongly_is_not_made(
    binding: dict[str, object], operator: httpx.AsyncClient
) -> None:
    response = await operator.post("/v1/api-keys", json={"name": "x", **binding})
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"


async def test_only_operators_manage_keys(gateway: Gateway, account_id: str) -> None:
    for role, accounts, prefix in (
        (Role.FINANCE, frozenset[str](), None),
        (Role.PARTNER, frozenset({account_id}), None),
        (Role.CUSTOMER, frozenset({account_id}), None),
        (Role.AGENT, frozenset[str](), "/nodes"),
    ):
        async with gateway.client(await gateway.key(role, accounts, prefix)) as client:
            assert (await client.get("/v1/api-keys")).status_code == 403
            assert (
                await client.post("/v1/api-keys", json={"name": "x", "role": "operator"})
            ).status_code == 403


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic Zm9vOmJhcg==",
        "Bearer nonsense",
        "Bearer gk_" + "A" * 43,
        "gk_" + "A" * 43,
    ],
)
async def test_without_a_good_key_nothing_is_told(authorization: str | None, gateway: Gateway) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    async with gateway.client(None) as stranger:
        for method, path in (
            ("GET", "/v1/accounts/acct-7/balance"),
            ("POST", "/v1/events"),
            ("GET", "/v1/price-book"),
            ("GET", "/v1/nothing-here"),
        ):
            response = await stranger.request(method, path, headers=headers)
            assert response.status_code == 401
            assert response.headers["www-authenticate"].startswith("Bearer")
            assert response.json()["code"] == "unauthenticated"


async def test_keys_are_listed_page_by_page(operator: httpx.AsyncClient) -> None:
    for _ in range(3):
        await operator.post("/v1/api-keys", json={"name": "page", "role": "finance"})
    seen: list[str] = []
    cursor: str | None = None
    while True:
        params = {"limit": "2"} if cursor is None else {"limit": "2", "cursor": cursor}
        page = (await operator.get("/v1/api-keys", params=params)).json()
        seen += [key["key_id"] for key in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) >= 3
    for wrong in ("nonsense", "W10", "WyJ4Il0"):
        assert (await operator.get("/v1/api-keys", params={"cursor": wrong})).status_code == 422


async def test_the_services_role_may_not_rewrite_a_key(gateway: Gateway) -> None:
    with pytest.raises(ProgrammingError, match="permission denied"):
        async with gateway.parts.database.transaction() as connection:
            await connection.execute(text("UPDATE api_key SET role = 'operator'"))
