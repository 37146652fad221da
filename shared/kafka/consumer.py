"""The batch loop (DESIGN 2): poll -> handle -> publish and await acks -> commit offsets, for ever.

A crash anywhere replays the batch, which changes nothing and publishes again. Offsets are committed only
past records that were handled or are in the dead-letter topic.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from time import monotonic
from typing import Final, NamedTuple

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordTooLargeError,
)
from opentelemetry import trace
from opentelemetry.metrics import get_meter

from shared.contracts.topics import Topic
from shared.database import is_transient
from shared.kafka.publisher import Message, Publisher
from shared.kafka.topics import MESSAGE_BYTES_MAX, ensure_topics
from shared.kafka.tracing import links_of
from shared.settings import KafkaSettings
from shared.time import Clock, format_instant

log = logging.getLogger(__name__)
_tracer = trace.get_tracer(__name__)
_meter = get_meter(__name__)
_records = _meter.create_counter("kafka.records", description="records consumed")
_batches = _meter.create_counter("kafka.batches", description="batches handled")
_retries = _meter.create_counter("kafka.batch.retries", description="batches tried again after a fault")
_sessions_lost = _meter.create_counter("kafka.sessions.lost", description="sessions ended by broker trouble")
_dead_letters = _meter.create_counter("kafka.dead_letters", description="records refused, by topic and code")
_lag = _meter.create_gauge("kafka.lag", description="records behind the end of the topic, by partition")
_batch_seconds = _meter.create_histogram(
    "kafka.batch.seconds", unit="s", description="time to handle a batch"
)

IDLE_POLL_MS: Final = 250
BACKOFF_SECONDS_FIRST: Final = 0.1
BACKOFF_SECONDS_MAX: Final = 5.0
HEARTBEATS_PER_SESSION: Final = 5
COMMIT_TIMEOUT_SECONDS: Final = 5
FETCH_BYTES_MAX: Final = 32 * 1024 * 1024
PARTITION_FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
LAG_EVERY_SECONDS: Final = 5.0
CAUGHT_UP_SECONDS: Final = 30.0
DETAIL_CHARACTERS_MAX: Final = 1_000
CUT_BYTES: Final = 64 * 1024
KEY_BYTES_MAX: Final = 1_024


class Record(NamedTuple):
    """A record as received."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    """A header's value may be null, as the protocol allows."""


class Rejected(NamedTuple):
    """A record that will never be right, and why: it goes to the dead letters."""

    record: Record
    code: str
    detail: str


class BatchOutcome(NamedTuple):
    """What a handled batch has to say: facts to publish, records to refuse."""

    messages: Sequence[Message] = ()
    rejected: Sequence[Rejected] = ()


BatchHandler = Callable[[Sequence[Record]], Awaitable[BatchOutcome]]


class BatchConsumer:
    """Feeds one topic to a handler in self-sizing batches."""

    def __init__(
        self,
        kafka: KafkaSettings,
        publisher: Publisher,
        topic: Topic,
        group_id: str,
        handle: BatchHandler,
        *,
        clock: Clock,
        linger_seconds: float = 0.05,
        batch_records_max: int = 10_000,
    ) -> None:
        self._kafka = kafka
        self._publisher = publisher
        self._topic = topic
        self._group_id = group_id
        self._handle = handle
        self._clock = clock
        self._linger_seconds = linger_seconds
        self._batch_records_max = batch_records_max
        self._attributes = {"topic": topic.name}
        self._due = 0.0
        self._catch_up = CatchUp()

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop` is set; the batch in hand is finished and committed first."""
        backoff = Backoff()
        while not stop.is_set():
            try:
                await self._session(stop, backoff)
            except (KafkaError, OSError, UnicodeDecodeError) as error:
                _sessions_lost.add(1, self._attributes)
                log.warning("%s: broker trouble, trying again: %s", self._topic.name, _one_line(error))
                await backoff.wait(stop)

    def is_caught_up(self, within_seconds: float = CAUGHT_UP_SECONDS) -> bool:
        """Whether all that was there to be read so long ago, or later, is handled; also with no partition."""
        return self._catch_up.at is not None and monotonic() - self._catch_up.at <= within_seconds

    async def _session(self, stop: asyncio.Event, backoff: "Backoff") -> None:
        await ensure_topics(self._kafka)
        consumer = AIOKafkaConsumer(
            self._topic.name,
            bootstrap_servers=self._kafka.bootstrap,
            group_id=self._group_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=int(self._kafka.session_timeout_seconds * 1000),
            heartbeat_interval_ms=int(self._kafka.session_timeout_seconds * 1000 / HEARTBEATS_PER_SESSION),
            fetch_max_bytes=FETCH_BYTES_MAX,
            max_partition_fetch_bytes=PARTITION_FETCH_BYTES_MAX,
            fetch_max_wait_ms=100,
            metadata_max_age_ms=30_000,
        )
        try:
            await consumer.start()
            log.info("%s: consuming as %s", self._topic.name, self._group_id)
            lag_due = monotonic() + LAG_EVERY_SECONDS
            while not stop.is_set():
                batch = await self._poll(consumer, stop)
                if batch and await self._deliver(batch, stop):
                    await self._commit(consumer, batch)
                    backoff.reset()
                if monotonic() >= lag_due:
                    self._report_lag(consumer)
                    lag_due = monotonic() + LAG_EVERY_SECONDS
        finally:
            self._catch_up = CatchUp()
            with suppress(TimeoutError):
                await asyncio.wait_for(consumer.stop(), COMMIT_TIMEOUT_SECONDS)

    async def _poll(self, consumer: AIOKafkaConsumer, stop: asyncio.Event) -> list[Record]:
        """Up to batch_records_max records, or what has arrived a linger time after the batch before began.

        So a record that comes alone does not wait, and under load a batch grows for as long as the linger.
        """
        batch: list[Record] = []
        while not stop.is_set():
            wait_ms = IDLE_POLL_MS if not batch else max(0, int((self._due - monotonic()) * 1000))
            arrived = await consumer.getmany(
                timeout_ms=min(wait_ms, IDLE_POLL_MS), max_records=self._batch_records_max - len(batch)
            )
            for records in arrived.values():
                batch.extend(map(_record, records))
            if not batch:
                return batch
            if len(batch) >= self._batch_records_max or monotonic() >= self._due:
                self._due = monotonic() + self._linger_seconds
                return batch
        return []

    async def _deliver(self, batch: list[Record], stop: asyncio.Event) -> bool:
        """True once the batch is handled and all that it has to say is acknowledged; retries until then."""
        backoff = Backoff()
        started = monotonic()
        with _tracer.start_as_current_span(
            f"{self._topic.name} process",
            links=links_of(record.headers for record in batch if record.headers),
        ) as span:
            span.set_attribute("messaging.batch.message_count", len(batch))
            while True:
                try:
                    await self._handle_and_publish(batch)
                except Exception as error:  # every fault is sorted here: wait, or give the record up
                    if not _is_worth_waiting(error):
                        raise
                    _retries.add(1, self._attributes)
                    log.warning("%s: a batch of %d waits: %s", self._topic.name, len(batch), _one_line(error))
                    if not await backoff.wait(stop):
                        return False
                else:
                    break
        _records.add(len(batch), self._attributes)
        _batches.add(1, self._attributes)
        _batch_seconds.record(monotonic() - started, self._attributes)
        return True

    async def _handle_and_publish(self, batch: Sequence[Record]) -> None:
        outcome = await self._handle_or_bisect(batch)
        at = self._clock()
        letters = [self._dead_letter(rejected, at) for rejected in outcome.rejected]
        await self._publisher.publish([*outcome.messages, *letters])
        for rejected in outcome.rejected:
            _dead_letters.add(1, {**self._attributes, "code": rejected.code})
        if outcome.rejected:
            first = outcome.rejected[0]
            log.warning(
                "%s: %d of %d records refused, the first at %d/%d: %s: %s",
                self._topic.name, len(outcome.rejected), len(batch),
                first.record.partition, first.record.offset, first.code, first.detail,
            )  # fmt: skip

    async def _handle_or_bisect(self, batch: Sequence[Record]) -> BatchOutcome:
        """Halves a batch that fails until the record at fault stands alone."""
        try:
            return await self._handle(batch)
        except Exception as error:
            if _is_worth_waiting(error):
                raise
            if len(batch) == 1:
                log.exception("%s: record %s cannot be handled", self._topic.name, batch[0].offset)
                return BatchOutcome(rejected=[Rejected(batch[0], "unprocessable", _one_line(error))])
        middle = len(batch) // 2
        left = await self._handle_or_bisect(batch[:middle])
        right = await self._handle_or_bisect(batch[middle:])
        return BatchOutcome([*left.messages, *right.messages], [*left.rejected, *right.rejected])

    def _dead_letter(self, rejected: Rejected, at: datetime) -> Message:
        record = rejected.record
        own, value = record.headers, record.value or b""
        if len(value) + sum(len(name) + len(text or b"") for name, text in own) > MESSAGE_BYTES_MAX:
            # It came compressed and would not fit as it is: what it was can still be seen.
            own, value = [("dead-letter-cut-from-bytes", str(len(value)).encode())], value[:CUT_BYTES]
        headers = [
            *own,
            ("dead-letter-code", rejected.code.encode()),
            ("dead-letter-detail", rejected.detail[:DETAIL_CHARACTERS_MAX].encode()),
            ("dead-letter-topic", record.topic.encode()),
            ("dead-letter-partition", str(record.partition).encode()),
            ("dead-letter-offset", str(record.offset).encode()),
            ("dead-letter-at", format_instant(at).encode()),
        ]
        key = (record.key or b"")[:KEY_BYTES_MAX] or None
        return Message(self._topic.dead_letter, key, value, key or b"", headers)

    async def _commit(self, consumer: AIOKafkaConsumer, batch: Sequence[Record]) -> None:
        offsets: dict[TopicPartition, int] = {}
        for record in batch:
            place = TopicPartition(record.topic, record.partition)
            offsets[place] = max(offsets.get(place, 0), record.offset + 1)
        owned = consumer.assignment()
        offsets = {place: offset for place, offset in offsets.items() if place in owned}
        if not offsets:
            return
        try:
            await asyncio.wait_for(consumer.commit(offsets), COMMIT_TIMEOUT_SECONDS)
        except TimeoutError:
            # aiokafka retries a commit without end, also when the topic is gone for good.
            raise KafkaError("the offsets cannot be committed") from None
        except (CommitFailedError, IllegalStateError):
            # Whoever has the partitions now replays the batch: no harm.
            log.info("%s: not committed, the partitions moved", self._topic.name)

    def _report_lag(self, consumer: AIOKafkaConsumer) -> None:
        looked_at, fetched_since_ms = monotonic(), (self._clock().timestamp() - 2 * LAG_EVERY_SECONDS) * 1000
        assignment = consumer._subscription.subscription.assignment  # noqa: SLF001
        places: dict[TopicPartition, Place] | None = None if assignment is None else {}
        for place in consumer.assignment():
            end = consumer.highwater(place)
            state = consumer._subscription.subscription.assignment.state_value(place)  # noqa: SLF001
            if end is None or state is None or not state.has_valid_position:
                places = None
                continue
            _lag.set(max(0, end - state.position), {**self._attributes, "partition": place.partition})
            if (consumer.last_poll_timestamp(place) or 0) < fetched_since_ms:  # the broker is away: who knows
                places = None
            elif places is not None:
                places[place] = Place(state.position, end)
        if consumer.partitions_for_topic(self._topic.name) is None:
            raise KafkaError("the topic is gone")
        if places is not None:
            self._catch_up.look(places, looked_at)


class Place(NamedTuple):
    """How far a partition is handled, and where it ends."""

    position: int
    end: int


class CatchUp:
    """Finds the newest instant of which all that was there to be read has been handled since.

    Under load there is always something newer, so a look asks for the ends that an earlier look saw.
    """

    def __init__(self) -> None:
        self.at: float | None = None
        self._ends: dict[TopicPartition, int] = {}
        self._ends_seen_at = 0.0

    def look(self, places: Mapping[TopicPartition, Place], at: float) -> None:
        """`places` are all that are assigned, at the monotonic instant `at`."""
        if places.keys() != self._ends.keys():
            self.at = None
            self._ends = {}
        if all(place.position >= place.end for place in places.values()):
            self.at = at
        elif self._ends:
            if any(place.position < self._ends[name] for name, place in places.items()):
                return
            self.at = self._ends_seen_at
        self._ends = {name: place.end for name, place in places.items()}
        self._ends_seen_at = at


class Backoff:
    """Waits longer each time, with jitter, up to BACKOFF_SECONDS_MAX."""

    def __init__(self) -> None:
        self._seconds = BACKOFF_SECONDS_FIRST

    async def wait(self, stop: asyncio.Event) -> bool:
        """False when `stop` was set meanwhile."""
        seconds = self._seconds * random.uniform(0.5, 1.0)  # noqa: S311 - jitter is no secret
        self._seconds = min(self._seconds * 2, BACKOFF_SECONDS_MAX)
        try:
            await asyncio.wait_for(stop.wait(), seconds)
        except TimeoutError:
            return True
        return False

    def reset(self) -> None:
        self._seconds = BACKOFF_SECONDS_FIRST


def _record(record: "ConsumerRecord[bytes, bytes]") -> Record:
    return Record(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        record.headers,
    )


def _is_worth_waiting(error: Exception) -> bool:
    if isinstance(error, MessageSizeTooLargeError | RecordTooLargeError):
        return False
    return isinstance(error, KafkaError) or is_transient(error)


def _one_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:DETAIL_CHARACTERS_MAX]
