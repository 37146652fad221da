"""The transactional outbox: news of low volume, written in the transaction that caused it, told after.

Told at least once and, for one key, in order: a single relay at a time holds the lock.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from aiokafka.errors import KafkaError
from opentelemetry.metrics import get_meter
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.database import Database, is_transient
from shared.kafka import Message, Publisher

log = logging.getLogger(__name__)
_relayed = get_meter(__name__).create_counter("outbox.relayed", description="messages told from the outbox")

BATCH_MESSAGES_MAX: Final = 1_000
POLL_SECONDS: Final = 0.05
FAULT_WAIT_SECONDS: Final = 1.0
RELAY_LOCK_KEY: Final = 7_305_814_002

CREATE_OUTBOX_SQL: Final = """
CREATE TABLE outbox (
    outbox_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic        text   NOT NULL,
    key          bytea  NOT NULL,
    value        bytea  NOT NULL,
    partition_by bytea  NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now()
)
"""

_ENQUEUE = text(
    """
    INSERT INTO outbox (topic, key, value, partition_by)
    SELECT * FROM unnest(CAST(:topics AS text[]), CAST(:keys AS bytea[]),
                         CAST(:contents AS bytea[]), CAST(:partitions_by AS bytea[]))
    """
)
_OLDEST = text(
    "SELECT outbox_id, topic, key, value, partition_by FROM outbox"
    f" ORDER BY outbox_id LIMIT {BATCH_MESSAGES_MAX}"
)


async def enqueue(connection: AsyncConnection, messages: Sequence[Message]) -> None:
    """Write news into the caller's transaction: told if it commits, forgotten if it does not."""
    if messages:
        await connection.execute(
            _ENQUEUE,
            {
                "topics": [message.topic for message in messages],
                "keys": [message.key or b"" for message in messages],
                "contents": [message.value for message in messages],
                "partitions_by": [message.partition_by for message in messages],
            },
        )


class OutboxRelay:
    """Publishes what the outbox holds and deletes it once the broker has it."""

    def __init__(self, database: Database, publisher: Publisher) -> None:
        self._database = database
        self._publisher = publisher

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            wait_seconds = POLL_SECONDS
            try:
                if await self.relay_once() == BATCH_MESSAGES_MAX:
                    continue
            except (KafkaError, OSError, DBAPIError, TimeoutError) as error:
                if isinstance(error, DBAPIError) and not is_transient(error):
                    raise
                log.warning("the outbox waits: %s: %s", type(error).__name__, str(error).split("\n", 1)[0])
                wait_seconds = FAULT_WAIT_SECONDS
            try:
                await asyncio.wait_for(stop.wait(), wait_seconds)
            except TimeoutError:
                continue

    async def relay_once(self) -> int:
        """How many messages were told; 0 also while another relay is at work."""
        async with self._database.transaction() as connection:
            mine = await connection.scalar(text(f"SELECT pg_try_advisory_xact_lock({RELAY_LOCK_KEY})"))
            if not mine:
                return 0
            rows = (await connection.execute(_OLDEST)).all()
            if not rows:
                return 0
            await self._publisher.publish(
                [Message(row.topic, row.key, row.value, row.partition_by) for row in rows]
            )
            await connection.execute(
                text("DELETE FROM outbox WHERE outbox_id = ANY(CAST(:ids AS bigint[]))"),
                {"ids": [row.outbox_id for row in rows]},
            )
        _relayed.add(len(rows))
        return len(rows)
