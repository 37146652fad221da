"""Which TCP ports are free, and who has those that are not."""

import random
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from deploy.stack.errors import StackError
from deploy.stack.settings import HOST

# Below the range from which the kernel lends ports to outgoing connections, so that none is lent between our
# choice and the part's bind.
_FREE_PORTS = range(20_000, 32_000)
_TRIES_MAX = 1_000


def is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def answers(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def choose_free(count: int) -> list[int]:
    chosen: list[int] = []
    for port in random.SystemRandom().sample(_FREE_PORTS, _TRIES_MAX):
        if is_free(port):
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise StackError(f"no {count} free ports between {_FREE_PORTS.start} and {_FREE_PORTS.stop}")


def require_free(port_of_part: Mapping[str, int]) -> None:
    taken = {part: port for part, port in port_of_part.items() if not is_free(port)}
    if not taken:
        return
    first, port = next(iter(taken.items()))
    others = [f"{part} {port}" for part, port in taken.items() if part != first]
    also = f" (so are: {', '.join(others)})" if others else ""
    raise StackError(
        f"port {port} for {first} is taken by {_holder(port)}{also}; "
        f"stop it, or choose another with {first.upper()}_PORT or PORT_OFFSET"
    )


def _holder(port: int) -> str:
    pid = next((pid for held, pid in _listening() if held == port), None)
    if pid is None:
        return "a process of another user"
    try:
        program, *arguments = psutil.Process(pid).cmdline()
    except (psutil.Error, ValueError):
        return f"process {pid}"
    return f"process {pid} ({' '.join([Path(program).name, *arguments])[:100].strip()})"


def _listening() -> Iterable[tuple[int, int | None]]:
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.Error:
        return []
    return [(found.laddr.port, found.pid) for found in connections if found.status == psutil.CONN_LISTEN]
