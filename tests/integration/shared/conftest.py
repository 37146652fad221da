"""A publisher on the real broker and topics of its own for each test."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from shared.contracts.topics import Topic
from shared.kafka import BatchConsumer, BatchHandler, Publisher
from shared.settings import KafkaSettings
from shared.time import system_clock

NewTopicFixture = Callable[[], Awaitable[Topic]]


@pytest.fixture
def kafka(kafka_bootstrap: str) -> KafkaSettings:
    return KafkaSettings(bootstrap=kafka_bootstrap)


@pytest.fixture
async def publisher(kafka: KafkaSettings) -> AsyncIterator[Publisher]:
    publisher = Publisher(kafka)
    yield publisher
    await publisher.stop()


@pytest.fixture
def new_topic(kafka: KafkaSettings, unique_name: Callable[[str], str]) -> NewTopicFixture:
    async def create() -> Topic:
        topic = Topic(unique_name("topic"))
        admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(topic.name, 2, 1), NewTopic(topic.dead_letter, 1, 1)])
        finally:
            await admin.close()
        return topic

    return create


class Loop:
    """A batch loop running in the background; `finish` stops it as SIGTERM would."""

    def __init__(self, consumer: BatchConsumer) -> None:
        self.consumer = consumer
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(consumer.run(self._stop))

    async def finish(self) -> None:
        self._stop.set()
        await asyncio.wait_for(self._task, 20)

    async def kill(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def running(
    kafka: KafkaSettings,
    publisher: Publisher,
    topic: Topic,
    group: str,
    handle: BatchHandler,
    *,
    batch_records_max: int = 100,
) -> AsyncIterator[Loop]:
    loop = Loop(
        BatchConsumer(
            kafka,
            publisher,
            topic,
            group,
            handle,
            clock=system_clock,
            linger_seconds=0.02,
            batch_records_max=batch_records_max,
        )
    )
    try:
        yield loop
    finally:
        await loop.kill()


async def until(condition: Callable[[], bool], timeout_seconds: float = 120) -> None:
    async with asyncio.timeout(timeout_seconds):
        while not condition():  # noqa: ASYNC110 - the condition is any state of the test
            await asyncio.sleep(0.01)  # a handler in another task makes it true


async def read_all(
    kafka: KafkaSettings, topic_name: str, partitions: int
) -> list["ConsumerRecord[bytes, bytes]"]:
    """What a topic holds now."""
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        places = [TopicPartition(topic_name, number) for number in range(partitions)]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        ends = await consumer.end_offsets(places)
        found = []
        for place, end in ends.items():
            while await consumer.position(place) < end:
                found += (await consumer.getmany(place, timeout_ms=500)).get(place, [])
        return found
    finally:
        await consumer.stop()
