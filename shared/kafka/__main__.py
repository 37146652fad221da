"""`python -m shared.kafka topics | dead-letters TOPIC | replay TOPIC`: the topics from the command line."""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from shared.contracts.topics import ALL_TOPICS, Topic
from shared.kafka.publisher import Message, Publisher
from shared.kafka.topics import ensure_topics
from shared.settings import KafkaSettings

DEAD_LETTER_HEADER = "dead-letter-"
REPLAY_MESSAGES_MAX = 1_000
END_OF_TOPIC_MS = 2_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m shared.kafka", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("topics", help="create the topics that are missing")
    for name, text in (
        ("dead-letters", "list refused records, oldest first, one JSON object a line"),
        ("replay", "send refused records to their topic again; harmless to repeat"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("topic", choices=[topic.name for topic in ALL_TOPICS])
        command.add_argument("--code", help="only letters with this code")
    arguments = parser.parse_args()
    kafka = KafkaSettings()
    try:
        if arguments.command == "topics":
            created = asyncio.run(ensure_topics(kafka))
            print("created: " + (", ".join(created) or "none, all are there"))  # noqa: T201
        else:
            topic = next(topic for topic in ALL_TOPICS if topic.name == arguments.topic)
            show = _list if arguments.command == "dead-letters" else _replay
            asyncio.run(show(kafka, topic, arguments.code))
    except (KafkaError, OSError) as error:
        sys.exit(f"the broker at {kafka.bootstrap} does not answer: {error}")


async def _list(kafka: KafkaSettings, topic: Topic, code: str | None) -> None:
    async for letter in _letters(kafka, topic, code):
        about = {
            name.removeprefix(DEAD_LETTER_HEADER): (value or b"").decode(errors="replace")
            for name, value in letter.headers
            if name.startswith(DEAD_LETTER_HEADER)
        }
        value = (letter.value or b"").decode(errors="replace")
        print(json.dumps({"letter": letter.offset, **about, "value": value}, ensure_ascii=False))  # noqa: T201


async def _replay(kafka: KafkaSettings, topic: Topic, code: str | None) -> None:
    publisher = Publisher(kafka)
    batch: list[Message] = []
    replayed = 0
    try:
        async for letter in _letters(kafka, topic, code):
            headers = [item for item in letter.headers if not item[0].startswith(DEAD_LETTER_HEADER)]
            batch.append(Message(topic.name, letter.key, letter.value or b"", letter.key or b"", headers))
            if len(batch) == REPLAY_MESSAGES_MAX:
                await publisher.publish(batch)
                replayed += len(batch)
                batch.clear()
        await publisher.publish(batch)
        replayed += len(batch)
    finally:
        await publisher.stop()
    print(f"replayed {replayed} records to {topic.name}")  # noqa: T201


async def _letters(
    kafka: KafkaSettings, topic: Topic, code: str | None
) -> "AsyncIterator[ConsumerRecord[bytes, bytes]]":
    """What the dead-letter topic holds now, from its beginning to its present end."""
    await ensure_topics(kafka)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        place = TopicPartition(topic.dead_letter, 0)
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        # Read to the end, not to the end offset: the embedded broker tells one that is too small.
        while letters := (await consumer.getmany(place, timeout_ms=END_OF_TOPIC_MS)).get(place):
            for letter in letters:
                codes = [value for name, value in letter.headers if name == DEAD_LETTER_HEADER + "code"]
                if code is None or code.encode() in codes:
                    yield letter
    finally:
        await consumer.stop()


if __name__ == "__main__":
    main()
