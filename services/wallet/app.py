"""The composition root: opens what is needed and hands it to the rooms below."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final

from sqlalchemy.exc import DBAPIError

from services.wallet.api.routes import build_api
from services.wallet.consumers import charges_handler, openings_handler
from services.wallet.settings import WalletSettings
from services.wallet.usecases.context import Context
from services.wallet.usecases.expire_holds import expire_holds
from services.wallet.usecases.expire_lots import expire_lots
from services.wallet.usecases.review_standings import review_standings
from services.wallet.usecases.settle_hours import Settler, measure_unsettled
from shared.contracts.topics import ACCOUNT_OPENED, CHARGE_RATED, Topic
from shared.database import Database, is_transient
from shared.ids import uuid7_source
from shared.kafka import BatchConsumer, BatchHandler, Publisher
from shared.outbox import OutboxRelay
from shared.serving import Service, Worker
from shared.settings import KafkaSettings
from shared.time import Clock, system_clock

log = logging.getLogger(__name__)

NAME: Final = "wallet"
FAULT_WAIT_SECONDS: Final = 1.0
MEASURE_EVERY_SECONDS: Final = 10.0


async def compose(settings: WalletSettings, kafka: KafkaSettings, clock: Clock = system_clock) -> Service:
    database = Database(settings.database_url, settings.database_pool_size)
    publisher = Publisher(kafka)
    context = Context(database, clock, uuid7_source(clock), settings)

    def consumer(topic: Topic, handle: BatchHandler) -> BatchConsumer:
        return BatchConsumer(
            kafka,
            publisher,
            topic,
            NAME,
            handle,
            clock=clock,
            linger_seconds=settings.linger_seconds,
            batch_records_max=settings.batch_records_max,
        )

    async def close() -> None:
        await publisher.stop()
        await database.close()

    charge_consumers = [consumer(CHARGE_RATED, charges_handler(context)) for _ in range(settings.consumers)]

    def is_caught_up() -> bool:
        return all(charges.is_caught_up() for charges in charge_consumers)

    every_seconds = settings.sweep_every_seconds
    return Service(
        name=NAME,
        api=build_api(context),
        workers=[
            *(Worker(f"charges-{number}", charges.run) for number, charges in enumerate(charge_consumers)),
            Worker("openings", consumer(ACCOUNT_OPENED, openings_handler(context)).run),
            Worker("settlement", _repeating(Settler(context).settle, every_seconds)),
            Worker("standings", _repeating(lambda: review_standings(context), every_seconds)),
            Worker("holds", _repeating(lambda: expire_holds(context), every_seconds)),
            Worker("expiry", _repeating(lambda: expire_lots(context, is_caught_up), every_seconds)),
            Worker("measures", _repeating(_measuring(context), MEASURE_EVERY_SECONDS)),
            Worker("outbox", OutboxRelay(database, publisher).run),
        ],
        checks={"database": database.ping, "broker": publisher.ping},
        close=close,
    )


def _measuring(context: Context) -> Callable[[], Awaitable[int]]:
    async def measure() -> int:
        await measure_unsettled(context)
        return 0

    return measure


def _repeating(
    step: Callable[[], Awaitable[int]], every_seconds: float
) -> Callable[[asyncio.Event], Awaitable[None]]:
    """Step again at once while there was something to do, else after a while; waits out a lost database."""

    async def run(stop: asyncio.Event) -> None:
        while not stop.is_set():
            wait_seconds = every_seconds
            started = monotonic()
            try:
                if await step():
                    continue
            except (DBAPIError, OSError, TimeoutError) as error:
                if not is_transient(error):
                    raise
                log.warning("waits for the database: %s: %s", type(error).__name__, _first_line(error))
                wait_seconds = FAULT_WAIT_SECONDS
            wait_seconds -= monotonic() - started
            try:
                await asyncio.wait_for(stop.wait(), max(0.01, wait_seconds))
            except TimeoutError:
                continue

    return run


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0]
