"""Roles: `api` serves its routes, `worker` runs its consumers, `all` does both in one process.

Every role serves /healthz, /readyz and /metrics. SIGTERM or SIGINT ends it: the API finishes what it has,
the workers finish and commit the batch in hand, then the connections are closed.
"""

import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import uvicorn
import uvloop
from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from shared.problems import install_problems, problem_response
from shared.serving.http_protocol import LimitedHeadProtocol
from shared.settings import ServiceSettings
from shared.telemetry import instrument, setup_logging, setup_telemetry

log = logging.getLogger(__name__)

DRAIN_SECONDS: Final = 10
READY_TIMEOUT_SECONDS: Final = 3
WORKER_RESTART_SECONDS: Final = 1.0
KEEP_ALIVE_SECONDS: Final = 30
CONCURRENCY_MAX: Final = 10_000

Check = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Worker:
    """Runs until the event is set, then finishes what it has in hand."""

    name: str
    run: Callable[[asyncio.Event], Awaitable[None]]


@dataclass(frozen=True)
class Service:
    """What a composition root hands over: routes, workers, what readiness looks at, how to close."""

    name: str
    api: FastAPI
    workers: Sequence[Worker]
    checks: Mapping[str, Check]
    close: Callable[[], Awaitable[None]]


def run_service(
    name: str, settings: ServiceSettings, compose: Callable[[], Awaitable[Service]], role: str
) -> None:
    """Runs until a signal ends it; exits 1 with one clear line when the port is taken."""
    setup_logging()
    setup_telemetry(name)
    listener = _listen(name, settings.host, settings.port)
    uvloop.run(_run(compose, role, listener))


async def _run(compose: Callable[[], Awaitable[Service]], role: str, listener: socket.socket) -> None:
    service = await compose()
    app = service.api if role != "worker" else FastAPI(title=f"{service.name} worker")
    if role == "worker":
        install_problems(app)
    add_probes(app, service.checks)
    instrument(app)
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            http=LimitedHeadProtocol,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=DRAIN_SECONDS,
            limit_concurrency=CONCURRENCY_MAX,
            server_header=False,
        )
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    calm_garbage_collection()
    workers = (
        [] if role == "api" else [asyncio.create_task(_keep(worker, stop)) for worker in service.workers]
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    log.info("%s (%s) listens on %s:%d", service.name, role, *listener.getsockname()[:2])
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    server.should_exit = True
    _, late = await asyncio.wait({serving, stopping, *workers}, timeout=DRAIN_SECONDS)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    await service.close()
    log.info("%s stopped", service.name)


def calm_garbage_collection() -> None:
    """What is alive now stays: the collector need not look at it again in each hot batch."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def add_probes(app: FastAPI, checks: Mapping[str, Check]) -> None:
    """/healthz: the process answers. /readyz: database and broker answer it. /metrics: Prometheus."""

    @app.get("/healthz", tags=["operations"], summary="The process answers")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz", tags=["operations"], summary="All that it needs answers")
    async def readyz() -> Response:
        faults = dict(await asyncio.gather(*(_ask(name, check) for name, check in checks.items())))
        faults = {name: fault for name, fault in faults.items() if fault}
        if faults:
            detail = "; ".join(f"{name}: {fault}" for name, fault in faults.items())
            return problem_response(503, "not_ready", detail)
        return Response('{"status":"ready"}', media_type="application/json")

    @app.get("/metrics", tags=["operations"], summary="Metrics in Prometheus' text format")
    def metrics() -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)


async def _ask(name: str, check: Check) -> tuple[str, str | None]:
    try:
        await asyncio.wait_for(check(), READY_TIMEOUT_SECONDS)
    except TimeoutError:
        return name, f"no answer within {READY_TIMEOUT_SECONDS} s"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is wrong
        return name, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return name, None


async def _keep(worker: Worker, stop: asyncio.Event) -> None:
    """A worker that fails is logged and started again: one bad minute must not end billing."""
    while not stop.is_set():
        try:
            await worker.run(stop)
        except Exception:
            log.exception("worker %s failed, starting it again", worker.name)
            try:
                await asyncio.wait_for(stop.wait(), WORKER_RESTART_SECONDS)
            except TimeoutError:
                continue


def _listen(name: str, host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        sys.exit(f"{name}: cannot listen on {host}:{port}: {error.strerror}")
    return listener


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals end the whole service, not only its API."""
        yield
