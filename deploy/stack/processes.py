"""Processes that we start, and those that an earlier run of ours left behind."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from deploy.stack.errors import StackError

_TAIL_BYTES = 8_192
# What PostgreSQL adds below the line that says what is wrong.
_ASIDES = re.compile(r"\b(HINT|DETAIL|CONTEXT|STATEMENT):  ")
_LOG_BYTES_MAX = 16 << 20
_SAME_START_SECONDS = (
    1.5  # start times come from the kernel's clock ticks and may be told a little differently
)

# How to stop something: each signal, and how long it may take before the next.
Farewell = Sequence[tuple[signal.Signals, float]]


@dataclass(frozen=True)
class Identity:
    """A process id alone may by now be someone else's; together with the start time it is not."""

    pid: int
    started: float

    @staticmethod
    def of(pid: int) -> "Identity | None":
        try:
            return Identity(pid, psutil.Process(pid).create_time())
        except psutil.Error:
            return None

    def find(self) -> "psutil.Process | None":
        """The process, if it still runs."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < _SAME_START_SECONDS
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.Error:
            return None


@dataclass(frozen=True, kw_only=True)
class Part:
    """One long-running program of the stack."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    port: int
    ready: Callable[[], bool]
    ready_seconds: float
    farewell: Farewell
    user: str | None = None
    directory: Path | None = None
    after_restart: Callable[[], None] | None = None


def start(part: Part) -> subprocess.Popen[bytes]:
    """In a session of its own: a Ctrl-C at the terminal reaches us alone, and we stop the parts in order."""
    with open_log(part.log) as log:
        return subprocess.Popen(
            part.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(part.environment),
            cwd=part.directory,
            start_new_session=True,
            user=part.user,
            group=part.user and _primary_group(part.user),
            extra_groups=[] if part.user else None,
        )


def run_to_end(
    name: str, command: Sequence[str], *, environment: Mapping[str, str], log: Path, seconds: float
) -> None:
    """A program that ends by itself; raises StackError with its last line if it fails."""
    with open_log(log) as output:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise StackError(f"{name} took more than {seconds:.0f} s (log: {log})") from None
    if done.returncode:
        raise StackError(died(name, done.returncode, log))


def open_log(path: Path) -> "_Log":
    return _Log(path)


class _Log:
    """An append-only file; a large one makes way for a new one and is kept once."""

    def __init__(self, path: Path) -> None:
        if path.exists() and path.stat().st_size > _LOG_BYTES_MAX:
            path.replace(path.with_suffix(".log.1"))
        self._file = path.open("ab")

    def __enter__(self) -> int:
        return self._file.fileno()

    def __exit__(self, *_: object) -> None:
        self._file.close()


def died(name: str, returncode: int, log: Path) -> str:
    if returncode < 0:
        return f"{name} was killed by {signal.Signals(-returncode).name} (log: {log})"
    said = last_line(log)
    return f"{name} ended with exit code {returncode}{f': {said}' if said else ''} (log: {log})"


def last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    telling = [line.strip() for line in lines if line.strip() and not _ASIDES.search(line)]
    return telling[-1][:300] if telling else ""


def end(identities: Sequence[Identity], farewell: Farewell) -> None:
    """Ends processes together and waits until they are gone; then whatever their groups left behind."""
    led = [identity for identity in identities if identity.find()]
    for by_signal, seconds in farewell:
        alive = [process for identity in identities if (process := identity.find())]
        for process in alive:
            with suppress(psutil.Error):
                process.send_signal(by_signal)
        _wait_until_gone(identities, seconds)
    for identity in led:
        sweep_group(identity.pid)


def sweep_group(leader_pid: int) -> None:
    """Kills what is left of a group whose leader was alive a moment ago; an older id may be another's."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader_pid, signal.SIGKILL)


def _wait_until_gone(identities: Sequence[Identity], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(identity.find() for identity in identities):
        time.sleep(0.05)


def _primary_group(user: str) -> int:
    import pwd  # noqa: PLC0415 - exists on Unix only, and only root gets here

    return pwd.getpwnam(user).pw_gid
