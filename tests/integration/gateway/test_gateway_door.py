"""Limits, unknown ways in, and parts that do not answer: always a problem, never a trace."""

import httpx
import pytest

from services.gateway.domain.principals import Role
from shared.settings import KafkaSettings
from tests.support.databases import DatabaseUrls, unique_suffix
from tests.support.gateway import Gateway, running_gateway


def _assert_problem(response: httpx.Response, status: int, code: str) -> None:
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["type"] == f"urn:gpu-billing:problem:{code}"
    assert "Traceback" not in response.text


async def test_unknown_paths_and_methods_are_problems(operator: httpx.AsyncClient) -> None:
    _assert_problem(await operator.get("/v1/nothing"), 404, "not_found")
    _assert_problem(await operator.get("/nothing"), 404, "not_found")
    wrong = await operator.put("/v1/events", json={})
    _assert_problem(wrong, 405, "method_not_allowed")
    assert wrong.headers["allow"] == "POST"


async def test_every_answer_carries_the_requests_id(gateway: Gateway, operator: httpx.AsyncClient) -> None:
    chosen = await operator.get("/v1/accounts", headers={"x-request-id": "from-the-caller.1"})
    assert chosen.headers["x-request-id"] == "from-the-caller.1"
    made = await operator.get("/v1/accounts", headers={"x-request-id": "no\ttabs"})
    assert len(made.headers["x-request-id"]) == 36
    async with gateway.client(None) as stranger:
        assert (await stranger.get("/v1/accounts")).headers["x-request-id"]


@pytest.mark.parametrize(
    "amount", ["1e3", "-5", "NaN", "0.0000001", "0", "", "1,000", "1" * 14, 12.5, 12, None, True]
)
@pytest.mark.parametrize(
    ("path", "fields"), [("top-ups", {"channel": "bank"}), ("grants", {"kind": "promo"})]
)
async def test_what_is_no_amount_is_refused_with_the_field(
    amount: object, path: str, fields: dict[str, str], operator: httpx.AsyncClient, account_id: str
) -> None:
    body = {**fields, "reference": unique_suffix(), "amount": amount}
    response = await operator.post(f"/v1/accounts/{account_id}/{path}", json=body)
    _assert_problem(response, 422, "invalid_request")
    assert [error["field"] for error in response.json()["errors"]] == ["body.amount"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "malformed_json"),
        (b'{"name": "x"} trailing', 400, "malformed_json"),
        (b"\xff\xfe", 400, "malformed_json"),
        (b"[" * 50_000, 400, "malformed_json"),
        (b"[]", 422, "invalid_request"),
        (b"null", 422, "invalid_request"),
        (b'{"\\ud800": 1}', 400, "malformed_json"),
        (b'{"name": "\\ud800", "kind": "personal"}', 400, "malformed_json"),
        (b'{"name": "\\u0000", "kind": "personal"}', 422, "invalid_request"),
        (b'{"trial": ' + b"9" * 5_000 + b"}", 400, "malformed_json"),
        (b" " * 2_000_000, 413, "body_too_large"),
    ],
)
async def test_a_body_that_is_none_is_refused_and_never_a_fault(
    body: bytes, status: int, code: str, operator: httpx.AsyncClient
) -> None:
    headers = {"content-type": "application/json"}
    _assert_problem(await operator.post("/v1/accounts", content=body, headers=headers), status, code)


@pytest.mark.parametrize("name", ["%00", "%ff", "..%2f..", "a%20b", "%0a", "x" * 4_000])
async def test_a_path_with_no_id_in_it_is_not_found(name: str, operator: httpx.AsyncClient) -> None:
    _assert_problem(await operator.get(f"/v1/accounts/{name}"), 404, "not_found")
    assert (await operator.delete(f"/v1/api-keys/{name}")).status_code == 404


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "limit=many", "cursor=nonsense", "cursor=W10", "cursor=" + "x" * 3_000]
)
async def test_a_page_that_cannot_be_is_refused(query: str, operator: httpx.AsyncClient) -> None:
    _assert_problem(await operator.get(f"/v1/accounts?{query}"), 422, "invalid_request")


async def test_a_cursor_with_a_nul_in_it_is_no_fault(operator: httpx.AsyncClient) -> None:
    cursor = "WyJcdTAwMDAiXQ"  # ["\u0000"]
    assert (await operator.get(f"/v1/accounts?cursor={cursor}")).status_code in (200, 422)


async def test_a_sibling_that_does_not_answer_is_named(operator: httpx.AsyncClient, account_id: str) -> None:
    hold = {"account_id": account_id, "sku": "x", "quantity": 1, "seconds": 60, "reference": "r"}
    for response, part in (
        (await operator.get(f"/v1/accounts/{account_id}/balance"), "the wallet"),
        (await operator.get(f"/v1/accounts/{account_id}/usage"), "metering"),
        (await operator.get("/v1/price-book"), "pricing"),
        (await operator.post("/v1/holds", json=hold), "pricing"),
    ):
        _assert_problem(response, 503, "unavailable")
        assert response.headers["retry-after"]
        assert response.json()["part"] == part


async def test_without_its_database_the_gateway_says_so(
    gateway_urls: DatabaseUrls, kafka: KafkaSettings
) -> None:
    away = gateway_urls._replace(role_url="postgresql+asyncpg://gateway@127.0.0.1:9/gateway")
    async with running_gateway(away, kafka) as cut_off, cut_off.client("gk_" + "A" * 43) as client:
        response = await client.get("/v1/accounts")
        _assert_problem(response, 503, "unavailable")
        assert response.headers["retry-after"]


async def test_the_document_names_every_operation_with_its_errors_and_key(gateway: Gateway) -> None:
    async with gateway.client(None) as stranger:
        document = (await stranger.get("/openapi.json")).json()
    operations = [
        (path, method, operation)
        for path, item in document["paths"].items()
        if path.startswith("/v1/")
        for method, operation in item.items()
    ]
    assert len(operations) >= 20
    assert document["components"]["securitySchemes"]
    for path, method, operation in operations:
        where = f"{method} {path}"
        assert operation["summary"], where
        assert operation["tags"], where
        assert operation["security"], where
        assert {"401", "403", "404", "422", "503"} <= set(operation["responses"]), where
        if method == "post":
            assert "requestBody" in operation, where
        if method in ("post", "delete") and path not in ("/v1/events", "/v1/quotes"):
            assert "idempotency-key" in [field["name"] for field in operation["parameters"]], where


async def test_finance_reads_and_writes_nothing(gateway: Gateway, account_id: str) -> None:
    async with gateway.client(await gateway.key(Role.FINANCE)) as finance:
        assert (await finance.get(f"/v1/accounts/{account_id}")).status_code == 200
        assert (await finance.get("/v1/accounts")).status_code == 200
        for path in (f"/v1/accounts/{account_id}/top-ups", "/v1/price-books", "/v1/accounts"):
            assert (await finance.post(path, json={})).status_code == 403


@pytest.mark.parametrize("role", [Role.FINANCE, Role.CUSTOMER, Role.AGENT])
async def test_who_may_not_hold_may_not_release(role: Role, gateway: Gateway, account_id: str) -> None:
    accounts = frozenset({account_id}) if role is Role.CUSTOMER else frozenset[str]()
    key = await gateway.key(role, accounts, "/nodes" if role is Role.AGENT else None)
    hold_id = "01a22de6-fd19-7c22-ac4e-d80300737797"
    async with gateway.client(key) as client:
        _assert_problem(await client.delete(f"/v1/holds/{hold_id}"), 403, "forbidden")
        _assert_problem(await client.delete("/v1/holds/nonsense"), 404, "not_found")
        theirs = await client.delete(f"/v1/holds/{hold_id}", params={"account_id": "others"})
        _assert_problem(
            theirs, 403 if role is Role.FINANCE else 404, "forbidden" if role is Role.FINANCE else "not_found"
        )


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e400", b'"\\ud800"'])
async def test_a_body_is_json_to_the_letter(number: bytes, operator: httpx.AsyncClient) -> None:
    body = b'{"account_id": "strict-1", "name": ' + number + b', "kind": "personal"}'
    headers = {"content-type": "application/json"}
    _assert_problem(await operator.post("/v1/accounts", content=body, headers=headers), 400, "malformed_json")
    book = b'{"skus": [{"price": ' + number + b"}]}"
    answer = await operator.post("/v1/price-books", content=book, headers=headers)
    _assert_problem(answer, 400, "malformed_json")


@pytest.mark.parametrize("account_id", [".", "..", "a/..", "a//b", "/a", "a/", "a/balance", "a/usage"])
async def test_an_id_that_would_not_be_found_again_is_refused(
    account_id: str, operator: httpx.AsyncClient
) -> None:
    body = {"account_id": account_id, "name": "x", "kind": "personal"}
    answer = await operator.post("/v1/accounts", json=body)
    _assert_problem(answer, 422, "invalid_request")
