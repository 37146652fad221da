"""What is written down about a running stack, so that any later command can find it, even after a kill -9."""

import fcntl
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from deploy.stack.processes import Identity
from deploy.stack.settings import write_private

State = Literal["starting", "ready", "stopping"]


@dataclass
class Record:
    state: State
    broker: str
    ports: dict[str, int]
    processes: dict[str, Identity] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, run_dir: Path) -> "Record | None":
        try:
            stored = json.loads((run_dir / "stack.json").read_text())
            return cls(
                **stored | {"processes": {name: Identity(**at) for name, at in stored["processes"].items()}}
            )
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def store(self, run_dir: Path) -> None:
        write_private(run_dir / "stack.json", json.dumps(asdict(self), indent=1))

    @staticmethod
    def forget(run_dir: Path) -> None:
        for name in ("stack.json", "stack.pid"):
            (run_dir / name).unlink(missing_ok=True)


class Lock:
    """Held by the supervisor as long as it lives. The kernel lets go of it however the supervisor dies."""

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / "stack.lock"
        self._handle: int | None = None

    def acquire(self) -> bool:
        self._handle = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            return False
        return True

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def is_supervised(run_dir: Path) -> bool:
    if not (run_dir / "stack.lock").exists():
        return False
    lock = Lock(run_dir)
    try:
        return not lock.acquire()
    finally:
        lock.release()
