"""`run`: a command beside a stack, which may be a throw-away one."""

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from deploy.stack.errors import StackError, StopAskedError
from deploy.stack.ports import choose_free
from deploy.stack.postgres import delete_data
from deploy.stack.record import is_supervised
from deploy.stack.session import WATCH_SECONDS, on_signals, prepare_run_dir, supervised
from deploy.stack.settings import Broker, Plan, Ports, child_environment, read_stack_env
from deploy.stack.supervisor import Supervisor, stop_orphans

_EPHEMERAL_PREFIX = "gpu-billing-run-"
_EXIT_INTERRUPTED = 130

log = logging.getLogger("stack")


def run(plan: Plan, command: list[str]) -> int:
    """On the stack that is up in the run directory, or on one that lives as long as the command."""
    prepare_run_dir(plan)
    if is_supervised(plan.run_dir):
        return _run_with(read_stack_env(plan.stack_env), command)
    return _run_on_own_stack(plan, command)


def run_ephemeral(command: list[str], *, broker: Broker, services: bool, keep: bool) -> int:
    _sweep_ephemeral()
    run_dir = Path(tempfile.mkdtemp(prefix=_EPHEMERAL_PREFIX))
    run_dir.chmod(0o711)
    gateway, metering, pricing, wallet, kafka, postgres = choose_free(6)
    ports = Ports(
        gateway=gateway, metering=metering, pricing=pricing, wallet=wallet, kafka=kafka, postgres=postgres
    )
    plan = Plan(run_dir=run_dir, ports=ports, broker=broker, services=services)
    try:
        exit_code = _run_on_own_stack(plan, command)
    except StackError:
        _delete_run(run_dir, but_not="log")  # the error names a log
        raise
    if keep:
        print(f"Data and logs are left in {run_dir}", file=sys.stderr)
    else:
        _delete_run(run_dir)
    return exit_code


def _run_on_own_stack(plan: Plan, command: list[str]) -> int:
    prepare_run_dir(plan)
    begun = time.monotonic()
    try:
        with supervised(plan, log.info) as supervisor:
            parts = ", ".join(f"{part} {port}" for part, port in plan.parts().items())
            print(f"Stack ready in {time.monotonic() - begun:.1f} s: {parts}", file=sys.stderr, flush=True)
            return _run_beside(supervisor, command)
    except StopAskedError:
        return _EXIT_INTERRUPTED


def _run_beside(supervisor: Supervisor, command: list[str]) -> int:
    try:
        process = subprocess.Popen(command, env=child_environment(supervisor.variables))
    except OSError as error:
        raise StackError(f"{command[0]} could not be started: {error.strerror}") from None

    def pass_on(number: int) -> None:
        if number != signal.SIGINT:  # the terminal has told it already
            process.send_signal(number)

    restore = on_signals(pass_on)
    try:
        while True:
            try:
                returncode = process.wait(WATCH_SECONDS)
            except subprocess.TimeoutExpired:
                supervisor.watch_once()
            else:
                return returncode if returncode >= 0 else 128 - returncode
    finally:
        restore()


def _run_with(variables: dict[str, str], command: list[str]) -> int:
    try:
        return subprocess.run(command, env=child_environment(variables), check=False).returncode
    except OSError as error:
        raise StackError(f"{command[0]} could not be started: {error.strerror}") from None


def _sweep_ephemeral() -> None:
    """Removes what runs that were killed left behind."""
    for run_dir in Path(tempfile.gettempdir()).glob(f"{_EPHEMERAL_PREFIX}*"):
        # The record is written under the lock: one that is just being made has none yet.
        record = run_dir / "stack.json"
        if record.exists() and record.stat().st_uid == os.geteuid() and not is_supervised(run_dir):
            stop_orphans(Plan(run_dir=run_dir, ports=Ports()))
            _delete_run(run_dir)


def _delete_run(run_dir: Path, *, but_not: str = "") -> None:
    delete_data(run_dir)
    for path in run_dir.iterdir():
        if path.is_dir() and path.name != but_not:
            shutil.rmtree(path, ignore_errors=True)
        elif not path.is_dir():
            path.unlink(missing_ok=True)
    if not but_not:
        run_dir.rmdir()
