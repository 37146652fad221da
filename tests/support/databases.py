"""Fresh, migrated databases for one service each, on the PostgreSQL that POSTGRES_URL names."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg
import pytest

REPOSITORY: Final = Path(__file__).resolve().parents[2]
SERVICES: Final = ("metering", "pricing", "wallet", "gateway")
_ROLES_LOCK: Final = 4_021_977
"""Advisory lock: two test processes must not create one role at once."""


class DatabaseUrls(NamedTuple):
    """SQLAlchemy URLs (postgresql+asyncpg) of one database.

    `role_url` logs in with the privileges of the service's role and no others, as the service does;
    `owner_url` is what migrations run as.
    """

    name: str
    owner_url: str
    role_url: str


MakeDatabase = Callable[[str], Awaitable[DatabaseUrls]]


def required_environment(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        pytest.fail(
            f"{name} is not set: `make test` starts PostgreSQL and the broker and sets it", pytrace=False
        )
    return value


def postgres_dsn() -> str:
    """The administrator's DSN as asyncpg wants it."""
    return required_environment("POSTGRES_URL").replace("postgresql+asyncpg://", "postgresql://", 1)


def unique_suffix() -> str:
    return os.urandom(5).hex()


def with_database(dsn: str, database: str, credentials: tuple[str, str] | None = None) -> str:
    """The same server as a SQLAlchemy URL of another database, optionally as another user."""
    parts = urlsplit(dsn)
    netloc = parts.netloc
    if credentials is not None:
        user, password = credentials
        netloc = f"{quote(user, safe='')}:{quote(password, safe='')}@{netloc.rpartition('@')[2]}"
    return urlunsplit(("postgresql+asyncpg", netloc, f"/{database}", parts.query, ""))


@asynccontextmanager
async def fresh_database(dsn: str, service: str) -> AsyncIterator[DatabaseUrls]:
    """A database of a unique name, migrated for `service` and dropped on exit.

    The login is a member of the service's role, so that a stack that runs on the same server keeps its
    password.
    """
    suffix = unique_suffix()
    name = f"test_{service}_{suffix}"
    password = os.urandom(12).hex()
    admin = await asyncpg.connect(dsn)
    try:
        await _create_role(admin, service)
        await admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}' IN ROLE {service}")
        await admin.execute(f"CREATE DATABASE {name}")
        urls = DatabaseUrls(name, with_database(dsn, name), with_database(dsn, name, (name, password)))
        try:
            await asyncio.to_thread(_migrate, service, urls.owner_url)
            yield urls
        finally:
            await admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            await admin.execute(f"DROP ROLE IF EXISTS {name}")
    finally:
        await admin.close()


@asynccontextmanager
async def database_factory(dsn: str) -> AsyncIterator[MakeDatabase]:
    """`make_database(service)`; all that it made are dropped on exit."""
    async with AsyncExitStack() as databases:

        async def make_database(service: str) -> DatabaseUrls:
            return await databases.enter_async_context(fresh_database(dsn, service))

        yield make_database


async def _create_role(admin: asyncpg.Connection, service: str) -> None:
    async with admin.transaction():
        await admin.execute("SELECT pg_advisory_xact_lock($1)", _ROLES_LOCK)
        if not await admin.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", service):
            await admin.execute(f"CREATE ROLE {service} LOGIN")


def _migrate(service: str, owner_url: str) -> None:
    from shared.migrations import migrate  # noqa: PLC0415 - the unit suite starts without a database driver

    migrate(REPOSITORY / "services" / service, owner_url)
