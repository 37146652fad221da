"""Bad input at every public door gets its clear error, and nothing is dropped in silence."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import httpx
import pytest

from shared.time import system_clock
from tests.support.clients import (
    CLOUDEVENT,
    CLOUDEVENTS_BATCH,
    USAGE_TOPIC,
    GatewayClient,
    NodeAgent,
    read_topic,
    wait_for,
)
from tests.support.databases import unique_suffix
from tests.support.reports import JsonObject, instant, minutes, structured, usage_event
from tests.support.stack import Stack

pytestmark = pytest.mark.kafka


def _event(**fields: Any) -> JsonObject:
    now = system_clock()
    span = {"start": now - minutes(2), "end": now - minutes(1)}
    return usage_event(**{"account_id": "nobody", "event_id": unique_suffix(), **span, **fields})


def _bad_events() -> dict[str, tuple[str, JsonObject]]:
    now = system_clock()
    return {
        "wrong version": ("unsupported_specversion", _event() | {"specversion": "0.3"}),
        "wrong type": ("unsupported_type", _event() | {"type": "disk.usage.v1"}),
        "end before start": ("end_not_after_start", _event(since=now - minutes(9), end=now - minutes(3))),
        "in the future": ("in_the_future", _event(end=now + timedelta(seconds=400))),
        "too old": (
            "too_old",
            _event(start=now - timedelta(days=46), end=now - timedelta(days=46) + minutes(1)),
        ),
        "too long": ("span_too_long", _event(start=now - timedelta(hours=25), end=now)),
        "a label too many": ("invalid_event", _event(labels={f"label-{n}": "x" for n in range(17)})),
        "no card": ("invalid_event", _event(quantity=0)),
        "too many cards": ("invalid_event", _event(quantity=10**12)),
        "65 KiB": ("event_too_large", _event() | {"note": "x" * 65 * 1024}),
    }


@pytest.mark.parametrize("case", list(_bad_events()))
async def test_a_bad_event_over_http_is_named_in_the_reply_and_the_good_one_taken(
    case: str, operator: GatewayClient
) -> None:
    code, bad = _bad_events()[case]
    response = await operator.call(
        "POST", "/v1/events", json=[_event(), bad], headers={"content-type": CLOUDEVENTS_BATCH}
    )
    assert response.status_code == 202
    answer = response.json()
    assert answer["accepted"] == 1
    (rejected,) = answer["rejected"]
    assert (rejected["index"], rejected["id"], rejected["code"]) == (1, bad["id"], code)
    assert rejected["detail"]


async def test_bad_events_on_kafka_are_in_the_dead_letters_with_the_reason(
    stack: Stack, agent: NodeAgent
) -> None:
    cases = _bad_events()
    for _, bad in cases.values():
        await agent.report([bad])
    marker = unique_suffix()
    await agent.send_raw(f'{{"broken": "{marker}'.encode(), [("content-type", CLOUDEVENT.encode())])
    wanted = {bad["id"]: code for code, bad in cases.values()} | {marker: "malformed_json"}

    async def reasons() -> dict[str, str]:
        letters = await read_topic(stack.kafka_bootstrap, f"{USAGE_TOPIC}.dead-letter")
        return {
            name: letter.headers["dead-letter-code"]
            for letter in letters
            for name in wanted
            if name.encode() in letter.value
        }

    assert await wait_for(reasons, lambda seen: seen == wanted) == wanted


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("usage.metered.v1", "invalid_fact"),
        ("charge.rated.v1", "invalid_fact"),
        ("account.opened.v1", "invalid_fact"),
        ("account.standing.v1", "malformed_standing"),
    ],
)
async def test_a_fact_that_is_none_is_in_the_dead_letters_and_stops_nobody(
    topic: str, code: str, stack: Stack, agent: NodeAgent
) -> None:
    marker = unique_suffix()
    # With a key: Apache Kafka takes no record without one into a compacted topic.
    await agent.send_raw(f'{{"broken": "{marker}"}}'.encode(), key=marker.encode(), topic=topic)

    async def reasons() -> list[str]:
        letters = await read_topic(stack.kafka_bootstrap, f"{topic}.dead-letter")
        return [letter.headers["dead-letter-code"] for letter in letters if marker.encode() in letter.value]

    assert await wait_for(reasons, lambda seen: seen == [code]) == [code]


async def test_what_is_no_message_at_all_does_not_stop_the_ones_behind_it(
    operator: GatewayClient, agent: NodeAgent
) -> None:
    account_id = f"behind-{unique_suffix()}"
    await operator.post("/v1/accounts", {"account_id": account_id, "name": "behind", "kind": "personal"})
    for value in (None, b"", b"\x00\xff", b"[]", b"{}", b"null"):
        await agent.send_raw(value, key=b"inst-1")
    hour = system_clock().replace(minute=0, second=0, microsecond=0) - minutes(60)
    await agent.report(
        [
            usage_event(
                account_id=account_id,
                resource_id="inst-1",
                sku="app-llm-7b",
                start=hour,
                end=hour + minutes(6),
            )
        ]
    )
    balance = await wait_for(
        lambda: operator.balance(account_id), lambda seen: bool(seen["available"] == "9.900000")
    )
    assert balance["available"] == "9.900000"


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"{", CLOUDEVENTS_BATCH, 400),
        (b"[" * 100_000, CLOUDEVENTS_BATCH, 400),
        (b'{"a": 1}', CLOUDEVENTS_BATCH, 400),
        (b"\xff\xfe", CLOUDEVENT, 400),
        (b"a=1", "application/x-www-form-urlencoded", 415),
        (b" " * (1_048_576 + 1), CLOUDEVENTS_BATCH, 413),
        (json.dumps([{}] * 1_001).encode(), CLOUDEVENTS_BATCH, 413),
    ],
    ids=["cut off", "nested", "not a list", "not text", "a form", "over 1 MiB", "1,001 events"],
)
async def test_a_body_that_is_no_batch_is_refused_whole(
    body: bytes, content_type: str, status: int, operator: GatewayClient
) -> None:
    response = await operator.call("POST", "/v1/events", content=body, headers={"content-type": content_type})
    _assert_problem(response.status_code, response.headers["content-type"], response.json(), {status, 422})


@pytest.mark.parametrize(
    "amount", ["1e3", "-5", "NaN", "0.0000001", "0", "", "1,000", "99999999999999999999"]
)
async def test_an_amount_that_is_none_books_nothing(amount: str, operator: GatewayClient) -> None:
    account_id = f"amounts-{unique_suffix()}"
    await operator.post(
        "/v1/accounts", {"account_id": account_id, "name": "amounts", "kind": "personal", "trial": False}
    )
    for body in ({"amount": amount}, {"amount": 12.5}, {"amount": None}, {}):
        for path, fields in (("top-ups", {"channel": "bank"}), ("grants", {"kind": "promo"})):
            response = await operator.call(
                "POST",
                f"/v1/accounts/{account_id}/{path}",
                json={**fields, "reference": unique_suffix(), **body},
            )
            _assert_problem(response.status_code, response.headers["content-type"], response.json(), {422})
    assert (await operator.balance(account_id))["cash"] == "0.000000"


@pytest.mark.parametrize("path", ["", "/balance", "/journal", "/charges", "/usage"])
async def test_an_unknown_account_is_404_everywhere(path: str, operator: GatewayClient) -> None:
    params = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"} if path == "/usage" else {}
    response = await operator.call("GET", f"/v1/accounts/nobody-{unique_suffix()}{path}", params=params)
    _assert_problem(response.status_code, response.headers["content-type"], response.json(), {404})


async def test_another_tenants_key_sees_nothing_and_no_key_even_less(
    stack: Stack, operator: GatewayClient
) -> None:
    mine, other = f"mine-{unique_suffix()}", f"other-{unique_suffix()}"
    for account_id in (mine, other):
        await operator.post(
            "/v1/accounts", {"account_id": account_id, "name": account_id, "kind": "personal"}
        )
    key = await create_key(operator, role="customer", account_ids=[mine])
    async with GatewayClient(stack.gateway_url, key) as customer:
        assert (await customer.balance(mine))["available"] == "10.000000"
        for path in (
            "",
            "/balance",
            "/journal",
            "/charges",
            "/usage?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z",
        ):
            theirs = await customer.call("GET", f"/v1/accounts/{other}{path}")
            nobodys = await customer.call("GET", f"/v1/accounts/nobody{path}")
            assert (theirs.status_code, nobodys.status_code) == (404, 404), path
            assert theirs.json()["detail"].replace(other, "nobody") == nobodys.json()["detail"]
        top_up = await customer.call(
            "POST", f"/v1/accounts/{mine}/top-ups", json={"amount": "1", "channel": "bank", "reference": "r"}
        )
        assert top_up.status_code in (403, 404)
    for wrong in (None, "gk_" + "A" * 43, "nonsense"):
        async with GatewayClient(stack.gateway_url, wrong) as stranger:
            for method, path in (
                ("GET", f"/v1/accounts/{mine}/balance"),
                ("POST", "/v1/events"),
                ("GET", "/v1/price-book"),
            ):
                response = await stranger.call(method, path)
                _assert_problem(
                    response.status_code, response.headers["content-type"], response.json(), {401}
                )
                assert "www-authenticate" in response.headers


async def test_an_agent_reports_only_as_itself(stack: Stack, operator: GatewayClient) -> None:
    prefix = f"/nodes/{unique_suffix()}"
    key = await create_key(operator, role="agent", source_prefix=prefix)
    async with GatewayClient(stack.gateway_url, key) as agent:
        response = await agent.call(
            "POST",
            "/v1/events",
            json=[_event(source=f"{prefix}/a"), _event(source=f"{prefix}x/a"), _event(source="/nodes/other")],
            headers={"content-type": CLOUDEVENTS_BATCH},
        )
        assert response.status_code == 202
        assert response.json()["accepted"] == 1
        assert [rejected["index"] for rejected in response.json()["rejected"]] == [1, 2]
        assert (await agent.call("GET", "/v1/accounts/nobody/balance")).status_code == 404


async def test_a_single_event_is_taken_or_refused_with_its_reason(operator: GatewayClient) -> None:
    headers = {"content-type": CLOUDEVENT}
    taken = await operator.call("POST", "/v1/events", content=structured(_event()), headers=headers)
    assert (taken.status_code, taken.json()) == (202, {"accepted": 1, "rejected": []})
    refused = await operator.call(
        "POST", "/v1/events", content=structured(_event(quantity=0)), headers=headers
    )
    answer = refused.json()
    assert "invalid_event" in json.dumps(answer)
    assert answer.get("accepted", 0) == 0


@pytest.mark.parametrize(
    "params",
    [{"limit": 0}, {"limit": 501}, {"limit": "many"}, {"cursor": "nonsense"}, {"cursor": "W10"}],
    ids=str,
)
async def test_a_page_that_cannot_be_is_refused(
    params: dict[str, str | int], operator: GatewayClient
) -> None:
    account_id = f"pages-{unique_suffix()}"
    await operator.post("/v1/accounts", {"account_id": account_id, "name": "pages", "kind": "personal"})
    for path in ("journal", "charges"):
        response = await operator.call("GET", f"/v1/accounts/{account_id}/{path}", params=params)
        _assert_problem(response.status_code, response.headers["content-type"], response.json(), {422})


@pytest.mark.parametrize(
    "change",
    [
        {"effective_from": "yesterday"},
        {"time_zone": "Asia/Nowhere"},
        {"currency": "USD"},
        {"skus": [{"sku": "x", "name": "x", "kind": "gpu", "unit": "card", "per": "hour", "price": "1e3"}]},
        {
            "skus": [
                {"sku": "x", "name": "x", "kind": "gpu", "unit": "card", "per": "fortnight", "price": "1"}
            ]
        },
        {"rules": [{"rule": "free", "factor": "-1", "when": {}}]},
    ],
    ids=str,
)
async def test_a_price_book_with_a_fault_is_not_published(
    change: JsonObject, operator: GatewayClient
) -> None:
    usual = await operator.get("/v1/price-book")
    fields = ("time_zone", "currency", "skus", "rules", "trial_credit")
    later = instant(system_clock() + timedelta(days=400))
    book = {name: usual[name] for name in fields} | {"effective_from": later, "correction": False}
    response = await operator.call("POST", "/v1/price-books", json=book | change)
    _assert_problem(response.status_code, response.headers["content-type"], response.json(), {422})


async def test_a_past_second_is_repriced_only_by_a_correction(operator: GatewayClient) -> None:
    usual = await operator.get("/v1/price-book")
    fields = ("time_zone", "currency", "skus", "rules", "trial_credit")
    book = {name: usual[name] for name in fields}
    past = instant(system_clock() - timedelta(hours=1))
    response = await operator.call(
        "POST", "/v1/price-books", json={**book, "effective_from": past, "correction": False}
    )
    _assert_problem(response.status_code, response.headers["content-type"], response.json(), {409, 422})


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"sku": "unheard-of"}, "no_price"),
        ({"end": "2026-03-10T00:00:00Z"}, "invalid_quote"),
        ({"start": "1990-03-10T01:00:00Z", "end": "1990-03-10T02:00:00Z"}, "invalid_quote"),
        ({"quantity": 0}, "invalid_request"),
    ],
    ids=str,
)
async def test_what_cannot_be_quoted_is_said(change: JsonObject, code: str, operator: GatewayClient) -> None:
    item = {
        "sku": "rtx-4090",
        "quantity": 1,
        "mode": "gpu",
        "purchase": "on_demand",
        "start": "2026-03-10T01:00:00Z",
        "end": "2026-03-10T02:00:00Z",
    }
    response = await operator.call("POST", "/v1/quotes", json={"items": [item | change]})
    _assert_problem(response.status_code, response.headers["content-type"], response.json(), {422})
    assert response.json()["code"] == code


async def test_a_body_that_never_ends_is_given_up(stack: Stack, operator: GatewayClient) -> None:
    stack.require_own()
    door = stack.services["gateway"].port
    reader, writer = await asyncio.open_connection("127.0.0.1", door)
    authorization = operator.http.headers["authorization"]
    writer.write(
        f"POST /v1/events HTTP/1.1\r\nhost: gateway\r\nauthorization: {authorization}\r\n"
        f"content-type: {CLOUDEVENTS_BATCH}\r\ncontent-length: 1000\r\n\r\n[".encode()
    )
    answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
    problem = await asyncio.wait_for(reader.readuntil(b"}"), 30)
    writer.close()
    await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"application/problem+json" in answer
    assert json.loads(problem)["code"] == "body_too_slow"


async def create_key(operator: GatewayClient, **binding: Any) -> str:
    answer = await operator.post("/v1/api-keys", {"name": unique_suffix(), **binding})
    key: str = answer["key"]
    return key


def _assert_problem(status: int, content_type: str, problem: JsonObject, allowed: set[int]) -> None:
    assert status in allowed, problem
    assert content_type == "application/problem+json"
    assert problem["status"] == status
    assert problem["type"].endswith(problem["code"])
    assert problem["detail"]
    assert "Traceback" not in json.dumps(problem)


@pytest.mark.parametrize(
    ("request_bytes", "code"),
    [
        (b"GET /healthz HTTP/1.1\r\nhost: x\r\n" + b"a: " + b"x" * 300_000, "headers_too_large"),
        (b"GET /healthz HTTP/1.1\r\nhost: x\r\n" + b"a: x\r\n" * 50_000, "headers_too_large"),
        (b"GET /healthz HTTP/1.1\r\nhost: x\r\na: " + b"x" * 66_000 + b"\r\n\r\n", "headers_too_large"),
        (b"\x16\x03\x01\x00 not HTTP\r\n\r\n", "malformed_http"),
    ],
)
async def test_what_is_no_request_or_too_large_a_head_is_a_problem_and_the_end_of_the_connection(
    request_bytes: bytes, code: str, stack: Stack
) -> None:
    url = httpx.URL(stack.gateway_url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    try:
        writer.write(request_bytes)
        answer = await asyncio.wait_for(reader.readuntil(b"}"), 10)
    finally:
        writer.close()
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == code
