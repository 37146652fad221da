"""`deploy/local.py` from outside: what it says, what it leaves, what it finds again."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from deploy.stack.ports import choose_free, is_free
from deploy.stack.settings import ROOT, read_stack_env

COMMAND_SECONDS = 120
WAIT_SECONDS = 30

# In a process of its own: what it needs is a new connection each time, and the exit code.
QUERY = """
import asyncio, os, sys, asyncpg
async def main():
    connection = await asyncpg.connect(os.environ[sys.argv[1]].replace("+asyncpg", ""), timeout=10)
    print(await connection.fetchval(sys.argv[2]))
    await connection.close()
asyncio.run(main())
"""


class LocalStack:
    """PostgreSQL and Tansu, without the services, in a run directory and on ports of their own."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        parts = ("gateway", "metering", "pricing", "wallet", "kafka", "postgres")
        self.ports = dict(zip(parts, choose_free(len(parts)), strict=True))

    def call(self, *words: str) -> "subprocess.CompletedProcess[str]":
        chosen = {f"{part.upper()}_PORT": str(port) for part, port in self.ports.items()}
        return subprocess.run(
            [sys.executable, ROOT / "deploy" / "local.py", *words],
            env=os.environ | chosen | {"RUN_DIR": str(self.run_dir)},
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )

    def up(self) -> "subprocess.CompletedProcess[str]":
        return self.call("up", "--no-services")

    def query(self, sql: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-c", QUERY, "POSTGRES_URL", sql],
            env=os.environ | read_stack_env(self.run_dir / "stack.env"),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )

    def process_of(self, part: str) -> int:
        record = json.loads((self.run_dir / "stack.json").read_text())
        return int(record["processes"][part]["pid"])

    def supervisor(self) -> int:
        return int((self.run_dir / "stack.pid").read_text())


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[LocalStack]:
    local = LocalStack(tmp_path / "run")
    yield local
    local.call("down", "--delete-data")


def test_a_command_runs_beside_a_stack_that_is_gone_after_it(stack: LocalStack) -> None:
    script = f"""
import os, subprocess, sys
query = {QUERY!r}
own = subprocess.run([sys.executable, "-c", query, "WALLET_DATABASE_URL", "SELECT current_user"])
os.environ["OTHERS"] = os.environ["WALLET_DATABASE_URL"].removesuffix("wallet") + "gateway"
others = subprocess.run([sys.executable, "-c", query, "OTHERS", "SELECT 1"], capture_output=True, text=True)
print(os.environ["KAFKA_BOOTSTRAP"].rpartition(":")[2])
sys.exit(7 if own.returncode == 0 and "permission denied for database" in others.stderr else 1)
"""
    done = stack.call("run", "--ephemeral", "--no-services", "--", sys.executable, "-c", script)
    assert done.returncode == 7, done.stderr
    role, kafka_port = done.stdout.split()
    assert role == "wallet"
    assert is_free(int(kafka_port))


def test_up_and_down_may_be_repeated_and_data_stays(stack: LocalStack) -> None:
    assert stack.up().returncode == 0
    assert stack.query("CREATE TABLE kept AS SELECT 42 AS answer").returncode == 0
    again = stack.up()
    assert (again.returncode, again.stdout[:10]) == (0, "Already up")
    assert stack.call("down").stdout == "Stopped.\n"
    assert stack.call("down").stdout == "Not running.\n"
    assert stack.call("status").returncode == 3

    assert stack.up().returncode == 0
    assert stack.query("SELECT answer FROM kept").stdout == "42\n"


def test_a_killed_part_is_started_again(stack: LocalStack) -> None:
    stack.up()
    assert stack.query("CREATE TABLE kept AS SELECT 42 AS answer").returncode == 0
    for part in ("kafka", "postgres"):
        os.kill(stack.process_of(part), signal.SIGKILL)

    deadline = monotonic() + WAIT_SECONDS
    while stack.query("SELECT answer FROM kept").stdout != "42\n":
        assert monotonic() < deadline, (stack.run_dir / "log" / "stack.log").read_text()
    log = (stack.run_dir / "log" / "stack.log").read_text()
    assert "postgres was killed by SIGKILL" in log
    assert "Tansu keeps the log in memory: what was in it is gone" in log


def test_what_a_killed_supervisor_left_is_replaced(stack: LocalStack) -> None:
    stack.up()
    assert stack.query("CREATE TABLE kept AS SELECT 42 AS answer").returncode == 0
    left = stack.process_of("postgres")
    os.kill(stack.supervisor(), signal.SIGKILL)
    assert stack.call("status").returncode == 3

    again = stack.up()
    assert again.returncode == 0, again.stderr
    assert stack.process_of("postgres") != left
    assert stack.query("SELECT answer FROM kept").stdout == "42\n"


def test_a_taken_port_is_told_in_one_line(stack: LocalStack) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", stack.ports["kafka"]))
        holder.listen()
        done = stack.up()
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert f"port {stack.ports['kafka']} for kafka is taken by process {os.getpid()}" in done.stderr


def test_a_deleted_run_directory_stops_the_stack(stack: LocalStack) -> None:
    stack.up()
    (stack.run_dir / "stack.pid").unlink()
    deadline = monotonic() + WAIT_SECONDS
    while not all(is_free(stack.ports[part]) for part in ("kafka", "postgres")):
        assert monotonic() < deadline
        sleep(0.1)
