"""Composition root: opens what metering needs and hands it to the rooms below."""

from fastapi import FastAPI

from services.metering.api.routes import republish_router, usage_router
from services.metering.consumers import usage_reported_handler
from services.metering.settings import MeteringSettings
from services.metering.usecases.republish_facts import RepublishFacts
from shared.contracts.topics import USAGE_REPORTED
from shared.database import Database
from shared.kafka import BatchConsumer, BatchHandler, Publisher
from shared.problems import install_problems
from shared.serving import Service, Worker
from shared.settings import KafkaSettings
from shared.time import Clock, system_clock


async def compose(settings: MeteringSettings, kafka: KafkaSettings, clock: Clock = system_clock) -> Service:
    database = Database(settings.database_url, settings.database_pool_size)
    publisher = Publisher(kafka)
    handle = usage_reported_handler(database, clock, settings.lateness_days)

    republish = RepublishFacts(database, publisher, clock, settings.republish_pause_seconds)

    async def close() -> None:
        await publisher.stop()
        await database.close()

    return Service(
        name="metering",
        api=create_api(database, clock),
        workers=[
            *(
                Worker(f"usage-{number}", _consumer(settings, kafka, publisher, handle, clock).run)
                for number in range(settings.consumers)
            ),
            Worker("republish", republish.run),
        ],
        checks={"database": database.ping, "broker": publisher.ping},
        close=close,
    )


def create_api(database: Database, clock: Clock) -> FastAPI:
    api = FastAPI(title="Metering", description="Covered seconds per resource-hour.")
    install_problems(api)
    api.include_router(usage_router(database, clock))
    api.include_router(republish_router(database, clock))
    return api


def _consumer(
    settings: MeteringSettings,
    kafka: KafkaSettings,
    publisher: Publisher,
    handle: BatchHandler,
    clock: Clock,
) -> BatchConsumer:
    return BatchConsumer(
        kafka,
        publisher,
        USAGE_REPORTED,
        "metering",
        handle,
        clock=clock,
        linger_seconds=settings.linger_seconds,
        batch_records_max=settings.batch_records_max,
    )
