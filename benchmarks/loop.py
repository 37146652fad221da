"""Watches the one batch loop of a service from outside, and holds it until the load is in the topic."""

import asyncio
import importlib
import inspect
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import wraps
from resource import RUSAGE_SELF, getrusage
from time import perf_counter
from typing import Any, Final

from aiokafka import AIOKafkaConsumer

from shared.contracts.topics import Topic
from shared.kafka import Publisher
from shared.kafka.consumer import BatchConsumer, Record
from shared.serving import Service, Worker
from tests.support.databases import unique_suffix

SETTLE_SECONDS: Final = 60.0
HANDLED_SECONDS: Final = 600.0
LOOK_SECONDS: Final = 0.05


class LoopWatch:
    """Times are summed over all consumers of the process; while one waits another may work."""

    def __init__(self, topic: Topic) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.batches: list[int] = []
        self.began = 0.0
        self.ended = 0.0
        self.topic = topic
        self.group = f"bench-{unique_suffix()}"
        self._consumers = 0
        self._wanted = 0
        self._open = asyncio.Event()
        self._all_assigned = asyncio.Event()
        self._all_handled = asyncio.Event()
        self._assigned: dict[int, int] = {}
        self._first: dict[int, int] = {}
        self._handled: dict[int, int] = defaultdict(int)
        self._cpu_began = 0.0
        self._cpu_ended = 0.0

    @property
    def records(self) -> int:
        """Handled so far of the load; what a moved partition handles again counts once."""
        return sum(max(0, self._handled[place] - first) for place, first in self._first.items())

    @property
    def elapsed_seconds(self) -> float:
        return self.ended - self.began

    def details(self) -> dict[str, float | int | str]:
        """Batches, CPU and each step's share of the time the loop was in any step."""
        outer = {name: self.seconds[name] for name in ("poll", "handle", "publish", "commit")}
        total = sum(outer.values()) or 1.0
        shares = {name: f"{100 * seconds / total:.0f}%" for name, seconds in outer.items()}
        inner = {
            name: f"{100 * seconds / total:.0f}%"
            for name, seconds in self.seconds.items()
            if name not in outer
        }
        return {
            "batches": len(self.batches),
            "mean batch": sum(self.batches) / max(1, len(self.batches)),
            "CPU": f"{100 * (self._cpu_ended - self._cpu_began) / self.elapsed_seconds:.0f}%",
            **shares,
            **inner,
        }

    @contextmanager
    def patched(self, steps: Sequence[tuple[str, str]]) -> Iterator[None]:
        """`steps` are (module, function) inside the handler, to be timed under the function's name."""
        undo = [
            _replace(BatchConsumer, "_session", self._session),
            _replace(BatchConsumer, "_poll", self._poll),
            _replace(BatchConsumer, "_deliver", self._deliver),
            _replace(BatchConsumer, "_commit", self._commit),
            _replace(Publisher, "publish", self._publish),
        ]
        for module, name in steps:
            undo.append(_replace(importlib.import_module(module), name, self._step(name)))
        try:
            yield
        finally:
            for restore in reversed(undo):
                restore()

    async def assigned(self, consumers: int) -> None:
        """Until every consumer has its partitions: a group that still moves would be measured as well."""
        self._consumers = consumers
        try:
            await asyncio.wait_for(self._all_assigned.wait(), SETTLE_SECONDS)
        except TimeoutError:
            raise AssertionError(f"partitions after {SETTLE_SECONDS} s: {self._assigned}") from None

    async def handle_all(self, first_offsets: Mapping[int, int], records: int) -> None:
        """Opens the gate and returns once all records from these offsets (by partition) on are committed."""
        self._first = dict(first_offsets)
        self._wanted = records
        self._cpu_began = _cpu_seconds()
        self.began = perf_counter()
        self._open.set()
        async with asyncio.timeout(HANDLED_SECONDS):
            await self._all_handled.wait()

    def _session(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A group of its own: brokers keep a place for members of earlier runs for a while."""

        async def session(loop: BatchConsumer, *arguments: Any) -> None:
            loop._group_id = self.group  # noqa: SLF001 - as _topic_of
            await original(loop, *arguments)

        return session

    def _poll(self, original: Callable[..., Any]) -> Callable[..., Any]:
        async def poll(loop: BatchConsumer, consumer: AIOKafkaConsumer, stop: asyncio.Event) -> list[Record]:
            if _topic_of(loop) == self.topic:
                await self._wait_at_the_gate(loop, consumer, stop)
            began = perf_counter()
            batch: list[Record] = await original(loop, consumer, stop)
            if batch:
                self.seconds["poll"] += perf_counter() - began
            return batch

        return poll

    async def _wait_at_the_gate(
        self, loop: BatchConsumer, consumer: AIOKafkaConsumer, stop: asyncio.Event
    ) -> None:
        """Paused, so that nothing is fetched ahead of the clock."""
        while not self._open.is_set() and not stop.is_set():
            self._assigned[id(loop)] = len(consumer.assignment())
            if len(self._assigned) == self._consumers and all(self._assigned.values()):
                self._all_assigned.set()
            consumer.pause(*consumer.assignment())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._open.wait(), LOOK_SECONDS)
        consumer.resume(*consumer.paused())

    def _deliver(self, original: Callable[..., Any]) -> Callable[..., Any]:
        async def deliver(loop: BatchConsumer, batch: list[Record], stop: asyncio.Event) -> bool:
            began = perf_counter()
            told: bool = await original(loop, batch, stop)
            self.seconds["handle"] += perf_counter() - began
            return told

        return deliver

    def _publish(self, original: Callable[..., Any]) -> Callable[..., Any]:
        async def publish(publisher: Publisher, messages: Sequence[Any]) -> None:
            began = perf_counter()
            await original(publisher, messages)
            if self._open.is_set():
                taken = perf_counter() - began
                self.seconds["publish"] += taken
                self.seconds["handle"] -= taken

        return publish

    def _commit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        async def commit(loop: BatchConsumer, consumer: AIOKafkaConsumer, batch: Sequence[Record]) -> None:
            began = perf_counter()
            await original(loop, consumer, batch)
            if _topic_of(loop) == self.topic:
                self.ended = perf_counter()
                self._cpu_ended = _cpu_seconds()
                self.seconds["commit"] += self.ended - began
                self.batches.append(len(batch))
                for record in batch:
                    self._handled[record.partition] = max(self._handled[record.partition], record.offset + 1)
                if self.records >= self._wanted:
                    self._all_handled.set()

        return commit

    def _step(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def timed(original: Callable[..., Any]) -> Callable[..., Any]:
            if inspect.iscoroutinefunction(original):

                @wraps(original)
                async def step(*arguments: Any, **named: Any) -> Any:
                    began = perf_counter()
                    try:
                        return await original(*arguments, **named)
                    finally:
                        self.seconds[name] += perf_counter() - began

                return step

            @wraps(original)
            def plain_step(*arguments: Any, **named: Any) -> Any:
                began = perf_counter()
                try:
                    return original(*arguments, **named)
                finally:
                    self.seconds[name] += perf_counter() - began

            return plain_step

        return timed


@asynccontextmanager
async def working(service: Service, workers: Sequence[Worker]) -> AsyncIterator[None]:
    """Some workers of a service, in this process; they are stopped and the service closed on exit."""
    stop = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as running:
            for worker in workers:
                running.create_task(_until(worker, stop))
            try:
                yield
            finally:
                stop.set()
    finally:
        await service.close()


async def _until(worker: Worker, stop: asyncio.Event) -> None:
    await worker.run(stop)


def _topic_of(loop: BatchConsumer) -> Topic:
    return loop._topic  # noqa: SLF001 - watched from outside, so that the loop carries no test code


def _replace(
    place: Any, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Callable[[], None]:
    original = getattr(place, name)
    setattr(place, name, wrap(original))
    return lambda: setattr(place, name, original)


def _cpu_seconds() -> float:
    usage = getrusage(RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
