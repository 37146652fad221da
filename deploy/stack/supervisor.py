"""Starts the parts in order, watches them, starts one again that died, and stops all in order."""

import logging
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from deploy.stack.broker import apache_part, tansu_part
from deploy.stack.errors import StackError, StopAskedError
from deploy.stack.ports import require_free
from deploy.stack.postgres import FAREWELL as POSTGRES_FAREWELL
from deploy.stack.postgres import Postgres
from deploy.stack.processes import (
    Farewell,
    Identity,
    Part,
    died,
    end,
    last_line,
    run_to_end,
    start,
    sweep_group,
)
from deploy.stack.record import Record
from deploy.stack.settings import (
    HOST,
    ROOT,
    SERVICES,
    Plan,
    Secrets,
    child_environment,
    stack_variables,
    write_private,
    write_stack_env,
)

# A service takes up to 10 s to finish what it has in hand.
_SERVICE_FAREWELL: Farewell = [(signal.SIGTERM, 12), (signal.SIGKILL, 5)]
_BROKER_FAREWELL: Farewell = [(signal.SIGTERM, 20), (signal.SIGKILL, 5)]
_SERVICE_READY_SECONDS = 120
_ONE_SHOT_SECONDS = 120
_POLL_SECONDS = 0.1
_PAUSE_FIRST_SECONDS = 0.5
_PAUSE_MAX_SECONDS = 30.0
_STEADY_SECONDS = 30  # a part that has run for so long starts its pauses anew

Tell = Callable[[str], None]
log = logging.getLogger("stack")


@dataclass
class _Child:
    part: Part
    process: "subprocess.Popen[bytes]"
    started_at: float
    recovering: bool = False
    restart_at: float | None = None
    pause_seconds: float = 0.0


class Supervisor:
    """One stack. `start`, then `watch_once` again and again, then `stop`, whatever happened before."""

    def __init__(self, plan: Plan, tell: Tell) -> None:
        self._plan = plan
        self._tell = tell
        self._children: dict[str, _Child] = {}
        self._record = Record(state="starting", broker=plan.broker, ports=plan.parts())
        self._stop_asked = False
        self._secrets: Secrets | None = None
        self.variables: dict[str, str] = {}
        self.first_key = ""

    def ask_to_stop(self) -> None:
        self._stop_asked = True

    @property
    def stop_asked(self) -> bool:
        """Also when our run directory was deleted: then nobody could find the parts again."""
        return self._stop_asked or not self._plan.stack_pid.exists()

    # -- start ------------------------------------------------------------

    def start(self) -> None:
        plan = self._plan
        plan.log_dir.mkdir(parents=True, exist_ok=True)
        stop_orphans(plan)
        secrets_path = plan.run_dir / "secrets.json"
        kept = Secrets.load_or_create(secrets_path)
        postgres = Postgres(plan, kept)
        postgres.end_leftover()
        require_free(plan.parts())
        write_private(plan.stack_pid, f"{os.getpid()}\n")
        self._record.store(plan.run_dir)

        with self._timed("postgres", f"127.0.0.1:{plan.ports.postgres}"):
            if postgres.initialise() and kept.operator_key:
                kept = kept.with_operator_key("")  # of a database that is no more
                kept.store(secrets_path)
            self._launch(postgres.part())
            self._await_ready("postgres")
            postgres.create_databases()
        self._secrets = kept
        self.variables = stack_variables(plan, kept)
        with self._timed("kafka", f"{HOST}:{plan.ports.kafka}  ({_BROKER_NAMES[plan.broker]})"):
            self._launch(tansu_part(plan) if plan.broker == "tansu" else apache_part(plan))
            self._await_ready("kafka")
        if plan.services:
            self._start_services()
        write_stack_env(plan, self.variables)
        self._record.state = "ready"
        self._record.store(plan.run_dir)
        log.info("the stack is ready on ports: %s", plan.ports)

    def _start_services(self) -> None:
        with self._timed("migrations", "four databases, topics"):
            self._migrate_and_make_topics()
        with self._timed(
            "services", " ".join(f"{name}:{self._plan.ports.by_part()[name]}" for name in SERVICES)
        ):
            for service in SERVICES:
                self._launch(self._service_part(service))
            self._make_first_key()  # while they start
            for service in SERVICES:
                self._await_ready(service)

    def _migrate_and_make_topics(self) -> None:
        steps: list[tuple[str, list[str]]] = [
            (f"migrate-{service}", [f"services.{service}", "migrate"]) for service in SERVICES
        ]
        steps.append(("topics", ["shared.kafka", "topics"]))
        with ThreadPoolExecutor(len(steps)) as pool:
            waiting = [pool.submit(self._run_module, name, module) for name, module in steps]
        for done in waiting:
            done.result()

    def _make_first_key(self) -> None:
        assert self._secrets is not None  # noqa: S101 - start() has set it
        if self._secrets.operator_key:
            return
        command = [
            sys.executable,
            "-m",
            "services.gateway",
            "create-key",
            "--role",
            "operator",
            "--name",
            "first",
        ]
        errors = self._plan.log_of("create-key")
        with errors.open("wb") as stderr:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=child_environment(self.variables),
                cwd=ROOT,
                text=True,
                timeout=_ONE_SHOT_SECONDS,
                check=False,
            )
        lines = done.stdout.split()
        if done.returncode or not lines:
            raise StackError(died("making the first operator key", done.returncode, errors))
        self.first_key = lines[-1]
        self._secrets = self._secrets.with_operator_key(self.first_key)
        self._secrets.store(self._plan.run_dir / "secrets.json")
        self.variables = stack_variables(self._plan, self._secrets)

    def _run_module(self, name: str, module: list[str]) -> None:
        run_to_end(
            name,
            [sys.executable, "-m", *module],
            environment=child_environment(self.variables),
            log=self._plan.log_of(name),
            seconds=_ONE_SHOT_SECONDS,
        )

    def _service_part(self, service: str) -> Part:
        port = self._plan.ports.by_part()[service]
        return Part(
            name=service,
            command=[sys.executable, "-m", f"services.{service}", "all"],
            environment=child_environment(self.variables),
            log=self._plan.log_of(service),
            port=port,
            ready=lambda: _answers_ready(port),
            ready_seconds=_SERVICE_READY_SECONDS,
            farewell=_SERVICE_FAREWELL,
            directory=ROOT,
        )

    def _launch(self, part: Part) -> None:
        try:
            process = start(part)
        except OSError as error:
            raise StackError(f"{part.name} could not be started: {error}") from None
        self._children[part.name] = _Child(part, process, time.monotonic())
        self._note(part.name, process.pid)

    def _note(self, name: str, pid: int) -> None:
        if identity := Identity.of(pid):
            self._record.processes[name] = identity
            with suppress(FileNotFoundError):  # the run directory was deleted; the next look stops us
                self._record.store(self._plan.run_dir)

    def _await_ready(self, name: str) -> None:
        part = self._children[name].part
        deadline = time.monotonic() + part.ready_seconds
        while not part.ready():
            for other in self._children.values():
                if (returncode := other.process.poll()) is not None and not self._stop_asked:
                    raise StackError(died(other.part.name, returncode, other.part.log))
            if self._stop_asked:
                raise StopAskedError
            if time.monotonic() > deadline:
                said = f": {line}" if (line := last_line(part.log)) else ""
                raise StackError(
                    f"{name} was not ready after {part.ready_seconds:.0f} s{said} (log: {part.log})"
                )
            time.sleep(_POLL_SECONDS)

    @contextmanager
    def _timed(self, name: str, what: str) -> Iterator[None]:
        begun = time.monotonic()
        yield
        if self._stop_asked:
            raise StopAskedError
        self._tell(f"  {name:<11}{what}  {time.monotonic() - begun:.1f} s")

    # -- watch ------------------------------------------------------------

    def watch_once(self) -> None:
        """Looks at each part once. Does not raise: what cannot be mended now is tried again later."""
        now = time.monotonic()
        for child in self._children.values():
            if child.restart_at is not None:
                if now >= child.restart_at:
                    self._restart(child)
            elif (returncode := child.process.poll()) is not None:
                self._plan_restart(child, returncode, now)
            elif child.recovering and child.part.ready():
                self._recovered(child)

    def _plan_restart(self, child: _Child, returncode: int, now: float) -> None:
        part = child.part
        if part.name != "postgres":  # its children leave by themselves, and are not in its group
            sweep_group(child.process.pid)
        longer = 0.0 if now - child.started_at > _STEADY_SECONDS else child.pause_seconds * 2
        child.pause_seconds = min(max(longer, _PAUSE_FIRST_SECONDS), _PAUSE_MAX_SECONDS)
        child.restart_at = now + child.pause_seconds
        lost = " Tansu keeps the log in memory: what was in it is gone." if self._is_tansu(part) else ""
        self._tell(
            f"{died(part.name, returncode, part.log)}.{lost} Starting it again in {child.pause_seconds:g} s."
        )

    def _restart(self, child: _Child) -> None:
        child.restart_at = None
        child.started_at = time.monotonic()
        child.recovering = True
        try:
            child.process = start(child.part)
        except OSError as error:
            log.error("%s could not be started: %s", child.part.name, error)  # noqa: TRY400 - one line says it
            child.restart_at = child.started_at + child.pause_seconds
            return
        name = child.part.name
        self._record.restarts[name] = self._record.restarts.get(name, 0) + 1
        self._note(name, child.process.pid)

    def _recovered(self, child: _Child) -> None:
        child.recovering = False
        self._tell(f"{child.part.name} is ready again after {time.monotonic() - child.started_at:.1f} s.")
        if self._is_tansu(child.part) and self._plan.services:
            try:
                self._run_module("topics", ["shared.kafka", "topics"])
            except StackError as error:
                self._tell(str(error))

    def _is_tansu(self, part: Part) -> bool:
        return part.name == "kafka" and self._plan.broker == "tansu"

    # -- stop ------------------------------------------------------------

    def stop(self) -> None:
        """Services first, so that they commit what they hold; then the broker; the database last."""
        self._record.state = "stopping"
        with suppress(FileNotFoundError):
            self._record.store(self._plan.run_dir)
        _end_in_order(self._record.processes)
        for child in self._children.values():
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(timeout=1)
        Record.forget(self._plan.run_dir)
        log.info("the stack has stopped")


_BROKER_NAMES: Mapping[str, str] = {"tansu": "Tansu, in memory", "apache": "Apache Kafka"}


def stop_orphans(plan: Plan) -> list[str]:
    """Stops what a supervisor that was killed left running; their names."""
    record = Record.load(plan.run_dir)
    if record is None:
        return []
    running = {name: identity for name, identity in record.processes.items() if identity.find()}
    if running:
        log.warning("stopping what an earlier run left behind: %s", ", ".join(running))
        _end_in_order(running)
    Record.forget(plan.run_dir)
    return list(running)


def _end_in_order(processes: Mapping[str, Identity]) -> None:
    end([processes[name] for name in SERVICES if name in processes], _SERVICE_FAREWELL)
    if broker := processes.get("kafka"):
        end([broker], _BROKER_FAREWELL)
    if postgres := processes.get("postgres"):
        end([postgres], POSTGRES_FAREWELL)


def _answers_ready(port: int) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{HOST}:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)  # noqa: PLR2004 - the HTTP status
    except (urllib.error.URLError, OSError, ValueError):
        return False
