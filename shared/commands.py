"""The command line that all four services have: `python -m services.X [api|worker|all|migrate]`."""

import argparse
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from shared.settings import KafkaSettings, ServiceSettings
from shared.telemetry import setup_logging

if TYPE_CHECKING:
    from shared.serving import Service

ROLES: Final = ("api", "worker", "all")

_Settings = TypeVar("_Settings", bound=BaseSettings)
_ServiceSettings = TypeVar("_ServiceSettings", bound=ServiceSettings)


def run_command(
    name: str,
    package: Path,
    settings_type: type[_ServiceSettings],
    compose: "Callable[[_ServiceSettings, KafkaSettings], Awaitable[Service]]",
) -> None:
    """Runs what the command line asks for; a wrong setting ends it with one clear line.

    `compose` imports the service's rooms when it is called, so that a migration starts without them.
    """
    parser = argparse.ArgumentParser(prog=f"python -m services.{name}")
    parser.add_argument(
        "role", nargs="?", default="all", choices=[*ROLES, "migrate"],
        help="api: HTTP only; worker: consumers only; all: both; migrate: bring the database up to date",
    )  # fmt: skip
    role = parser.parse_args().role
    settings = read_settings(name, settings_type)
    if role == "migrate":
        if settings.migration_url is None:
            sys.exit(f"{name}: migrate needs {name.upper()}_MIGRATION_URL, the database as its owner")
        from shared.migrations import migrate  # noqa: PLC0415 - only a migration pays for Alembic

        setup_logging()
        migrate(package, settings.migration_url)
        return
    from shared.serving import run_service  # noqa: PLC0415 - a migration starts without the web server

    kafka = read_settings(name, KafkaSettings)
    run_service(name, settings, partial(compose, settings, kafka), role)


def read_settings(name: str, settings_type: type[_Settings]) -> _Settings:
    """The settings from the environment, or the end with one line that names the one at fault."""
    try:
        return settings_type()
    except ValidationError as error:
        first = error.errors()[0]
        prefix = settings_type.model_config.get("env_prefix", "")
        field = "_".join(str(part) for part in first["loc"]).upper()
        sys.exit(f"{name}: setting {prefix}{field}: {first['msg']}")
