"""Topics are created with their settings, never by accident of a first message."""

import logging
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from shared.contracts.topics import (
    ALL_TOPICS,
    CHARGE_RATED,
    DEAD_LETTER_RETENTION_HOURS,
    USAGE_METERED,
)
from shared.settings import KafkaSettings

log = logging.getLogger(__name__)

REQUEST_TIMEOUT_MS: Final = 10_000
MESSAGE_BYTES_MAX: Final = 1_048_588
DEAD_LETTER_EXTRA_BYTES: Final = 64 * 1024
FACT_BYTES_MAX: Final = 48 * 1024 * 1024
"""A resource-hour of 3,600 states, each with 16 labels of the longest, is one fact of 30 MB."""
HOURLY_FACTS: Final = (USAGE_METERED, CHARGE_RATED)
HOUR_MS: Final = 3_600_000


async def ensure_topics(kafka: KafkaSettings) -> list[str]:
    """Create what is missing, leave what is there as it is; returns the names created.

    Raises KafkaError when the broker does not answer.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS)
    try:
        await admin.start()
        present = set(await admin.list_topics())
        missing = [topic for topic in _wanted(kafka) if topic.name not in present]
        if missing:
            response = await admin.create_topics(missing)
            for name, code, *rest in response.topic_errors:
                if code not in (0, TOPIC_ALREADY_EXISTS):
                    log.warning("topic %s was not created: error %s %s", name, code, rest)
        return [topic.name for topic in missing]
    finally:
        await admin.close()


TOPIC_ALREADY_EXISTS: Final = 36


def _wanted(kafka: KafkaSettings) -> list[NewTopic]:
    wanted = []
    for topic in ALL_TOPICS:
        keep = (
            {"cleanup.policy": "compact,delete", "retention.ms": str(90 * 24 * HOUR_MS)}
            if topic.compacted
            else {"retention.ms": str(topic.retention_hours * HOUR_MS)}
        )
        created = _topic(kafka, topic.name, kafka.partitions, keep)
        if topic in HOURLY_FACTS:
            created.topic_configs["max.message.bytes"] = str(FACT_BYTES_MAX)
        wanted.append(created)
        keep = {"retention.ms": str(DEAD_LETTER_RETENTION_HOURS * HOUR_MS)}
        dead_letters = _topic(kafka, topic.dead_letter, 1, keep)
        # A refused record of the greatest size still fits with the reason beside it.
        dead_letters.topic_configs["max.message.bytes"] = str(MESSAGE_BYTES_MAX + DEAD_LETTER_EXTRA_BYTES)
        wanted.append(dead_letters)
    return wanted


def _topic(kafka: KafkaSettings, name: str, partitions: int, keep: dict[str, str]) -> NewTopic:
    durable = {"min.insync.replicas": str(max(1, kafka.replication_factor - 1))}
    limits = {"max.message.bytes": str(MESSAGE_BYTES_MAX)}
    return NewTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=kafka.replication_factor,
        topic_configs={**keep, **durable, **limits},
    )
