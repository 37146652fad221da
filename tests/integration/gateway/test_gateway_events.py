"""POST /v1/events: what is accepted is with the broker before the answer, what is not is named."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from services.gateway.domain.principals import Role
from shared.settings import KafkaSettings
from shared.time import system_clock
from tests.support.databases import DatabaseUrls, unique_suffix
from tests.support.gateway import Gateway, running_gateway
from tests.support.reports import minutes, structured, usage_event

pytestmark = pytest.mark.kafka

SINGLE = {"content-type": "application/cloudevents+json"}
BATCH = {"content-type": "application/cloudevents-batch+json"}
TOPIC = "usage.reported.v1"


def _event(**fields: Any) -> dict[str, Any]:
    now = system_clock()
    span = {"start": now - minutes(2), "end": now - minutes(1)}
    return usage_event(**{"event_id": unique_suffix(), **span, **fields})


class Tail:
    """What the topic gets from now on."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer

    async def records_of(self, resource_id: str) -> list[ConsumerRecord]:
        found: list[ConsumerRecord] = []
        for place, end in (await self._consumer.end_offsets(self._consumer.assignment())).items():
            while await self._consumer.position(place) < end:
                records = (await self._consumer.getmany(place, timeout_ms=500)).get(place, [])
                found.extend(record for record in records if record.key == resource_id.encode())
        return found


@pytest.fixture
async def tail(gateway: Gateway, kafka: KafkaSettings) -> AsyncIterator[Tail]:
    await gateway.service.checks["broker"]()
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap)
    await consumer.start()
    try:
        await consumer._client.force_metadata_update()
        numbers = await consumer._client._wait_on_metadata(TOPIC)
        consumer.assign([TopicPartition(TOPIC, number) for number in numbers])
        for place, end in (await consumer.end_offsets(consumer.assignment())).items():
            consumer.seek(place, end)
        yield Tail(consumer)
    finally:
        await consumer.stop()


async def test_an_accepted_event_is_with_the_broker_as_it_was_sent(
    operator: httpx.AsyncClient, tail: Tail
) -> None:
    resource_id = f"inst-{unique_suffix()}"
    sent = structured(_event(resource_id=resource_id, labels={"project": "视觉"}))
    response = await operator.post("/v1/events", content=sent, headers=SINGLE)
    assert (response.status_code, response.json()) == (202, {"accepted": 1, "rejected": []})
    (record,) = await tail.records_of(resource_id)
    assert record.value == sent
    assert dict(record.headers)["content-type"] == b"application/cloudevents+json"


async def test_a_batch_keeps_each_resource_in_one_partition_and_in_order(
    operator: httpx.AsyncClient, tail: Tail
) -> None:
    resource_id = f"inst-{unique_suffix()}"
    events = [_event(resource_id=resource_id, event_id=f"e/{number}") for number in range(50)]
    others = [_event(resource_id=f"other-{number}") for number in range(50)]
    mixed = [event for pair in zip(events, others, strict=True) for event in pair]
    response = await operator.post("/v1/events", json=mixed, headers=BATCH)
    assert response.json() == {"accepted": 100, "rejected": []}
    found = await tail.records_of(resource_id)
    assert len({record.partition for record in found}) == 1
    assert [json.loads(record.value)["id"] for record in found] == [f"e/{number}" for number in range(50)]


def _bad_events() -> dict[str, tuple[str, dict[str, Any]]]:
    now = system_clock()
    old = now - timedelta(days=46)
    return {
        "wrong version": ("unsupported_specversion", _event() | {"specversion": "0.3"}),
        "wrong type": ("unsupported_type", _event() | {"type": "disk.usage.v1"}),
        "end before start": ("end_not_after_start", _event(since=now - minutes(9), end=now - minutes(3))),
        "start before since": ("start_before_since", _event(since=now)),
        "in the future": ("in_the_future", _event(end=now + timedelta(seconds=400))),
        "too old": ("too_old", _event(start=old, end=old + minutes(1))),
        "too long": ("span_too_long", _event(start=now - timedelta(hours=25), end=now)),
        "a label too many": ("invalid_event", _event(labels={f"label-{n}": "x" for n in range(17)})),
        "no card": ("invalid_event", _event(quantity=0)),
        "too many cards": ("invalid_event", _event(quantity=10**12)),
        "half a card": ("invalid_event", _event(quantity=0.5)),
        "65 KiB": ("event_too_large", _event() | {"note": "x" * 65 * 1024}),
        "a name with a space": ("invalid_event", _event(account_id="a b")),
    }


@pytest.mark.parametrize("case", list(_bad_events()))
async def test_a_bad_event_is_named_and_the_good_ones_are_taken(
    case: str, operator: httpx.AsyncClient
) -> None:
    code, bad = _bad_events()[case]
    response = await operator.post("/v1/events", json=[_event(), bad, _event()], headers=BATCH)
    assert response.status_code == 202
    assert response.json()["accepted"] == 2
    (rejected,) = response.json()["rejected"]
    assert (rejected["index"], rejected["id"], rejected["code"]) == (1, bad["id"], code)
    assert rejected["detail"]
    alone = await operator.post("/v1/events", content=structured(bad), headers=SINGLE)
    assert (alone.status_code, alone.json()["code"]) == (422, "events_refused")
    assert alone.headers["content-type"] == "application/problem+json"
    assert (alone.json()["accepted"], alone.json()["rejected"][0]["code"]) == (0, code)


async def test_a_batch_of_which_nothing_is_good_is_422(operator: httpx.AsyncClient) -> None:
    response = await operator.post("/v1/events", json=[_event(quantity=0)] * 3, headers=BATCH)
    assert response.status_code == 422
    assert [rejected["index"] for rejected in response.json()["rejected"]] == [0, 1, 2]


async def test_a_batch_of_nothing_is_taken(operator: httpx.AsyncClient) -> None:
    response = await operator.post("/v1/events", json=[], headers=BATCH)
    assert (response.status_code, response.json()) == (202, {"accepted": 0, "rejected": []})


@pytest.mark.parametrize(
    ("body", "content_type", "status", "code"),
    [
        (b"{", BATCH["content-type"], 400, "malformed_json"),
        (b"", BATCH["content-type"], 400, "malformed_json"),
        (b"[" * 100_000, BATCH["content-type"], 400, "malformed_json"),
        (b'{"a": 1}', BATCH["content-type"], 400, "malformed_json"),
        (b"\xff\xfe", SINGLE["content-type"], 400, "malformed_json"),
        (b"{} {}", SINGLE["content-type"], 400, "malformed_json"),
        (b"[]", SINGLE["content-type"], 422, "events_refused"),
        (b"a=1", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
        (b"{}", "", 415, "unsupported_media_type"),
        (b"{}", "application/cloudevents+json; charset=latin-1", 415, "unsupported_media_type"),
        (b"[" + b" " * 1_048_576 + b"]", BATCH["content-type"], 413, "body_too_large"),
        (json.dumps([{}] * 1_001).encode(), BATCH["content-type"], 413, "batch_too_large"),
    ],
)
async def test_a_body_that_is_no_event_is_refused_whole(
    body: bytes, content_type: str, status: int, code: str, operator: httpx.AsyncClient
) -> None:
    response = await operator.post("/v1/events", content=body, headers={"content-type": content_type})
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response.headers["content-type"] == "application/problem+json"


async def test_plain_json_is_one_event_or_a_batch_by_what_it_is(operator: httpx.AsyncClient) -> None:
    headers = {"content-type": "application/json; charset=UTF-8"}
    for body, count in ((_event(), 1), ([_event(), _event()], 2)):
        response = await operator.post("/v1/events", content=json.dumps(body).encode(), headers=headers)
        assert (response.status_code, response.json()["accepted"]) == (202, count)


async def test_a_body_that_hides_its_length_is_cut_off(operator: httpx.AsyncClient) -> None:
    sent = 0

    async def endless() -> Any:
        nonlocal sent
        while True:
            sent += 65_536
            yield b" " * 65_536

    response = await operator.post("/v1/events", content=endless(), headers=BATCH)
    assert (response.status_code, response.json()["code"]) == (413, "body_too_large")
    assert sent < 3 * 1_048_576


async def test_an_agent_reports_only_under_its_prefix_and_does_nothing_else(gateway: Gateway) -> None:
    prefix = f"/nodes/{unique_suffix()}"
    async with gateway.client(await gateway.key(Role.AGENT, prefix=prefix)) as agent:
        sources = (prefix, f"{prefix}/a", f"{prefix}x/a", "/nodes")
        response = await agent.post(
            "/v1/events", json=[_event(source=name) for name in sources], headers=BATCH
        )
        assert response.json()["accepted"] == 2
        assert [(found["index"], found["code"]) for found in response.json()["rejected"]] == [
            (2, "source_not_allowed"),
            (3, "source_not_allowed"),
        ]
        assert (await agent.get("/v1/price-book")).status_code == 403
        assert (await agent.get("/v1/accounts/nobody/balance")).status_code == 404


@pytest.mark.parametrize("role", [Role.FINANCE, Role.CUSTOMER])
async def test_others_do_not_report(role: Role, gateway: Gateway, account_id: str) -> None:
    accounts = frozenset({account_id}) if role is Role.CUSTOMER else frozenset[str]()
    async with gateway.client(await gateway.key(role, accounts)) as client:
        response = await client.post("/v1/events", json=[_event()], headers=BATCH)
    assert (response.status_code, response.json()["code"]) == (403, "forbidden")


async def test_without_a_broker_nothing_is_accepted_and_the_sender_knows_when_to_come_back(
    gateway: Gateway, gateway_urls: DatabaseUrls
) -> None:
    key = await gateway.key(Role.OPERATOR)
    nowhere = KafkaSettings(bootstrap="127.0.0.1:9")
    async with (
        running_gateway(gateway_urls, nowhere, publish_seconds_max=1) as cut_off,
        cut_off.client(key) as client,
    ):
        response = await client.post("/v1/events", json=[_event()], headers=BATCH)
        assert (response.status_code, response.json()["code"]) == (503, "unavailable")
        assert response.headers["retry-after"]
        refused = await client.post("/v1/events", json=[_event(quantity=0)], headers=BATCH)
        assert refused.status_code == 422
