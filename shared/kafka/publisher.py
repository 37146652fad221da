"""Publishing in whole record batches per partition; a publish returns when the broker has it all."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.partitioner import murmur2

from shared.kafka.topics import ensure_topics
from shared.kafka.tracing import trace_headers
from shared.settings import KafkaSettings

log = logging.getLogger(__name__)

BATCH_BYTES_MAX: Final = 512 * 1024
REQUEST_TIMEOUT_MS: Final = 10_000
STOP_SECONDS_MAX: Final = 2


class Message(NamedTuple):
    """One record to publish. Its partition is murmur2(partition_by) modulo the topic's partitions."""

    topic: str
    key: bytes | None
    value: bytes
    partition_by: bytes
    headers: Sequence[tuple[str, bytes | None]] = ()


class Publisher:
    """Publishes with acks=all. Starts itself at first use, so that a service may start before the broker."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._producer: AIOKafkaProducer | None = None
        self._starting = asyncio.Lock()

    async def publish(self, messages: Sequence[Message]) -> None:
        """Returns once every message is acknowledged; raises KafkaError if one is not.

        After an error some of them may have been written: publishing all of them again is harmless, since
        facts carry revisions and reports are sets of seconds.
        """
        if not messages:
            return
        producer = await self._started()
        try:
            await self._publish(producer, messages)
        except KafkaError:
            # An idempotent producer that has failed once numbers its messages wrongly for ever: take a new
            # one, which also creates the topics again if the broker has lost them.
            await self._discard(producer)
            raise

    async def ping(self) -> None:
        """Raises what went wrong when the broker does not answer."""
        producer = await self._started()
        await producer.client.fetch_all_metadata()

    async def stop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop()

    async def _discard(self, failed: AIOKafkaProducer) -> None:
        current = self._producer
        if current is None or current is not failed:
            return
        self._producer = None
        with suppress(KafkaError, OSError, TimeoutError):
            await asyncio.wait_for(current.stop(), STOP_SECONDS_MAX)

    async def _started(self) -> AIOKafkaProducer:
        if self._producer is not None:
            return self._producer
        async with self._starting:
            if self._producer is None:
                await ensure_topics(self._kafka)
                producer = AIOKafkaProducer(
                    bootstrap_servers=self._kafka.bootstrap,
                    acks="all",
                    enable_idempotence=self._kafka.enable_idempotence,
                    max_batch_size=BATCH_BYTES_MAX,
                    request_timeout_ms=REQUEST_TIMEOUT_MS,
                    retry_backoff_ms=100,
                    metadata_max_age_ms=30_000,
                )
                try:
                    await producer.start()
                except BaseException:
                    await producer.stop()
                    raise
                self._producer = producer
            return self._producer

    async def _publish(self, producer: AIOKafkaProducer, messages: Sequence[Message]) -> None:
        trace = trace_headers()
        by_partition: dict[tuple[str, int], list[Message]] = {}
        counts: dict[str, int] = {}
        for message in messages:
            topic = message.topic
            count = counts.get(topic)
            if count is None:
                count = counts[topic] = len(await producer.partitions_for(topic))
            by_partition.setdefault((topic, _partition(message.partition_by, count)), []).append(message)
        acks = []
        for (topic, partition), batch in by_partition.items():
            builder = producer.create_batch()
            for message in batch:
                headers = [*message.headers, *trace]
                if builder.append(timestamp=None, key=message.key, value=message.value, headers=headers):
                    continue
                acks.append(await producer.send_batch(builder, topic, partition=partition))
                builder = producer.create_batch()
                builder.append(timestamp=None, key=message.key, value=message.value, headers=headers)
            acks.append(await producer.send_batch(builder, topic, partition=partition))
        results = await asyncio.gather(*acks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result


@lru_cache(maxsize=262_144)
def _partition(partition_by: bytes, partitions: int) -> int:
    return int((murmur2(partition_by) & 0x7FFFFFFF) % partitions)
