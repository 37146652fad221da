"""Each service's own migrations, run by Alembic as the database's owner."""

import asyncio
import logging
from pathlib import Path
from typing import Final

from alembic import command, context
from alembic.config import Config
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from shared.database import CONNECT_TIMEOUT_SECONDS, is_transient

log = logging.getLogger(__name__)

LOCK_TIMEOUT_MS: Final = 5_000
WAIT_SECONDS: Final = 60
LOCK_KEY: Final = 7_305_814_001


def migrate(service_directory: Path, url: str) -> None:
    """Bring a service's database to its newest revision; waits up to a minute for the database.

    Blocking: call it from a thread where an event loop runs. Two at once wait for each other.
    """
    config = Config()
    config.set_main_option("script_location", str(service_directory / "migrations"))
    config.attributes["url"] = url
    command.upgrade(config, "head")


def run_migrations_env() -> None:
    """The whole of a service's migrations/env.py."""
    asyncio.run(_upgrade(context.config.attributes["url"]))


async def _upgrade(url: str) -> None:
    engine = create_async_engine(url, connect_args={"timeout": CONNECT_TIMEOUT_SECONDS})
    try:
        deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
        while True:
            try:
                async with engine.connect() as connection:
                    await connection.run_sync(_upgrade_on)
                    await connection.commit()
            except (OSError, DBAPIError) as error:
                if not is_transient(error) or asyncio.get_running_loop().time() > deadline:
                    raise
                log.warning("waiting for the database: %s", str(error).splitlines()[0])
                await asyncio.sleep(1)
            else:
                return
    finally:
        await engine.dispose()


def _upgrade_on(connection: Connection) -> None:
    connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK_KEY})"))
    connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}"))
    context.configure(connection=connection, transaction_per_migration=False)
    with context.begin_transaction():
        context.run_migrations()
