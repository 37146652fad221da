"""One PostgreSQL database per service: connections, transactions, which faults are worth waiting out."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

CONNECT_TIMEOUT_SECONDS: Final = 5
POOL_TIMEOUT_SECONDS: Final = 10
STATEMENT_TIMEOUT_MS: Final = 60_000


class Database:
    """A pool of connections; transactions are opened by use cases and nowhere else."""

    def __init__(self, url: str, pool_size: int = 10) -> None:
        self._engine = create_async_engine(
            url,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=POOL_TIMEOUT_SECONDS,
            pool_pre_ping=False,
            connect_args={
                "timeout": CONNECT_TIMEOUT_SECONDS,
                "command_timeout": STATEMENT_TIMEOUT_MS / 1000 + 5,
                "server_settings": {"statement_timeout": str(STATEMENT_TIMEOUT_MS), "jit": "off"},
            },
        )
        self._reading = self._engine.execution_options(isolation_level="AUTOCOMMIT")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """READ COMMITTED; commits when the block ends, rolls back when it raises."""
        async with self._engine.begin() as connection:
            yield connection

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[AsyncConnection]:
        """REPEATABLE READ, read only: several statements that see one state of the database."""
        async with self._engine.connect() as connection:
            await connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            yield connection

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Autocommit: each statement sees what is committed when it starts."""
        async with self._reading.connect() as connection:
            yield connection

    async def ping(self) -> None:
        """Raises what went wrong when the database does not answer."""
        async with self.reading() as connection:
            await connection.execute(text("SELECT 1"))

    async def close(self) -> None:
        await self._engine.dispose()


_RECORD_FAULTS: Final = ("21", "22", "23", "54", "P0")
"""SQLSTATE classes that one record's content can cause: cardinality, data, constraint, limit, raise."""


def is_transient(error: BaseException) -> bool:
    """Whether trying again, perhaps much later, can help.

    True for anything that is wrong with the database rather than with the rows at hand: lost
    connections, deadlocks, a full disk, a missing table or right (migrations still running). A batch
    that meets these waits; it is never taken apart and dead-lettered for them.
    """
    if isinstance(error, DBAPIError):
        state = getattr(error.orig, "sqlstate", None)
        return (state is None and _is_connection_fault(error)) or bool(
            state and not state.startswith(_RECORD_FAULTS)
        )
    return isinstance(error, OSError | TimeoutError | PoolTimeoutError)


def _is_connection_fault(error: DBAPIError) -> bool:
    cause = error.orig.__cause__ if error.orig is not None else None
    name = type(cause or error.orig).__name__
    return error.connection_invalidated or name in {
        "ConnectionDoesNotExistError",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "InterfaceError",
        "InternalClientError",
        "TimeoutError",
    }
