"""The four services as the real processes they are, on databases of their own."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

import httpx
import pytest

from tests.support.databases import REPOSITORY, SERVICES, DatabaseUrls, MakeDatabase

READY_SECONDS: Final = 120.0
STOP_SECONDS: Final = 20.0
_LOG_TAIL_CHARACTERS: Final = 4_000
_POLL_SECONDS: Final = 0.05


@dataclass
class ServiceProcess:
    """One service that can be ended and started again on the same port."""

    name: str
    port: int
    environment: Mapping[str, str]
    log: Path
    role: str = "all"
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"services.{self.name}", self.role],
                cwd=REPOSITORY,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    async def end(self, number: signal.Signals) -> int:
        """Its exit code, once it is gone."""
        process = self.process
        assert process is not None
        process.send_signal(number)
        try:
            return await asyncio.to_thread(process.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)
            raise AssertionError(f"{self.name} did not stop on {number.name}:\n{self.tail()}") from None

    async def restart(self, number: signal.Signals) -> None:
        await self.end(number)
        self.start()

    async def wait_ready(self) -> None:
        deadline = monotonic() + READY_SECONDS
        async with httpx.AsyncClient(base_url=self.url) as client:
            while True:
                assert self.process is not None
                if self.process.poll() is not None:
                    raise AssertionError(f"{self.name} ended by itself:\n{self.tail()}")
                try:
                    response = await client.get("/readyz")
                except httpx.TransportError as error:
                    answer = str(error)
                else:
                    if response.status_code == 200:
                        return
                    answer = response.text
                if monotonic() > deadline:
                    raise AssertionError(f"{self.name} is not ready: {answer}\n{self.tail()}")
                await asyncio.sleep(_POLL_SECONDS)

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-_LOG_TAIL_CHARACTERS:]


@dataclass
class Stack:
    """Where a running system is, and, where it is ours, its parts."""

    gateway_url: str
    kafka_bootstrap: str
    operator_key: str
    services: Mapping[str, ServiceProcess]
    databases: Mapping[str, DatabaseUrls]

    def require_own(self) -> None:
        """For tests that end services or cut databases off."""
        if not self.services:
            pytest.fail("needs a stack of its own: unset OPERATOR_KEY", pytrace=False)

    async def restart(self, name: str, number: signal.Signals) -> None:
        await self.services[name].restart(number)
        await self.services[name].wait_ready()

    def create_key(self, *arguments: str) -> str:
        """A further key from the gateway's command line: `create_key("--role", "agent", "--name", ...)`."""
        return create_key(self.services["gateway"].environment, *arguments)


@asynccontextmanager
async def running_stack(
    make_database: MakeDatabase, kafka_bootstrap: str, settings: Mapping[str, str]
) -> AsyncIterator[Stack]:
    """Four services on free ports; `settings` are further variables for all of them."""
    ports = dict(zip(SERVICES, free_ports(len(SERVICES)), strict=True))
    environment = {
        "KAFKA_BOOTSTRAP": kafka_bootstrap,
        **{f"{name.upper()}_PORT": str(port) for name, port in ports.items()},
        **{
            f"GATEWAY_{name.upper()}_URL": f"http://127.0.0.1:{ports[name]}"
            for name in SERVICES
            if name != "gateway"
        },
        "PRICING_METERING_URL": f"http://127.0.0.1:{ports['metering']}",
        **settings,
    }
    databases = {name: await make_database(name) for name in SERVICES}
    for name, urls in databases.items():
        environment[f"{name.upper()}_DATABASE_URL"] = urls.role_url
        environment[f"{name.upper()}_MIGRATION_URL"] = urls.owner_url
    with tempfile.TemporaryDirectory(prefix="stack-") as directory:
        services = {
            name: ServiceProcess(name, ports[name], environment, Path(directory) / f"{name}.log")
            for name in SERVICES
        }
        try:
            operator_key = create_key(environment, "--role", "operator", "--name", "first")
            for service in services.values():
                service.start()
            await asyncio.gather(*(service.wait_ready() for service in services.values()))
            yield Stack(services["gateway"].url, kafka_bootstrap, operator_key, services, databases)
        finally:
            for service in services.values():
                if service.process is not None and service.process.poll() is None:
                    await service.end(signal.SIGTERM)


def create_key(environment: Mapping[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "services.gateway", "create-key", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()
