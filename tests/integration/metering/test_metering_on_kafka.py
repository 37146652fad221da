"""Reports in, facts and dead letters out, through a real broker and a real PostgreSQL."""

import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta

import msgspec
import pytest
from aiokafka import ConsumerRecord

from services.metering.consumers import usage_reported_handler
from shared.contracts.facts import UsageMetered
from shared.contracts.topics import USAGE_METERED
from shared.database import Database
from shared.kafka import Message, Publisher, ensure_topics
from shared.settings import KafkaSettings
from shared.time import from_epoch
from tests.integration.shared.conftest import (
    NewTopicFixture,
    kafka,
    new_topic,
    publisher,
    read_all,
    running,
)
from tests.support.clients import wait_for
from tests.support.metering import HOUR
from tests.support.reports import binary, structured, usage_event

__all__ = ["kafka", "new_topic", "publisher"]

pytestmark = pytest.mark.kafka

START = from_epoch(HOUR)
RESOURCES = 20
REPORTS_EACH = 30


def reports(topic: str, account_id: str) -> list[Message]:
    """Ten minutes of each resource in reports of 20 s, in both modes, each twice, shuffled."""
    messages = []
    for number in range(RESOURCES):
        resource_id = f"inst-{number}"
        for step in range(REPORTS_EACH):
            event = usage_event(
                account_id=account_id,
                resource_id=resource_id,
                since=START,
                start=START + timedelta(seconds=20 * step),
                end=START + timedelta(seconds=20 * step + 20),
                event_id=f"boot-1/{step}",
            )
            body, headers = (structured(event), []) if step % 2 else binary(event)
            messages.append(Message(topic, resource_id.encode(), body, resource_id.encode(), headers))
    messages *= 2
    random.Random(5).shuffle(messages)
    return messages


async def test_reports_become_facts_bad_ones_dead_letters_and_a_killed_worker_loses_nothing(
    database: Database,
    kafka: KafkaSettings,
    publisher: Publisher,
    new_topic: NewTopicFixture,
    unique_name: Callable[[str], str],
) -> None:
    topic, group, account_id = await new_topic(), unique_name("group"), unique_name("acct")
    await ensure_topics(kafka)
    handle = usage_reported_handler(database, lambda: START + timedelta(hours=1), 45)
    bad = [Message(topic.name, b"x", body, b"x") for body in (b"{", b'{"specversion":"0.3"}')]
    messages = [*bad, *reports(topic.name, account_id)]
    await publisher.publish(messages[: len(messages) // 2])

    async def newest_facts() -> dict[str, UsageMetered]:
        newest: dict[str, UsageMetered] = {}
        for record in await read_all(kafka, USAGE_METERED.name, kafka.partitions):
            if not (record.key or b"").startswith(f"{account_id}|".encode()):
                continue  # another test's, some of them broken on purpose
            fact = _fact(record)
            known = newest.get(fact.resource_id)
            if known is not None and known.revision == fact.revision:
                assert known == fact
            if known is None or known.revision < fact.revision:
                newest[fact.resource_id] = fact
        return newest

    async with running(kafka, publisher, topic, group, handle) as first:
        await wait_for(newest_facts, lambda facts: len(facts) > RESOURCES // 2)
        await first.kill()
    await publisher.publish(messages[len(messages) // 2 :])
    async with AsyncExitStack() as workers:
        for _ in range(2):
            await workers.enter_async_context(running(kafka, publisher, topic, group, handle))
        facts = await wait_for(newest_facts, _all_is_told)
        assert _all_is_told(facts), facts

    letters = await read_all(kafka, topic.dead_letter, 1)
    codes = {(letter.value, dict(letter.headers)["dead-letter-code"].decode()) for letter in letters}
    assert codes == {(b"{", "malformed_json"), (b'{"specversion":"0.3"}', "unsupported_specversion")}


def _all_is_told(facts: dict[str, UsageMetered]) -> bool:
    return len(facts) == RESOURCES and all(
        [segment.ranges for segment in fact.segments] == [[(0, 20 * REPORTS_EACH)]] for fact in facts.values()
    )


def _fact(record: "ConsumerRecord[bytes, bytes]") -> UsageMetered:
    assert record.value is not None
    return msgspec.json.decode(record.value, type=UsageMetered)
