"""The stack's command line."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.stack.broker import MavenUnreachableError, fetch_apache_kafka
from deploy.stack.errors import StackError
from deploy.stack.run import run, run_ephemeral
from deploy.stack.settings import ROOT, Plan, Ports
from deploy.stack.up import down, status, up_as_supervisor, up_in_background, up_in_foreground

_EXIT_FAILED = 1
_EXIT_UNREACHABLE = 75  # EX_TEMPFAIL: the machine is off-line
_EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _dispatch(options)
    except MavenUnreachableError as error:
        return _say(str(error), _EXIT_UNREACHABLE)
    except StackError as error:
        return _say(str(error), _EXIT_FAILED)
    except PermissionError as error:
        return _say(f"{error.strerror}: {error.filename or 'a process of another user'}", _EXIT_FAILED)
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED


def _say(text: str, exit_code: int) -> int:
    print(f"error: {text}", file=sys.stderr, flush=True)
    return exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="deploy/local.py",
        description="The whole system on this machine: PostgreSQL, a broker and the four services.",
        epilog="Ports, from the environment: GATEWAY_PORT 8080, METERING_PORT 8081, PRICING_PORT 8082, "
        "WALLET_PORT 8083, KAFKA_PORT 9092, POSTGRES_PORT 5432.",
    )
    place = argparse.ArgumentParser(add_help=False)
    place.add_argument("--run-dir", type=Path, help="data, logs and stack.env (default: $RUN_DIR or .run)")
    place.add_argument(
        "--port-offset", type=int, help="added to the default ports (default: $PORT_OFFSET or 0)"
    )
    kind = argparse.ArgumentParser(add_help=False)
    kind.add_argument("--broker", choices=("tansu", "apache"), default="tansu", help="default: tansu")
    kind.add_argument("--no-services", action="store_true", help="PostgreSQL and the broker only")

    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", parents=[place, kind], help="start the stack and leave it running")
    up.add_argument("--foreground", action="store_true", help="stay, and stop all on Ctrl-C")
    up.add_argument("--report-to", type=int, help=argparse.SUPPRESS)
    stop = commands.add_parser("down", parents=[place, kind], help="stop the stack; the data is kept")
    stop.add_argument("--delete-data", action="store_true", help="and delete the run directory")
    commands.add_parser("status", parents=[place, kind], help="what runs where")
    side = commands.add_parser("run", parents=[place, kind], help="run a command with the stack's settings")
    side.add_argument("--ephemeral", action="store_true", help="on a stack of its own, deleted after")
    side.add_argument("--keep", action="store_true", help="with --ephemeral: leave its data and logs")
    side.add_argument("words", nargs=argparse.REMAINDER, metavar="-- CMD ...")
    commands.add_parser("fetch-kafka", help="fetch Apache Kafka's jars; exit code 75: off-line")
    return parser


def _dispatch(options: argparse.Namespace) -> int:
    match options.command:
        case "fetch-kafka":
            fetch_apache_kafka()
            return 0
        case "run":
            return _run(options)
        case "up":
            return _up(options)
        case "down":
            return down(_plan(options), delete=options.delete_data)
        case _:
            return status(_plan(options))


def _up(options: argparse.Namespace) -> int:
    plan = _plan(options)
    if options.report_to is not None:
        return up_as_supervisor(plan, options.report_to)
    return up_in_foreground(plan) if options.foreground else up_in_background(plan)


def _run(options: argparse.Namespace) -> int:
    command: list[str] = options.words[1:] if options.words[:1] == ["--"] else options.words
    if not command:
        raise StackError("run needs a command: run -- CMD ...")
    if options.ephemeral:
        services = not options.no_services
        return run_ephemeral(command, broker=options.broker, services=services, keep=options.keep)
    return run(_plan(options), command)


def _plan(options: argparse.Namespace) -> Plan:
    run_dir = options.run_dir or Path(os.environ.get("RUN_DIR") or ROOT / ".run")
    return Plan(
        run_dir=run_dir.absolute(),
        ports=Ports.from_environment(os.environ, _offset(options.port_offset)),
        broker=options.broker,
        services=not options.no_services,
    )


def _offset(option: int | None) -> int:
    if option is not None:
        return option
    text = os.environ.get("PORT_OFFSET") or "0"
    try:
        return int(text)
    except ValueError:
        raise StackError(f"PORT_OFFSET is {text!r}, which is not a number") from None
