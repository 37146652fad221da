"""How tests speak to the product: REST as a customer or operator, Kafka as a node agent."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, Final, Literal, NamedTuple, Self, TypeVar

import httpx
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.support.reports import JsonObject, binary, structured

USAGE_TOPIC: Final = "usage.reported.v1"
CLOUDEVENT: Final = "application/cloudevents+json"
CLOUDEVENTS_BATCH: Final = "application/cloudevents-batch+json"
PATIENCE_SECONDS: Final = 120.0
HTTP_BATCH_EVENTS: Final = 100
_POLL_SECONDS: Final = 0.05
_IN_FLIGHT_MAX: Final = 500

Mode = Literal["structured", "binary"]
Seen = TypeVar("Seen")


async def wait_for(
    observe: Callable[[], Awaitable[Seen]],
    satisfied: Callable[[Seen], bool],
    *,
    timeout: float = PATIENCE_SECONDS,
) -> Seen:
    """Looks again and again until it is as it should be; gives the last look when time is up.

    The caller asserts on what it gets, so that a failure shows the difference and not only the time.
    """
    deadline = monotonic() + timeout
    while True:
        seen = await observe()
        if satisfied(seen) or monotonic() > deadline:
            return seen
        await asyncio.sleep(_POLL_SECONDS)


class GatewayClient:
    """One key's view of the public door. Repeats a call that met a restart, as any client has to."""

    def __init__(self, url: str, key: str | None) -> None:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self.http = httpx.AsyncClient(base_url=url, headers=headers, timeout=30)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """The first answer that is not "come back later"."""
        deadline = monotonic() + PATIENCE_SECONDS
        while True:
            try:
                response = await self.http.request(method, path, **options)
            except httpx.TransportError:
                if monotonic() > deadline:
                    raise
            else:
                if response.status_code not in (502, 503) or monotonic() > deadline:
                    return response
            await asyncio.sleep(_POLL_SECONDS)

    async def get(self, path: str, **params: str | int) -> JsonObject:
        return _body(await self.call("GET", path, params=params), 200)

    async def post(self, path: str, body: JsonObject, *, status: int = 201) -> JsonObject:
        return _body(await self.call("POST", path, json=body), status)

    async def items(self, path: str, **params: str | int) -> list[JsonObject]:
        """The whole of a list, page by page."""
        found: list[JsonObject] = []
        cursor: dict[str, str] = {}
        while True:
            page = await self.get(path, **{"limit": 500, **params, **cursor})
            found += page["items"]
            if page["next_cursor"] is None:
                return found
            cursor = {"cursor": page["next_cursor"]}

    async def balance(self, account_id: str) -> JsonObject:
        return await self.get(f"/v1/accounts/{account_id}/balance")

    async def post_events(self, events: Sequence[JsonObject]) -> None:
        """In batches, every one of which must be taken whole."""
        for begin in range(0, len(events), HTTP_BATCH_EVENTS):
            batch = events[begin : begin + HTTP_BATCH_EVENTS]
            response = await self.call(
                "POST", "/v1/events", json=batch, headers={"content-type": CLOUDEVENTS_BATCH}
            )
            answer = _body(response, 202)
            assert answer == {"accepted": len(batch), "rejected": []}


def _body(response: httpx.Response, status: int) -> JsonObject:
    assert response.status_code == status, f"{response.request.url}: {response.status_code} {response.text}"
    body: JsonObject = response.json()
    return body


class NodeAgent:
    """Publishes reports straight to the broker."""

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self._producer = producer

    async def report(self, events: Sequence[JsonObject], mode: Mode = "structured") -> None:
        """Returns once the broker has them all, in the order given."""
        for begin in range(0, len(events), _IN_FLIGHT_MAX):
            acks = [await self._send(event, mode) for event in events[begin : begin + _IN_FLIGHT_MAX]]
            await asyncio.gather(*acks)

    async def send_raw(
        self,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes]] = (),
        key: bytes | None = None,
        *,
        topic: str = USAGE_TOPIC,
    ) -> None:
        await self._producer.send_and_wait(topic, value, key=key, headers=list(headers))

    async def _send(self, event: JsonObject, mode: Mode) -> "asyncio.Future[Any]":
        if mode == "binary":
            value, headers = binary(event)
        else:
            value, headers = structured(event), [("content-type", CLOUDEVENT.encode())]
        ack: asyncio.Future[Any] = await self._producer.send(
            USAGE_TOPIC, value, key=str(event["subject"]).encode(), headers=headers
        )
        return ack


@asynccontextmanager
async def node_agent(bootstrap: str) -> AsyncIterator[NodeAgent]:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        enable_idempotence=os.environ.get("KAFKA_ENABLE_IDEMPOTENCE", "true").lower() == "true",
        linger_ms=5,
        max_request_size=2 << 20,
    )
    await producer.start()
    try:
        yield NodeAgent(producer)
    finally:
        await producer.stop()


class Received(NamedTuple):
    key: bytes
    value: bytes
    headers: dict[str, str]


async def read_topic(bootstrap: str, topic: str) -> list[Received]:
    """All that a topic holds so far, partition by partition; nothing where there is no such topic yet."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    found: list[Received] = []
    try:
        await consumer.start()
        await consumer._client.set_topics([topic])
        places = [TopicPartition(topic, each) for each in consumer.partitions_for_topic(topic) or ()]
        if not places:
            return []
        ends = await end_offsets(consumer, places)
        await consumer.seek_to_beginning(*places)
        for place, end in ends.items():
            while await consumer.position(place) < end:
                for record in (await consumer.getmany(place, timeout_ms=500)).get(place, []):
                    headers = {name: value.decode(errors="replace") for name, value in record.headers}
                    found.append(Received(record.key or b"", record.value or b"", headers))
    finally:
        await consumer.stop()
    return found


async def end_offsets(
    consumer: AIOKafkaConsumer, places: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """Where the next record of each partition will be, as fetching tells it; assigns the partitions.

    Tansu answers a plain question for the latest offset with the beginning of the last record batch.
    """
    consumer.assign(places)
    await consumer.seek_to_end(*places)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while any(consumer.highwater(place) is None for place in places):
            await consumer.getmany(*places, timeout_ms=100)
    return {place: consumer.highwater(place) for place in places}
