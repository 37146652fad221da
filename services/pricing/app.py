"""The composition root of pricing."""

from services.pricing.api.routes import Operations, build_api
from services.pricing.clients.metering import MeteringClient
from services.pricing.consumers import UsageMeteredConsumer
from services.pricing.settings import PricingSettings
from services.pricing.usecases.ask_metering import AskMetering
from services.pricing.usecases.find_book import FindBook
from services.pricing.usecases.list_books import ListBooks
from services.pricing.usecases.list_unpriced import ListUnpriced
from services.pricing.usecases.load_pricer import LoadPricer
from services.pricing.usecases.publish_book import PublishBook
from services.pricing.usecases.quote_usage import QuoteUsage
from services.pricing.usecases.rate_usage import RateUsage
from services.pricing.usecases.rerate_unpriced import RerateUnpriced
from shared.contracts.topics import USAGE_METERED
from shared.database import Database
from shared.kafka import BatchConsumer, Publisher
from shared.serving import Service, Worker
from shared.settings import KafkaSettings
from shared.time import Clock, system_clock


async def compose(settings: PricingSettings, kafka: KafkaSettings, clock: Clock = system_clock) -> Service:
    database = Database(settings.database_url, settings.database_pool_size)
    publisher = Publisher(kafka)
    load_pricer = LoadPricer()
    consumer = BatchConsumer(
        kafka,
        publisher,
        USAGE_METERED,
        "pricing",
        UsageMeteredConsumer(RateUsage(database, load_pricer)).handle,
        clock=clock,
        linger_seconds=settings.linger_seconds,
        batch_records_max=settings.batch_records_max,
    )
    rerate = RerateUnpriced(database, load_pricer, publisher, settings.rerate_poll_seconds)

    metering = MeteringClient(settings.metering_url)
    ask = AskMetering(database, metering, clock, settings.rerate_poll_seconds)

    async def close() -> None:
        await metering.close()
        await publisher.stop()
        await database.close()

    return Service(
        name="pricing",
        api=build_api(
            Operations(
                find_book=FindBook(database, clock),
                list_books=ListBooks(database),
                publish_book=PublishBook(database, clock),
                quote_usage=QuoteUsage(database, load_pricer),
                list_unpriced=ListUnpriced(database),
            )
        ),
        workers=[
            Worker("rate", consumer.run),
            Worker("rerate_unpriced", rerate.run),
            Worker("ask_metering", ask.run),
        ],
        checks={"database": database.ping, "broker": publisher.ping},
        close=close,
    )
