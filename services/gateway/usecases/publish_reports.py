"""Reports to the broker: what all requests have ready goes together, and each hears when its own is there."""

import asyncio
import logging
from collections.abc import Sequence
from contextvars import Context
from typing import Final, NamedTuple

from aiokafka.errors import KafkaError

from services.gateway.domain.ingest import Accepted
from shared.contracts.topics import USAGE_REPORTED
from shared.errors import Unavailable
from shared.kafka import Message, Publisher
from shared.kafka.tracing import trace_headers

log = logging.getLogger(__name__)

STRUCTURED_MODE: Final = ("content-type", b"application/cloudevents+json")


class _Waiting(NamedTuple):
    messages: list[Message]
    size_bytes: int
    published: asyncio.Future[None]


class ReportPublisher:
    """One publish is under way at a time; what arrives meanwhile is the next one. At rest a request waits
    for nobody, under load the batches grow by themselves.
    """

    def __init__(self, publisher: Publisher, seconds_max: float, pending_bytes_max: int) -> None:
        self._publisher = publisher
        self._seconds_max = seconds_max
        self._pending_bytes_max = pending_bytes_max
        self._pending_bytes = 0
        self._waiting: list[_Waiting] = []
        self._publishing: asyncio.Task[None] | None = None

    async def publish(self, reports: Sequence[Accepted]) -> None:
        """Returns when the broker has them all (acks=all). Raises Unavailable; sending again is harmless."""
        if not reports:
            return
        size_bytes = sum(len(report.body) for report in reports)
        if self._pending_bytes + size_bytes > self._pending_bytes_max:
            raise Unavailable("too many reports wait for the message broker; send these again later")
        waiting = _Waiting(_messages(reports), size_bytes, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._pending_bytes += size_bytes
        if self._publishing is None:
            # In a context of its own: it works for all requests, not inside the one that came first.
            self._publishing = asyncio.create_task(self._publish_waiting(), context=Context())
        try:
            async with asyncio.timeout(self._seconds_max):
                await waiting.published
        except TimeoutError:
            raise _no_answer() from None

    async def close(self) -> None:
        if self._publishing is not None:
            await self._publishing

    async def _publish_waiting(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            live = [waiting for waiting in batch if not waiting.published.done()]
            refusal = await self._try_publish([message for waiting in live for message in waiting.messages])
            self._pending_bytes -= sum(waiting.size_bytes for waiting in batch)
            for waiting in live:
                if waiting.published.done():
                    continue
                if refusal is None:
                    waiting.published.set_result(None)
                else:
                    waiting.published.set_exception(refusal)
        self._publishing = None

    async def _try_publish(self, messages: Sequence[Message]) -> Unavailable | None:
        try:
            async with asyncio.timeout(self._seconds_max):
                await self._publisher.publish(messages)
        except (KafkaError, OSError) as error:  # TimeoutError is an OSError
            log.warning(
                "%d reports were not acknowledged: %s: %s", len(messages), type(error).__name__, error
            )
            return _no_answer()
        except Exception:
            log.exception("%d reports were not published", len(messages))
            return _no_answer()
        return None


def _messages(reports: Sequence[Accepted]) -> list[Message]:
    headers = (STRUCTURED_MODE, *trace_headers())
    name = USAGE_REPORTED.name
    return [
        Message(name, resource := report.resource_id.encode(), report.body, resource, headers)
        for report in reports
    ]


def _no_answer() -> Unavailable:
    return Unavailable("the message broker does not answer; sending the same events again is harmless")
