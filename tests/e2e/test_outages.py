"""What a service says when something that it needs is not there."""

import signal
import socket
from pathlib import Path

import httpx
import pytest

from tests.support.clients import wait_for
from tests.support.databases import SERVICES
from tests.support.stack import ServiceProcess, free_ports


def _lonely_service(name: str, port: int, directory: Path) -> ServiceProcess:
    """A service whose database and broker are at addresses where nobody listens."""
    nobody_database, nobody_broker = free_ports(2)
    environment = {
        f"{name.upper()}_PORT": str(port),
        f"{name.upper()}_DATABASE_URL": f"postgresql+asyncpg://nobody:x@127.0.0.1:{nobody_database}/none",
        "KAFKA_BOOTSTRAP": f"127.0.0.1:{nobody_broker}",
    }
    return ServiceProcess(name, port, environment, directory / f"{name}.log")


@pytest.mark.parametrize("name", SERVICES)
async def test_a_service_without_database_and_broker_waits_says_so_and_stops_when_asked(
    name: str, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    service = _lonely_service(name, port, tmp_path)
    service.start()
    try:
        async with httpx.AsyncClient(base_url=service.url, timeout=15) as client:

            async def readiness() -> httpx.Response | None:
                try:
                    return await client.get("/readyz")
                except httpx.TransportError:
                    return None

            response = await wait_for(readiness, lambda seen: seen is not None)
            assert response is not None
            assert response.status_code == 503
            assert response.json()["code"] == "not_ready"
            assert {"database", "broker"} <= set(response.json()["detail"].replace(":", " ").split())
            assert (await client.get("/healthz")).status_code == 200
    finally:
        assert await service.end(signal.SIGTERM) == 0
    assert "Traceback" not in service.tail()


@pytest.mark.parametrize("name", SERVICES)
async def test_a_taken_port_ends_the_service_with_one_clear_line(name: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        service = _lonely_service(name, port, tmp_path)
        service.start()
        assert service.process is not None
        assert service.process.wait(30) == 1
    (line,) = service.tail().splitlines()
    assert name in line
    assert str(port) in line
