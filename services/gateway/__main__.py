"""python -m services.gateway [api|worker|all|migrate|create-key]"""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from services.gateway.domain.principals import Role
from services.gateway.settings import GatewaySettings
from services.gateway.usecases.create_api_key import NewKey, create_api_key
from shared.commands import read_settings, run_command
from shared.database import Database, is_transient
from shared.errors import Invalid
from shared.ids import uuid7_source
from shared.settings import KafkaSettings
from shared.time import system_clock

if TYPE_CHECKING:
    from shared.serving import Service


async def compose(settings: GatewaySettings, kafka: KafkaSettings) -> "Service":
    from services.gateway import app  # noqa: PLC0415 - a migration starts without the service's rooms

    return await app.compose(settings, kafka)


def main() -> None:
    if sys.argv[1:2] == ["create-key"]:
        wanted = _read_key(sys.argv[2:])
        print(asyncio.run(_create_key(read_settings("gateway", GatewaySettings), wanted)))
    else:
        run_command("gateway", Path(__file__).parent, GatewaySettings, compose)


def _read_key(arguments: list[str]) -> NewKey:
    create = argparse.ArgumentParser(
        prog="python -m services.gateway create-key", description="make an API key and print it, once"
    )
    create.add_argument("--role", required=True, choices=[role.value for role in Role])
    create.add_argument("--name", required=True)
    create.add_argument(
        "--account", action="append", default=[], help="for partners (repeatable) and customers"
    )
    create.add_argument("--source-prefix", help="for agents: the sources that it may report as")
    found = create.parse_args(arguments)
    return NewKey(found.name, Role(found.role), frozenset(found.account), found.source_prefix)


async def _create_key(settings: GatewaySettings, wanted: NewKey) -> str:
    database = Database(settings.database_url, pool_size=1)
    try:
        _, secret = await create_api_key(
            wanted,
            database=database,
            clock=system_clock,
            new_id=uuid7_source(system_clock),
            random_bytes=os.urandom,
        )
    except Invalid as refused:
        sys.exit(f"gateway: {refused.detail}")
    except Exception as error:
        if is_transient(error):
            sys.exit(f"gateway: the database does not answer: {type(error).__name__}")
        raise
    finally:
        await database.close()
    return secret


if __name__ == "__main__":
    main()
