"""`up`, `down` and `status`."""

import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TextIO

from deploy.stack.errors import StackError, StopAskedError
from deploy.stack.ports import answers
from deploy.stack.postgres import delete_data
from deploy.stack.processes import Identity, end, open_log
from deploy.stack.record import Record, is_supervised
from deploy.stack.session import WATCH_SECONDS, prepare_run_dir, short, supervised
from deploy.stack.settings import ROOT, Plan
from deploy.stack.supervisor import Supervisor, stop_orphans

_READY_LINE = "ready"
_ERROR_PREFIX = "error: "
_OTHERS_START_SECONDS = 240
_STOP_SECONDS = 90

EXIT_FAILED = 1
EXIT_NOT_UP = 3
EXIT_INTERRUPTED = 130

log = logging.getLogger("stack")


def up_in_background(plan: Plan) -> int:
    """Leaves a supervisor behind, and relays what it says until the stack is ready or has failed."""
    prepare_run_dir(plan)
    if _is_up_already(plan):
        return 0
    reading, writing = os.pipe()
    command = [sys.executable, str(ROOT / "deploy" / "local.py"), "up", "--foreground"]
    command += [f"--report-to={writing}", f"--run-dir={plan.run_dir}", f"--broker={plan.broker}"]
    command += [] if plan.services else ["--no-services"]
    chosen_ports = {f"{part.upper()}_PORT": str(port) for part, port in plan.ports.by_part().items()}
    with open_log(plan.log_of("stack")) as output:
        supervisor = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ | chosen_ports,
            pass_fds=[writing],
            start_new_session=True,
        )
    os.close(writing)
    with os.fdopen(reading) as report:
        try:
            ready = _relay(report)
        except KeyboardInterrupt:
            print("Stopping", flush=True)
            supervisor.terminate()
            ready = _relay(report)
    return 0 if ready else supervisor.wait() or EXIT_FAILED


def _relay(report: Iterable[str]) -> bool:
    for line in report:
        text = line.rstrip("\n")
        if text == _READY_LINE:
            return True
        print(text, file=sys.stderr if text.startswith(_ERROR_PREFIX) else sys.stdout, flush=True)
    return False


def up_in_foreground(plan: Plan) -> int:
    prepare_run_dir(plan)
    if _is_up_already(plan):
        return 0

    def say(text: str) -> None:
        log.info(text.strip())
        print(text, flush=True)

    try:
        print(f"Starting the stack in {short(plan.run_dir)}", flush=True)
        with supervised(plan, say) as supervisor:
            for line in _welcome(plan, supervisor):
                print(line, flush=True)
            print("Ctrl-C stops it.", flush=True)
            _watch(supervisor)
            print("Stopping", flush=True)
    except StopAskedError:
        return EXIT_INTERRUPTED
    print("Stopped.", flush=True)
    return 0


def up_as_supervisor(plan: Plan, report_to: int) -> int:
    """The process that `up` leaves behind: it speaks to `up` until all is ready, then to its log only."""
    report: TextIO = os.fdopen(report_to, "w", buffering=1)

    def say(text: str) -> None:
        log.info(text.strip())
        if not report.closed:
            report.write(f"{text}\n")

    try:
        report.write(f"Starting the stack in {short(plan.run_dir)}\n")
        with supervised(plan, say) as supervisor:
            report.writelines(f"{line}\n" for line in (*_welcome(plan, supervisor), _READY_LINE))
            report.close()
            _watch(supervisor)
    except StopAskedError:
        return EXIT_INTERRUPTED
    except StackError as error:
        log.error(str(error))  # noqa: TRY400 - one line says it
        report.write(f"{_ERROR_PREFIX}{error}\n")
        return EXIT_FAILED
    return 0


def _watch(supervisor: Supervisor) -> None:
    while not supervisor.stop_asked:
        supervisor.watch_once()
        time.sleep(WATCH_SECONDS)


def _welcome(plan: Plan, supervisor: Supervisor) -> Iterator[str]:
    if plan.services:
        yield f"Ready: {supervisor.variables['GATEWAY_URL']} (API documentation: /docs)"
    else:
        yield "Ready."
    if supervisor.first_key:
        yield f"Operator key, shown once and kept in {short(plan.stack_env)}: {supervisor.first_key}"
    yield f"Settings for your shell: set -a; . {short(plan.stack_env)}; set +a"


def _is_up_already(plan: Plan) -> bool:
    """Waits for one that is just starting or stopping."""
    deadline = time.monotonic() + _OTHERS_START_SECONDS
    while is_supervised(plan.run_dir):
        record = Record.load(plan.run_dir)
        if record and record.state == "ready":
            if record.ports != plan.parts() or record.broker != plan.broker:
                there = ", ".join(f"{part} {port}" for part, port in record.ports.items())
                raise StackError(
                    f"a different stack ({record.broker}; {there}) is already up in {short(plan.run_dir)}; "
                    "stop it first, or give --run-dir for a second one"
                )
            where = f" at http://127.0.0.1:{plan.ports.gateway}" if plan.services else ""
            print(f"Already up{where}; settings in {short(plan.stack_env)}")
            return True
        if time.monotonic() > deadline:
            raise StackError(
                f"another process is starting a stack in {plan.run_dir} and does not come to an end"
            )
        time.sleep(WATCH_SECONDS)
    return False


def down(plan: Plan, *, delete: bool) -> int:
    stopped = _stop_supervisor(plan) if plan.run_dir.exists() else False
    stopped = bool(stop_orphans(plan)) or stopped
    if delete:
        delete_data(plan.run_dir)
        shutil.rmtree(plan.run_dir, ignore_errors=True)
        print("Stopped; data deleted." if stopped else "Data deleted.")
    else:
        print("Stopped." if stopped else "Not running.")
    return 0


def _stop_supervisor(plan: Plan) -> bool:
    if not is_supervised(plan.run_dir):
        return False
    try:
        pid = int(plan.stack_pid.read_text())
    except (OSError, ValueError):
        raise StackError(f"a stack runs in {plan.run_dir}, but {plan.stack_pid} does not say which") from None
    identity = Identity.of(pid)
    if identity is not None:
        end([identity], [(signal.SIGTERM, _STOP_SECONDS), (signal.SIGKILL, 5)])
    return True


def status(plan: Plan) -> int:
    record = Record.load(plan.run_dir)
    if record is None or not is_supervised(plan.run_dir):
        left = [name for name, at in record.processes.items() if at.find()] if record else []
        print(f"Not up; left behind by a killed run: {', '.join(left)}." if left else "Not up.")
        return EXIT_NOT_UP
    print(f"The stack in {short(plan.run_dir)} is {record.state} (broker: {record.broker})")
    for part, port in record.ports.items():
        identity = record.processes.get(part)
        alive = bool(identity and identity.find()) and answers(port)
        process = f"pid {identity.pid}" if identity else "-"
        restarts = record.restarts.get(part, 0)
        again = f"  restarted {restarts} x" if restarts else ""
        print(f"  {part:<9} 127.0.0.1:{port:<6} {'up' if alive else 'down':<5} {process}{again}")
    return 0 if record.state == "ready" else EXIT_NOT_UP
