"""What the server itself refuses, before any route (shared.serving.http_protocol)."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
import uvicorn
from fastapi import FastAPI

from shared.serving import http_protocol


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS_MAX", 0.3)
    app = FastAPI()

    @app.get("/slow")
    async def slow() -> str:
        await asyncio.sleep(0.8)  # longer than a head may take: that limit is not the answer's
        return "done"

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http=http_protocol.LimitedHeadProtocol, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    yield int(listener.getsockname()[1])
    server.should_exit = True
    await serving


@pytest.mark.parametrize("said", [b"", b"GET /slow HTTP/1.1\r\nhost: x\r\n"], ids=["nothing", "half a head"])
async def test_a_connection_that_does_not_finish_its_head_is_closed(said: bytes, port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    assert await asyncio.wait_for(reader.read(), 20) == b""
    writer.close()


async def test_a_slow_answer_is_not_cut_off_and_the_idle_connection_after_it_is(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 20)
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b'"done"')
    writer.close()
