"""The batch loop on a real broker (decision 2)."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from aiokafka import AIOKafkaProducer

from shared.kafka import BatchOutcome, Message, Publisher, Record, Rejected
from shared.settings import KafkaSettings
from tests.integration.shared.conftest import NewTopicFixture, read_all, running, until

pytestmark = pytest.mark.kafka


def numbered(topic: str, numbers: range) -> list[Message]:
    return [Message(topic, b"k%d" % n, b"%d" % n, b"k%d" % n) for n in numbers]


async def test_every_record_is_handled_once_offsets_are_committed_and_a_restart_goes_on_from_there(
    kafka: KafkaSettings, publisher: Publisher, new_topic: NewTopicFixture, unique_name: Callable[[str], str]
) -> None:
    topic, group = await new_topic(), unique_name("group")
    seen: list[int] = []

    async def handle(records: Sequence[Record]) -> BatchOutcome:
        seen.extend(int(record.value or b"") for record in records)
        return BatchOutcome()

    await publisher.publish(numbered(topic.name, range(250)))
    async with running(kafka, publisher, topic, group, handle) as loop:
        await until(lambda: len(seen) == 250)
        await loop.finish()
    await publisher.publish(numbered(topic.name, range(250, 300)))
    async with running(kafka, publisher, topic, group, handle) as loop:
        await until(lambda: len(seen) >= 300)
        await loop.finish()
    assert sorted(seen) == list(range(300))


async def test_a_batch_killed_before_its_commit_is_replayed_and_told_again(
    kafka: KafkaSettings, publisher: Publisher, new_topic: NewTopicFixture, unique_name: Callable[[str], str]
) -> None:
    topic, facts, group = await new_topic(), await new_topic(), unique_name("group")
    handled: list[int] = []

    async def handle_and_die(records: Sequence[Record]) -> BatchOutcome:
        handled.extend(int(record.value or b"") for record in records)
        raise ConnectionError("the database went away between its commit and our publish")

    async def handle(records: Sequence[Record]) -> BatchOutcome:
        return BatchOutcome([Message(facts.name, r.key, r.value or b"", r.key or b"") for r in records])

    await publisher.publish(numbered(topic.name, range(20)))
    async with running(kafka, publisher, topic, group, handle_and_die) as loop:
        await until(lambda: len(set(handled)) == 20)
        await loop.kill()
    told: set[bytes | None] = set()
    async with running(kafka, publisher, topic, group, handle) as loop:
        while len(told) < 20:
            told = {record.value for record in await read_all(kafka, facts.name, 2)}
        await loop.finish()
    assert told == {b"%d" % n for n in range(20)}


async def test_a_fault_of_the_database_is_waited_out_and_nothing_is_dead_lettered(
    kafka: KafkaSettings, publisher: Publisher, new_topic: NewTopicFixture, unique_name: Callable[[str], str]
) -> None:
    topic = await new_topic()
    attempts, seen = 0, set[bytes | None]()

    async def handle(records: Sequence[Record]) -> BatchOutcome:
        nonlocal attempts
        attempts += 1
        if attempts <= 4:
            raise ConnectionRefusedError("no database")
        seen.update(record.value for record in records)
        return BatchOutcome()

    await publisher.publish(numbered(topic.name, range(10)))
    async with running(kafka, publisher, topic, unique_name("group"), handle) as loop:
        await until(lambda: len(seen) == 10)
        await loop.finish()
    assert await read_all(kafka, topic.dead_letter, 1) == []


async def test_one_bad_record_in_a_batch_is_found_by_halving_and_the_others_are_handled(
    kafka: KafkaSettings, publisher: Publisher, new_topic: NewTopicFixture, unique_name: Callable[[str], str]
) -> None:
    topic, group = await new_topic(), unique_name("group")
    seen: set[int] = set()

    async def handle(records: Sequence[Record]) -> BatchOutcome:
        if any(record.value == b"13" for record in records):
            raise ValueError("thirteen")
        seen.update(int(record.value or b"") for record in records)
        return BatchOutcome()

    await publisher.publish(numbered(topic.name, range(64)))
    async with running(kafka, publisher, topic, group, handle) as loop:
        await until(lambda: len(seen) == 63)
        await loop.finish()
    assert seen == set(range(64)) - {13}
    (letter,) = await read_all(kafka, topic.dead_letter, 1)
    headers = dict(letter.headers)
    assert letter.value == b"13"
    assert letter.key == b"k13"
    assert headers["dead-letter-code"] == b"unprocessable"
    assert headers["dead-letter-topic"] == topic.name.encode()
    assert b"thirteen" in headers["dead-letter-detail"]


async def test_a_refused_record_goes_to_the_dead_letters_with_its_reason_and_its_own_headers(
    kafka: KafkaSettings, publisher: Publisher, new_topic: NewTopicFixture, unique_name: Callable[[str], str]
) -> None:
    topic = await new_topic()
    done = False

    async def handle(records: Sequence[Record]) -> BatchOutcome:
        nonlocal done
        done = True
        return BatchOutcome(rejected=[Rejected(record, "too_old", "from last year") for record in records])

    await publisher.publish([Message(topic.name, b"k", b"body", b"k", [("ce_id", b"7")])])
    async with running(kafka, publisher, topic, unique_name("group"), handle) as loop:
        await until(lambda: done)
        await loop.finish()
    (letter,) = await read_all(kafka, topic.dead_letter, 1)
    headers = dict(letter.headers)
    assert (letter.key, letter.value) == (b"k", b"body")
    assert headers["ce_id"] == b"7"
    assert headers["dead-letter-code"] == b"too_old"
    assert headers["dead-letter-offset"] == b"0"


async def test_a_batch_holds_at_most_the_records_it_may(
    kafka: KafkaSettings, publisher: Publisher, new_topic: NewTopicFixture, unique_name: Callable[[str], str]
) -> None:
    topic = await new_topic()
    sizes: list[int] = []

    async def handle(records: Sequence[Record]) -> BatchOutcome:
        sizes.append(len(records))
        return BatchOutcome()

    await publisher.publish(numbered(topic.name, range(100)))
    async with running(kafka, publisher, topic, unique_name("group"), handle, batch_records_max=30) as loop:
        await until(lambda: sum(sizes) == 100)
        await loop.finish()
    assert max(sizes) <= 30


async def test_records_of_one_key_keep_their_order_and_their_partition(
    kafka: KafkaSettings, publisher: Publisher, new_topic: NewTopicFixture
) -> None:
    topic = await new_topic()
    await publisher.publish([Message(topic.name, b"one", b"%d" % n, b"acct-7") for n in range(50)])
    await publisher.publish([Message(topic.name, b"two", b"%d" % n, b"acct-7") for n in range(50, 60)])
    records = await read_all(kafka, topic.name, 2)
    assert [int(record.value or b"") for record in records] == list(range(60))
    assert len({record.partition for record in records}) == 1


async def test_a_consumer_is_caught_up_once_all_that_waited_is_handled_also_without_a_partition(
    kafka: KafkaSettings, publisher: Publisher, new_topic: NewTopicFixture, unique_name: Callable[[str], str]
) -> None:
    topic, group = await new_topic(), unique_name("group")
    may_handle = asyncio.Event()
    may_handle.set()

    async def handle(records: Sequence[Record]) -> BatchOutcome:
        await may_handle.wait()
        return BatchOutcome()

    async with (
        running(kafka, publisher, topic, group, handle) as one,
        running(kafka, publisher, topic, group, handle) as two,
        running(kafka, publisher, topic, group, handle) as three,
    ):
        loops = (one, two, three)

        def caught_up() -> int:
            return sum(loop.consumer.is_caught_up(within_seconds=12) for loop in loops)

        # Three of them and two partitions: one has none, and nothing to wait for.
        await until(lambda: caught_up() == 3)
        may_handle.clear()
        await publisher.publish(numbered(topic.name, range(20)))
        await until(lambda: caught_up() == 1)
        may_handle.set()
        await until(lambda: caught_up() == 3)
        await one.finish()
        assert not one.consumer.is_caught_up()


async def test_a_refused_record_that_was_small_only_when_compressed_is_cut_to_fit(
    kafka: KafkaSettings, publisher: Publisher, new_topic: NewTopicFixture, unique_name: Callable[[str], str]
) -> None:
    topic = await new_topic()
    seen: list[bytes | None] = []

    async def handle(records: Sequence[Record]) -> BatchOutcome:
        seen.extend(record.value for record in records)
        return BatchOutcome(
            rejected=[Rejected(r, "event_too_large", "") for r in records if r.value != b"good"]
        )

    producer = AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap, compression_type="gzip", max_request_size=5_000_000
    )
    await producer.start()
    await producer.send_and_wait(topic.name, b"x" * 3_000_000, b"k", partition=0)
    await producer.send_and_wait(topic.name, b"good", b"k", partition=0)
    await producer.stop()
    async with running(kafka, publisher, topic, unique_name("group"), handle) as loop:
        await until(lambda: b"good" in seen)
        await loop.finish()
    (letter,) = await read_all(kafka, topic.dead_letter, 1)
    assert letter.value == b"x" * 64 * 1024
    assert dict(letter.headers)["dead-letter-cut-from-bytes"] == b"3000000"
