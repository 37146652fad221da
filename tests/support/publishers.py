"""A broker for tests of what is told, where the broker itself is not the question."""

from collections.abc import Sequence

from shared.kafka import Message, Publisher
from shared.settings import KafkaSettings


class RecordingPublisher(Publisher):
    """A broker that is always there and keeps what it is told; or is not, once `fault` is set."""

    def __init__(self) -> None:
        super().__init__(KafkaSettings())
        self.told: list[Message] = []
        self.fault: Exception | None = None

    async def publish(self, messages: Sequence[Message]) -> None:
        if self.fault is not None:
            raise self.fault
        self.told.extend(messages)
