"""HTTP ingest: one gateway process, batches of 100, each answer after the broker's acknowledgement."""

import asyncio
import json
import tempfile
from pathlib import Path
from signal import SIGTERM
from time import perf_counter
from typing import Final

from benchmarks.load import last_whole_hour, reports
from benchmarks.results import Result
from benchmarks.stages import Bench, topic_ends
from shared.contracts.topics import USAGE_REPORTED
from shared.time import system_clock
from tests.support.clients import CLOUDEVENTS_BATCH
from tests.support.databases import unique_suffix
from tests.support.stack import ServiceProcess, create_key, free_ports

EVENTS_PER_BATCH: Final = 100
CONNECTIONS: Final = 8
DISTINCT_BATCHES: Final = 50
WARM_SECONDS: Final = 2.0
MEASURED_SECONDS: Final = 15.0


class _Tally:
    def __init__(self) -> None:
        self.accepted = 0
        self.seconds: list[float] = []


async def http_ingest(bench: Bench) -> Result:
    bodies = _bodies(f"bench-{unique_suffix()}")
    (port,) = free_ports(1)
    async with bench.database("gateway") as urls:
        environment = {
            "GATEWAY_DATABASE_URL": urls.role_url,
            "GATEWAY_PORT": str(port),
            "KAFKA_BOOTSTRAP": bench.kafka.bootstrap,
        }
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            gateway = ServiceProcess(
                "gateway", port, environment, Path(directory) / "gateway.log", role="api"
            )
            key = create_key(environment, "--role", "agent", "--name", "bench", "--source-prefix", "/nodes")
            gateway.start()
            try:
                await gateway.wait_ready()
                requests = [_request(key, body) for body in bodies]
                before = await _events_in_topic(bench)
                await _post_for(port, requests, WARM_SECONDS)
                between = await _events_in_topic(bench)
                tally = await _post_for(port, requests, max(3.0, MEASURED_SECONDS * bench.scale))
                after = await _events_in_topic(bench)
            finally:
                await gateway.end(SIGTERM)
    assert between > before
    assert after - between == tally.accepted, f"{tally.accepted} accepted, {after - between} in the topic"
    tally.seconds.sort()
    busy = sum(tally.seconds) / CONNECTIONS
    return Result(
        "gateway: HTTP ingest, batches of 100, acked by the broker",
        tally.accepted / busy,
        "events/s",
        40_000,
        details={
            "connections": CONNECTIONS,
            "p50 ms": 1_000 * tally.seconds[len(tally.seconds) // 2],
            "p99 ms": 1_000 * tally.seconds[int(len(tally.seconds) * 0.99)],
        },
    )


def _bodies(prefix: str) -> list[bytes]:
    load = reports(
        prefix,
        last_whole_hour(system_clock()),
        resources=DISTINCT_BATCHES * EVENTS_PER_BATCH,
        rounds=1,
        adjoining=1,
    )
    events = [message.value for message in load.messages]
    return [
        b"[" + b",".join(events[begin : begin + EVENTS_PER_BATCH]) + b"]"
        for begin in range(0, len(events), EVENTS_PER_BATCH)
    ]


def _request(key: str, body: bytes) -> bytes:
    return (
        f"POST /v1/events HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {key}\r\n"
        f"content-type: {CLOUDEVENTS_BATCH}\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode() + body


async def _post_for(port: int, requests: list[bytes], seconds: float) -> _Tally:
    tally = _Tally()
    deadline = perf_counter() + seconds
    async with asyncio.TaskGroup() as connections:
        for number in range(CONNECTIONS):
            own = requests[number::CONNECTIONS]
            connections.create_task(_keep_posting(port, own, deadline, tally))
    return tally


async def _keep_posting(port: int, requests: list[bytes], deadline: float, tally: _Tally) -> None:
    """A client as thin as can be: it shares the two cores with what is measured."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        turn = 0
        while (began := perf_counter()) < deadline:
            writer.write(requests[turn % len(requests)])
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            body = await reader.readexactly(length)
            tally.seconds.append(perf_counter() - began)
            assert head.startswith(b"HTTP/1.1 202"), (head, body)
            tally.accepted += json.loads(body)["accepted"]
            turn += 1
    finally:
        writer.close()
        await writer.wait_closed()


async def _events_in_topic(bench: Bench) -> int:
    return sum((await topic_ends(bench.kafka, USAGE_REPORTED)).values())
