"""Where the stack keeps its things, which ports it takes, and what its parts and its users are told."""

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Literal, Self

from deploy.stack.errors import StackError

ROOT = Path(__file__).resolve().parents[2]
SERVICES = ("metering", "pricing", "wallet", "gateway")
HOST = "127.0.0.1"

Broker = Literal["tansu", "apache"]

# Client libraries read these: a proxy would be asked for 127.0.0.1, a PGHOST would win over our settings.
_FOREIGN_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "ftp_proxy")
_FOREIGN_PREFIXES = ("PG",)


@dataclass(frozen=True, kw_only=True)
class Ports:
    gateway: int = 8080
    metering: int = 8081
    pricing: int = 8082
    wallet: int = 8083
    kafka: int = 9092
    postgres: int = 5432

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], offset: int) -> Self:
        """The defaults moved by `offset`; one named by a variable (GATEWAY_PORT) as it is."""
        chosen: dict[str, int] = {}
        for field in fields(cls):
            variable = f"{field.name.upper()}_PORT"
            text = environment.get(variable, "").strip()
            if text and not text.isascii():
                raise StackError(f"{variable} is {text!r}, which is not a port")
            try:
                port = int(text) if text else getattr(cls, field.name) + offset
            except ValueError:
                raise StackError(f"{variable} is {text!r}, which is not a port") from None
            if not 0 < port < 1 << 16:
                raise StackError(f"the port of {field.name} is {port}, which is not between 1 and 65535")
            chosen[field.name] = port
        ports = cls(**chosen)
        if len(set(ports.by_part().values())) < len(chosen):
            raise StackError(f"two parts would share a port: {ports}")
        return ports

    def by_part(self) -> dict[str, int]:
        return asdict(self)

    def __str__(self) -> str:
        return ", ".join(f"{part} {port}" for part, port in self.by_part().items())


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one run of the stack is to be."""

    run_dir: Path
    ports: Ports
    broker: Broker = "tansu"
    services: bool = True
    ephemeral: bool = False

    @property
    def log_dir(self) -> Path:
        return self.run_dir / "log"

    @property
    def stack_env(self) -> Path:
        return self.run_dir / "stack.env"

    @property
    def stack_pid(self) -> Path:
        return self.run_dir / "stack.pid"

    def log_of(self, part: str) -> Path:
        return self.log_dir / f"{part}.log"

    def parts(self) -> dict[str, int]:
        """The parts that will listen, with their ports, in the order in which they start."""
        started = ("postgres", "kafka", *(SERVICES if self.services else ()))
        return {part: self.ports.by_part()[part] for part in started}


@dataclass(frozen=True)
class Secrets:
    """Made once per data directory and kept beside it, readable by its owner only."""

    postgres: str
    metering: str
    pricing: str
    wallet: str
    gateway: str
    operator_key: str = ""

    @classmethod
    def load_or_create(cls, path: Path) -> Self:
        try:
            return cls(**json.loads(path.read_text()))
        except FileNotFoundError:
            made = cls(*(secrets.token_hex(16) for _ in ("postgres", *SERVICES)))
            made.store(path)
            return made
        except (ValueError, TypeError):
            raise StackError(
                f"{path} is damaged; `make down` and delete {path.parent} to start afresh"
            ) from None

    def with_operator_key(self, key: str) -> Self:
        return replace(self, operator_key=key)

    def store(self, path: Path) -> None:
        write_private(path, json.dumps(asdict(self), indent=1))

    def of(self, role: str) -> str:
        return str(getattr(self, role))


def write_private(path: Path, text: str) -> None:
    """Replaces a file at once, readable by its owner only at every moment."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)


def stack_variables(plan: Plan, kept: Secrets) -> dict[str, str]:
    """All that a service, a test or a person needs to reach the stack, as environment variables.

    It is also the complete configuration of each service, so that one can be run by hand.
    """
    ports = plan.ports.by_part()
    at_postgres = f"{HOST}:{ports['postgres']}"
    variables = {
        f"{service.upper()}_URL": f"http://{HOST}:{ports[service]}" for service in reversed(SERVICES)
    }
    variables |= {
        "KAFKA_BOOTSTRAP": f"{HOST}:{ports['kafka']}",
        # Tansu has no idempotent producer.
        "KAFKA_ENABLE_IDEMPOTENCE": "false" if plan.broker == "tansu" else "true",
        # Its groups settle in a multiple of this; Apache Kafka refuses less than 6.
        "KAFKA_SESSION_TIMEOUT_SECONDS": "3" if plan.broker == "tansu" else "6",
        "KAFKA_REPLICATION_FACTOR": "1",
        "POSTGRES_URL": f"postgresql://postgres:{kept.postgres}@{at_postgres}/postgres",
        "PRICING_METERING_URL": variables["METERING_URL"],
        "GATEWAY_METERING_URL": variables["METERING_URL"],
        "GATEWAY_PRICING_URL": variables["PRICING_URL"],
        "GATEWAY_WALLET_URL": variables["WALLET_URL"],
    }
    for service in SERVICES:
        prefix = service.upper()
        driver = "postgresql+asyncpg://"
        variables |= {
            f"{prefix}_HOST": HOST,
            f"{prefix}_PORT": str(ports[service]),
            f"{prefix}_DATABASE_URL": f"{driver}{service}:{kept.of(service)}@{at_postgres}/{service}",
            f"{prefix}_MIGRATION_URL": f"{driver}postgres:{kept.postgres}@{at_postgres}/{service}",
        }
    if kept.operator_key:
        variables["OPERATOR_KEY"] = kept.operator_key
    return variables


def child_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Our environment with the stack's variables, without what would lead a client elsewhere."""
    own = {
        name: value
        for name, value in os.environ.items()
        if name.lower() not in _FOREIGN_VARIABLES and not name.startswith(_FOREIGN_PREFIXES)
    }
    return own | {"no_proxy": "*", "NO_PROXY": "*", "PYTHONUNBUFFERED": "1"} | dict(variables)


def write_stack_env(plan: Plan, variables: Mapping[str, str]) -> None:
    write_private(plan.stack_env, "".join(f"{name}={value}\n" for name, value in variables.items()))


def read_stack_env(path: Path) -> dict[str, str]:
    lines = path.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
