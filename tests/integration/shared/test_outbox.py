"""The transactional outbox on real PostgreSQL and a real broker."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
from aiokafka.errors import KafkaError
from sqlalchemy import text

from shared.database import Database
from shared.kafka import Message, Publisher
from shared.outbox import CREATE_OUTBOX_SQL, OutboxRelay, enqueue
from shared.settings import KafkaSettings
from tests.integration.shared.conftest import NewTopicFixture, read_all
from tests.support.databases import unique_suffix, with_database

pytestmark = pytest.mark.kafka


@pytest.fixture
async def database(admin_dsn: str) -> AsyncIterator[Database]:
    name = f"test_outbox_{unique_suffix()}"
    admin = await asyncpg.connect(admin_dsn)
    await admin.execute(f"CREATE DATABASE {name}")
    database = Database(with_database(admin_dsn, name))
    async with database.transaction() as connection:
        await connection.execute(text(CREATE_OUTBOX_SQL))
    yield database
    await database.close()
    await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await admin.close()


async def test_news_of_a_transaction_that_commits_is_told_once_and_in_order(
    database: Database, publisher: Publisher, kafka: KafkaSettings, new_topic: NewTopicFixture
) -> None:
    topic = await new_topic()
    relay = OutboxRelay(database, publisher)
    for first in (0, 10):
        async with database.transaction() as connection:
            await enqueue(
                connection,
                [Message(topic.name, b"a", b"%d" % n, b"a") for n in range(first, first + 10)],
            )
    assert await relay.relay_once() == 20
    assert await relay.relay_once() == 0
    records = await read_all(kafka, topic.name, 2)
    assert [int(record.value or b"") for record in records] == list(range(20))


async def test_news_of_a_transaction_that_rolls_back_is_never_told(
    database: Database, publisher: Publisher, new_topic: NewTopicFixture
) -> None:
    topic = await new_topic()

    async def enqueue_and_fail() -> None:
        async with database.transaction() as connection:
            await enqueue(connection, [Message(topic.name, b"a", b"1", b"a")])
            raise RuntimeError("changed its mind")

    with pytest.raises(RuntimeError, match="changed its mind"):
        await enqueue_and_fail()
    assert await OutboxRelay(database, publisher).relay_once() == 0


async def test_news_that_cannot_be_told_stays_for_the_next_relay(
    database: Database, publisher: Publisher, new_topic: NewTopicFixture
) -> None:
    topic = await new_topic()

    async with database.transaction() as connection:
        await enqueue(connection, [Message(topic.name, b"a", b"1", b"a")])
    nobody = Publisher(KafkaSettings(bootstrap="127.0.0.1:1"))
    with pytest.raises(KafkaError):
        await OutboxRelay(database, nobody).relay_once()
    assert await OutboxRelay(database, publisher).relay_once() == 1


async def test_two_relays_at_once_tell_nothing_twice(
    database: Database, publisher: Publisher, kafka: KafkaSettings, new_topic: NewTopicFixture
) -> None:
    topic = await new_topic()
    async with database.transaction() as connection:
        await enqueue(connection, [Message(topic.name, b"a", b"%d" % n, b"a") for n in range(100)])
    told = await asyncio.gather(*(OutboxRelay(database, publisher).relay_once() for _ in range(4)))
    assert sum(told) == 100
    assert len(await read_all(kafka, topic.name, 2)) == 100
