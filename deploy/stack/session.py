"""A stack that runs as long as a block of ours does."""

import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from deploy.stack.errors import StackError
from deploy.stack.record import Lock
from deploy.stack.settings import Plan
from deploy.stack.supervisor import Supervisor, Tell

WATCH_SECONDS = 0.2

log = logging.getLogger("stack")


def prepare_run_dir(plan: Plan) -> None:
    # Others may pass through, since PostgreSQL may run as another user; the files in it are private.
    plan.run_dir.mkdir(mode=0o711, parents=True, exist_ok=True)
    plan.log_dir.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def supervised(plan: Plan, tell: Tell) -> Iterator[Supervisor]:
    """A running stack, stopped in order when the block ends, however it ends."""
    lock = Lock(plan.run_dir)
    if not lock.acquire():
        raise StackError(f"a stack is already up in {short(plan.run_dir)}")
    _log_to(plan)
    supervisor = Supervisor(plan, tell)
    restore = on_signals(lambda _signal: supervisor.ask_to_stop())
    try:
        supervisor.start()
        yield supervisor
    finally:
        supervisor.stop()
        lock.release()
        restore()


def on_signals(react: Callable[[int], None]) -> Callable[[], None]:
    def handler(number: int, _frame: FrameType | None) -> None:
        react(number)

    before = {
        number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }

    def restore() -> None:
        for number, previous in before.items():
            signal.signal(number, previous)

    return restore


def _log_to(plan: Plan) -> None:
    handler = logging.FileHandler(plan.log_of("stack"))
    formatter = logging.Formatter("%(asctime)sZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    log.handlers = [handler]
    log.propagate = False
    log.setLevel(logging.INFO)


def short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
