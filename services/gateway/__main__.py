"""python -m services.gateway [api|worker|all|migrate|create-key]"""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from services.gateway.app import compose
from services.gateway.domain.principals import Role
from services.gateway.settings import GatewaySettings
from services.gateway.usecases.create_api_key import NewKey, create_api_key
from shared.database import Database, is_transient, migrate
from shared.errors import Invalid
from shared.ids import uuid7_source
from shared.serving import ROLES, run_service
from shared.settings import KafkaSettings
from shared.time import system_clock


def main() -> None:
    arguments = _parser().parse_args()
    settings = GatewaySettings()
    match arguments.command:
        case "migrate":
            migrate(Path(__file__).parent, settings.migration_url or settings.database_url)
        case "create-key":
            wanted = NewKey(
                arguments.name, Role(arguments.role), frozenset(arguments.account), arguments.source_prefix
            )
            print(asyncio.run(_create_key(settings, wanted)))
        case role:
            kafka = KafkaSettings()
            run_service("gateway", settings, lambda: compose(settings, kafka), role)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m services.gateway")
    commands = parser.add_subparsers(dest="command")
    parser.set_defaults(command="all")
    for role in ROLES:
        commands.add_parser(role)
    commands.add_parser("migrate", help="bring the database to the newest revision")
    create = commands.add_parser("create-key", help="make an API key and print it, once")
    create.add_argument("--role", required=True, choices=[role.value for role in Role])
    create.add_argument("--name", required=True)
    create.add_argument(
        "--account", action="append", default=[], help="for partners (repeatable) and customers"
    )
    create.add_argument("--source-prefix", help="for agents: the sources that it may report as")
    return parser


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
