"""Kafka: topics, the publisher, and the one batch loop that all services run."""

from shared.kafka.consumer import BatchConsumer, BatchHandler, BatchOutcome, Record, Rejected
from shared.kafka.publisher import Message, Publisher
from shared.kafka.topics import ensure_topics

__all__ = [
    "BatchConsumer",
    "BatchHandler",
    "BatchOutcome",
    "Message",
    "Publisher",
    "Record",
    "Rejected",
    "ensure_topics",
]
