"""An Idempotency-Key runs a write once: replay, conflict, race, crash."""

import asyncio
import json
from datetime import timedelta
from uuid import UUID

import httpx
import pytest
from sqlalchemy import text

from services.gateway.domain.answers import Answer
from services.gateway.domain.idempotency import Request, hash_request
from services.gateway.domain.principals import Role
from services.gateway.domain.refusals import IdempotencyInProgress
from services.gateway.storage import idempotency
from services.gateway.usecases.forget_answers import forget_answers
from services.gateway.usecases.run_once import run_once
from shared.database import Database
from tests.support.databases import unique_suffix
from tests.support.gateway import Gateway, opening


@pytest.fixture
async def key_id(gateway: Gateway, operator: httpx.AsyncClient, owner: Database) -> str:
    async with owner.reading() as connection:
        return str(await connection.scalar(text("SELECT key_id FROM api_key LIMIT 1")))


def _request(key_id: str, content: bytes = b"hash") -> Request:
    return Request(key_id, unique_suffix(), "POST /v1/things", content)


async def _run(gateway: Gateway, request: Request, command: "Command") -> Answer:
    return await run_once(
        request,
        command,
        database=gateway.parts.database,
        clock=gateway.clock,
        new_id=gateway.parts.new_id,
        lease_seconds=60,
        keep_hours=24,
    )


class Command:
    """Counts how often it is run."""

    def __init__(self, answer: Answer | None = None, fault: Exception | None = None) -> None:
        self.runs = 0
        self.answer = answer or Answer(201, b'{"done":true}', headers={"location": "/v1/things/1"})
        self.fault = fault
        self.started = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self) -> Answer:
        self.runs += 1
        self.started.set()
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        return self.answer


async def test_a_repeat_gets_the_first_answer_and_says_so(operator: httpx.AsyncClient) -> None:
    headers = {"idempotency-key": unique_suffix()}
    first = await operator.post("/v1/accounts", json=opening(), headers=headers)
    again = await operator.post("/v1/accounts", json=opening(), headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["content-type"] == first.headers["content-type"]
    assert ("idempotency-replayed" in first.headers, again.headers["idempotency-replayed"]) == (False, "true")


async def test_another_body_or_path_under_the_same_key_is_a_conflict(
    operator: httpx.AsyncClient, account_id: str
) -> None:
    headers = {"idempotency-key": unique_suffix()}
    await operator.post("/v1/accounts", json=opening(), headers=headers)
    for path, body in (
        ("/v1/accounts", opening(name="Other")),
        ("/v1/api-keys", {"name": "x", "role": "finance"}),
    ):
        response = await operator.post(path, json=body, headers=headers)
        assert (response.status_code, response.json()["code"]) == (409, "idempotency_key_reused")


async def test_two_callers_may_choose_the_same_key(gateway: Gateway, operator: httpx.AsyncClient) -> None:
    headers = {"idempotency-key": unique_suffix()}
    async with gateway.client(await gateway.key(Role.OPERATOR)) as other:
        one = await operator.post("/v1/accounts", json=opening(), headers=headers)
        two = await other.post("/v1/accounts", json=opening(name="Other"), headers=headers)
    assert (one.status_code, two.status_code) == (201, 201)
    assert one.json()["account_id"] != two.json()["account_id"]


@pytest.mark.parametrize("key", ["", "a b", "x" * 256])
async def test_a_key_that_is_none_is_refused(key: str, operator: httpx.AsyncClient) -> None:
    response = await operator.post("/v1/accounts", json=opening(), headers={"idempotency-key": key})
    assert (response.status_code, response.json()["field"]) == (422, "Idempotency-Key")


async def test_of_many_at_once_exactly_one_runs(gateway: Gateway, key_id: str) -> None:
    request, command = _request(key_id), Command()
    command.gate.clear()
    racing = [asyncio.create_task(_run(gateway, request, command)) for _ in range(8)]
    finished = asyncio.as_completed(racing)
    for _ in range(7):
        with pytest.raises(IdempotencyInProgress):
            await next(finished)
    command.gate.set()
    assert (await next(finished)).body == command.answer.body
    assert command.runs == 1
    assert (await _run(gateway, request, command)).body == command.answer.body
    assert command.runs == 1


async def test_a_request_in_progress_is_409_with_a_time_to_come_back(gateway: Gateway) -> None:
    secret, name, now = await gateway.key(Role.OPERATOR), unique_suffix(), gateway.clock()
    caller = await gateway.parts.keys.authenticate(f"Bearer {secret}")
    body = json.dumps(opening()).encode()
    running = Request(caller.key_id, name, "POST /v1/accounts", hash_request("POST", "/v1/accounts", body))
    async with gateway.parts.database.transaction() as connection:
        await idempotency.claim(connection, running, UUID(int=7), now, now + timedelta(seconds=60))
    async with gateway.client(secret) as client:
        headers = {"idempotency-key": name, "content-type": "application/json"}
        response = await client.post("/v1/accounts", content=body, headers=headers)
    assert (response.status_code, response.json()["code"]) == (409, "idempotency_in_progress")
    assert response.headers["retry-after"] == "1"


async def test_a_command_that_died_is_run_again_when_its_lease_is_over(gateway: Gateway, key_id: str) -> None:
    request, command = _request(key_id), Command()
    now = gateway.clock()
    async with gateway.parts.database.transaction() as connection:
        # What is left of a process that was killed between claim and answer.
        await idempotency.claim(connection, request, UUID(int=7), now, now + timedelta(seconds=60))
    with pytest.raises(IdempotencyInProgress):
        await _run(gateway, request, command)
    gateway.clock.ahead += timedelta(seconds=61)
    try:
        assert (await _run(gateway, request, command)).status == 201
        assert "idempotency-replayed" in (await _run(gateway, request, command)).headers
    finally:
        gateway.clock.ahead = timedelta(0)
    assert command.runs == 1


async def test_one_that_comes_back_from_the_dead_does_not_replace_the_answer(
    gateway: Gateway, key_id: str
) -> None:
    request, slow, quick = _request(key_id), Command(Answer(201, b'"slow"')), Command(Answer(201, b'"quick"'))
    slow.gate.clear()
    sleeper = asyncio.create_task(_run(gateway, request, slow))
    await slow.started.wait()
    gateway.clock.ahead += timedelta(seconds=61)
    try:
        await _run(gateway, request, quick)
        slow.gate.set()
        await sleeper
        assert (await _run(gateway, request, quick)).body == b'"quick"'
    finally:
        gateway.clock.ahead = timedelta(0)


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_an_answer_that_may_change_is_not_kept(status: int, gateway: Gateway, key_id: str) -> None:
    request, failing, working = _request(key_id), Command(Answer(status, b"{}")), Command()
    assert (await _run(gateway, request, failing)).status == status
    assert (await _run(gateway, request, working)).status == 201


async def test_a_refused_sibling_makes_way_for_the_next_try(gateway: Gateway, key_id: str) -> None:
    request, failing, working = _request(key_id), Command(fault=ConnectionError("gone")), Command()
    with pytest.raises(ConnectionError):
        await _run(gateway, request, failing)
    assert (await _run(gateway, request, working)).status == 201


async def test_a_refusal_of_a_sibling_is_kept_like_any_answer(gateway: Gateway, key_id: str) -> None:
    problem = Answer(402, b'{"code":"insufficient_funds"}', "application/problem+json")
    request, command = _request(key_id), Command(problem)
    await _run(gateway, request, command)
    again = await _run(gateway, request, command)
    assert (again.status, again.body, again.media_type) == (402, problem.body, "application/problem+json")
    assert command.runs == 1


async def test_old_answers_are_forgotten_and_new_ones_kept(gateway: Gateway, key_id: str) -> None:
    old, command = _request(key_id), Command()
    await _run(gateway, old, command)
    gateway.clock.ahead += timedelta(hours=23)
    try:
        new = _request(key_id)
        await _run(gateway, new, command)
        gateway.clock.ahead += timedelta(hours=2)
        forgotten = await forget_answers(database=gateway.parts.database, clock=gateway.clock, keep_hours=24)
        assert forgotten >= 1
        await _run(gateway, new, command)
        assert command.runs == 2
        await _run(gateway, old, command)
        assert command.runs == 3
    finally:
        gateway.clock.ahead = timedelta(0)
