"""Errors on the wire (RFC 9457), pages and REST field types."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import BaseModel, ValidationError

from shared.errors import Conflict, InsufficientFunds, Invalid, NotFound, Unavailable
from shared.pages import PageLimit, decode_cursor, encode_cursor
from shared.problems import PROBLEM_CONTENT_TYPE, install_problems
from shared.schemas import CnyOut, CnyPositive, Instant


class TopUp(BaseModel):
    amount: CnyPositive


class Shown(BaseModel):
    amount: CnyOut
    at: Instant


REFUSALS = {
    "not-found": NotFound("there is no account acct-7"),
    "conflict": Conflict("the reference was used with another amount"),
    "funds": InsufficientFunds("available does not cover it", shortfall="0.660000"),
    "invalid": Invalid("no such group", field="group_by"),
    "unavailable": Unavailable("the wallet does not answer"),
}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    install_problems(app)

    @app.get("/refusals/{name}")
    async def refuse(name: str) -> None:
        raise REFUSALS[name]

    @app.get("/fault")
    async def fault() -> None:
        raise RuntimeError("secret detail")

    @app.get("/both")
    async def read() -> None: ...

    @app.post("/both")
    async def write() -> None: ...

    @app.get("/lost")
    async def lost() -> None:
        raise ConnectionRefusedError("secret host")

    @app.get("/pages")
    async def pages(limit: PageLimit = 100) -> int:
        return limit

    @app.post("/top-ups")
    async def top_up(body: TopUp) -> str:
        return str(body.amount)

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        yield client


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        ("not-found", 404, "not_found"),
        ("conflict", 409, "conflict"),
        ("funds", 402, "insufficient_funds"),
        ("invalid", 422, "invalid_request"),
        ("unavailable", 503, "unavailable"),
    ],
)
async def test_each_refusal_has_its_status_and_a_stable_type(
    client: httpx.AsyncClient, name: str, status: int, code: str
) -> None:
    response = await client.get(f"/refusals/{name}")
    body = response.json()
    assert response.status_code == body["status"] == status
    assert response.headers["content-type"] == PROBLEM_CONTENT_TYPE
    assert (body["type"], body["code"]) == (f"urn:gpu-billing:problem:{code}", code)
    assert body["instance"] == f"/refusals/{name}"


async def test_a_refusal_carries_its_numbers(client: httpx.AsyncClient) -> None:
    assert (await client.get("/refusals/funds")).json()["shortfall"] == "0.660000"


async def test_unavailable_says_when_to_come_back(client: httpx.AsyncClient) -> None:
    assert (await client.get("/refusals/unavailable")).headers["retry-after"] == "1"


async def test_a_fault_of_ours_shows_no_trace(client: httpx.AsyncClient) -> None:
    response = await client.get("/fault")
    assert response.status_code == 500
    assert "secret" not in response.text
    assert "Traceback" not in response.text


async def test_a_database_that_is_away_is_503_and_says_when_to_come_back(client: httpx.AsyncClient) -> None:
    response = await client.get("/lost")
    assert (response.status_code, response.json()["code"]) == (503, "unavailable")
    assert response.headers["retry-after"] == "1"
    assert "secret" not in response.text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("DELETE", "/top-ups", 405), ("GET", "/pages?limit=501", 422)],
)
async def test_the_frameworks_own_refusals_are_problems_too(
    client: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    response = await client.request(method, path)
    assert response.status_code == status
    assert response.headers["content-type"] == PROBLEM_CONTENT_TYPE


async def test_a_body_of_another_kind_is_told_what_to_send(client: httpx.AsyncClient) -> None:
    response = await client.post("/top-ups", content=b"amount=1", headers={"content-type": "text/plain"})
    assert (response.status_code, response.json()["code"]) == (415, "unsupported_media_type")
    assert response.json()["accepted"] == ["application/json"]


async def test_a_405_names_every_method_of_the_path(client: httpx.AsyncClient) -> None:
    assert (await client.put("/both")).headers["allow"] == "GET, POST"


async def test_a_body_that_is_no_json_is_400(client: httpx.AsyncClient) -> None:
    response = await client.post("/top-ups", content=b"{", headers={"content-type": "application/json"})
    assert (response.status_code, response.json()["code"]) == (400, "malformed_json")


@pytest.mark.parametrize(
    "amount",
    ["1e3", "-5", "NaN", "0.0000001", "0", "", " 1", "1.", "٣", "1,000", 5, 1.5, None, True, "9" * 40],
)
async def test_an_amount_that_is_not_a_plain_positive_decimal_string_names_its_field(
    client: httpx.AsyncClient, amount: Any
) -> None:
    response = await client.post("/top-ups", json={"amount": amount})
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "body.amount"


async def test_an_amount_is_micro_yuan_inside(client: httpx.AsyncClient) -> None:
    assert (await client.post("/top-ups", json={"amount": "12.345678"})).json() == "12345678"


def test_money_and_instants_leave_as_strings() -> None:
    shown = Shown.model_validate({"amount": 12_345_678, "at": "2026-03-10T23:00:00+08:00"})
    assert json.loads(shown.model_dump_json()) == {"amount": "12.345678", "at": "2026-03-10T15:00:00Z"}


@pytest.mark.parametrize("at", ["2026-03-10", "2026-03-10T15:00:00", 1_700_000_000, "tomorrow"])
def test_a_time_without_its_offset_is_refused(at: Any) -> None:
    with pytest.raises(ValidationError):
        Shown.model_validate({"amount": 1, "at": at})


def test_a_cursor_gives_back_its_position() -> None:
    assert decode_cursor(encode_cursor("inst-8f2c", 1_700_000_000), str, int) == ("inst-8f2c", 1_700_000_000)


@pytest.mark.parametrize(
    "cursor", ["", "%%%", "bm90IGpzb24", encode_cursor("only-one"), encode_cursor(1, "a")]
)
def test_a_cursor_of_another_list_is_refused(cursor: str) -> None:
    with pytest.raises(Invalid):
        decode_cursor(cursor, str, int)
