"""Each stage alone: its real composition in this process, its real database and broker, the load in place."""

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter
from typing import Final

import asyncpg
import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition

import services.metering.app
import services.pricing.app
import services.wallet.app
from benchmarks.load import Load, last_whole_hour, metered_facts, openings, publish, rated_facts, reports
from benchmarks.loop import LoopWatch, working
from benchmarks.results import Result
from services.metering.settings import MeteringSettings
from services.pricing.domain.book import build_book
from services.pricing.domain.document import BookDocument
from services.pricing.domain.rating import Pricer
from services.pricing.settings import PricingSettings
from services.wallet.settings import WalletSettings
from services.wallet.usecases.context import Context
from services.wallet.usecases.settle_hours import settle_hours
from shared.contracts.facts import ChargeRated, Segment, UsageMetered
from shared.contracts.topics import ACCOUNT_OPENED, CHARGE_RATED, USAGE_METERED, USAGE_REPORTED, Topic
from shared.database import Database
from shared.ids import uuid7_source
from shared.kafka import Publisher, ensure_topics
from shared.serving import Service
from shared.settings import KafkaSettings
from shared.time import SECONDS_PER_HOUR, epoch_second, format_epoch, hour_of, system_clock
from tests.support.clients import end_offsets, read_topic
from tests.support.databases import DatabaseUrls, fresh_database, unique_suffix

METERING: Final = "services.metering.usecases.meter_reports"
DEFAULT_BOOK: Final = Path(services.pricing.app.__file__).parent / "price_books" / "default.json"


@dataclass(frozen=True)
class Bench:
    """Where to measure, and how much: `scale` 1 is the full size, `--quick` a tenth."""

    postgres_dsn: str
    kafka: KafkaSettings
    scale: float

    def sized(self, count: int) -> int:
        return max(1_000, int(count * self.scale))

    def database(self, service: str) -> AbstractAsyncContextManager[DatabaseUrls]:
        return fresh_database(self.postgres_dsn, service)

    async def skip_backlog(self, group: str, topic: Topic) -> None:
        """The group begins at the topic's end: what an earlier run left there is not this run's work."""
        await ensure_topics(self.kafka)
        ends = await topic_ends(self.kafka, topic)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.kafka.bootstrap, group_id=group, enable_auto_commit=False
        )
        await consumer.start()
        try:
            consumer.assign(list(ends))
            if any([end > (await consumer.committed(place) or 0) for place, end in ends.items()]):
                await consumer.commit(ends)
        finally:
            await consumer.stop()


async def topic_ends(kafka: KafkaSettings, topic: Topic) -> dict[TopicPartition, int]:
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        places = [TopicPartition(topic.name, number) for number in range(kafka.partitions)]
        return await end_offsets(consumer, places)
    finally:
        await consumer.stop()


def bench_from_environment(scale: float) -> Bench:
    return Bench(
        os.environ["POSTGRES_URL"].replace("postgresql+asyncpg://", "postgresql://", 1),
        KafkaSettings(),
        scale,
    )


async def metering_one_report_per_row(bench: Bench) -> Result:
    return await _metering(bench, resources=50_000, rounds=6, adjoining=1, wanted=40_000)


async def metering_six_reports_per_row(bench: Bench) -> Result:
    return await _metering(bench, resources=50_000, rounds=12, adjoining=6, wanted=80_000)


async def _metering(bench: Bench, *, resources: int, rounds: int, adjoining: int, wanted: float) -> Result:
    prefix = f"bench-{unique_suffix()}"
    load = reports(
        prefix,
        last_whole_hour(system_clock()),
        resources=bench.sized(resources),
        rounds=rounds,
        adjoining=adjoining,
    )
    async with bench.database("metering") as urls:
        settings = MeteringSettings(database_url=urls.role_url)
        service = await services.metering.app.compose(settings, bench.kafka)
        watch = LoopWatch(USAGE_REPORTED)
        steps = [
            ("services.metering.consumers", "decode_reports"),
            (METERING, "fold_reports"),
            (METERING, "add_coverage"),
            (METERING, "read_hours"),
            (METERING, "metered_hours"),
        ]
        with watch.patched(steps):
            await _run(bench, watch, service, "usage", load)
        covered = await _value(
            urls,
            "SELECT sum(upper(r) - lower(r)) FROM usage_window, unnest(coverage) AS r"
            " WHERE starts_with(account_id, $1)",
            prefix,
        )
    assert covered == load.truth, f"{covered} seconds are covered, {load.truth} were reported"
    return Result(
        f"metering: Kafka -> committed coverage -> facts, {adjoining} report{'s' * (adjoining > 1)} per row",
        watch.records / watch.elapsed_seconds,
        "reports/s",
        wanted,
        details={"reports": watch.records, **watch.details()},
    )


async def pricing_kafka_to_kafka(bench: Bench) -> Result:
    prefix = f"bench-{unique_suffix()}"
    load = metered_facts(prefix, bench.sized(150_000))
    async with bench.database("pricing") as urls:
        service = await services.pricing.app.compose(PricingSettings(database_url=urls.role_url), bench.kafka)
        watch = LoopWatch(USAGE_METERED)
        with watch.patched([]):
            await _run(bench, watch, service, "rate", load)
    amounts = {}
    for record in await read_topic(bench.kafka.bootstrap, CHARGE_RATED.name):
        if record.key.startswith(prefix.encode()):
            amounts[record.key] = msgspec.json.decode(record.value, type=ChargeRated).amount
    assert sum(amounts.values()) == load.truth, "the charges are not what the seconds cost"
    return Result(
        "pricing: Kafka -> Kafka",
        watch.records / watch.elapsed_seconds,
        "resource-hours/s",
        40_000,
        details={"facts": watch.records, **watch.details()},
    )


async def pricing_pure_rating(bench: Bench) -> Result:
    document = BookDocument.model_validate_json(DEFAULT_BOOK.read_bytes())
    pricer = Pricer({1: build_book(document)})
    facts = list(islice(cycle(_facts_to_rate()), bench.sized(200_000)))
    began = perf_counter()
    for fact in facts:
        pricer.rate(fact)
    elapsed = perf_counter() - began
    return Result("pricing: the pure function alone", len(facts) / elapsed, "resource-hours/s")


def _facts_to_rate() -> list[UsageMetered]:
    """Mostly hours of one state; every tenth has three, and crosses into the night."""
    facts = []
    for number in range(100):
        hour = format_epoch(1_773_154_800 - 3_600 * (number % 24))
        whole = [Segment("rtx-4090", 8, "gpu", "night_auction", {"project": "clip"}, [(0, 3_600)])]
        parts = [
            Segment("rtx-4090", 1 + part, "gpu", "night_auction", {}, [(1_200 * part, 1_200 * part + 1_200)])
            for part in range(3)
        ]
        facts.append(UsageMetered("acct-7", f"inst-{number}", hour, 1, whole if number % 10 else parts))
    return facts


async def wallet_charges(bench: Bench) -> Result:
    """2,000 accounts, 10,000 resources in the running hour, each fact a newer revision."""
    prefix = f"bench-{unique_suffix()}"
    hour = hour_of(epoch_second(system_clock()))
    load = rated_facts(prefix, [hour], resources=10_000, revisions=max(2, int(30 * bench.scale)))
    async with bench.database("wallet") as urls:
        service = await services.wallet.app.compose(WalletSettings(database_url=urls.role_url), bench.kafka)
        watch = LoopWatch(CHARGE_RATED)
        steps = [
            ("services.wallet.consumers", "decode_charge"),
            ("services.wallet.consumers", "apply_charges"),
            ("services.wallet.storage.charges", "apply"),
            ("services.wallet.storage.accounts", "burn_rates"),
        ]
        with watch.patched(steps):
            await _run(bench, watch, service, "charges", load)
        charged = await _value(
            urls, "SELECT sum(amount) FROM charge WHERE starts_with(account_id, $1)", prefix
        )
        accrued = await _value(
            urls, "SELECT sum(accrued) FROM account WHERE starts_with(account_id, $1)", prefix
        )
    assert charged == accrued == load.truth, f"charged {charged}, accrued {accrued}, due {load.truth}"
    return Result(
        "wallet: Kafka -> charges and balances, 2,000 accounts, 10,000 resources",
        watch.records / watch.elapsed_seconds,
        "charges/s",
        25_000,
        details={"charges": watch.records, **watch.details()},
    )


async def wallet_settlement(bench: Bench) -> Result:
    """Five resources in each account-hour, paid from one lot."""
    prefix = f"bench-{unique_suffix()}"
    newest = last_whole_hour(system_clock()) - SECONDS_PER_HOUR
    hours = [newest - SECONDS_PER_HOUR * back for back in range(max(2, int(10 * bench.scale)))]
    load = rated_facts(prefix, sorted(hours), resources=10_000, revisions=1)
    accounts = openings(prefix, min(hours))
    async with bench.database("wallet") as urls:
        settings = WalletSettings(database_url=urls.role_url, settle_quiet_seconds=0, settle_grace_seconds=0)
        for topic, worker, part in ((ACCOUNT_OPENED, "openings", accounts), (CHARGE_RATED, "charges", load)):
            service = await services.wallet.app.compose(settings, bench.kafka)
            watch = LoopWatch(topic)
            with watch.patched([]):
                await _run(bench, watch, service, worker, part)
        settled, elapsed = await _settle_all(settings)
        revenue = await _value(
            urls,
            "SELECT sum(amount) FROM transfer"
            " WHERE credit_account = 'revenue' AND starts_with(account_id, $1)",
            prefix,
        )
        waiting = await _value(
            urls, "SELECT count(*) FROM unsettled_hour WHERE starts_with(account_id, $1)", prefix
        )
    assert (revenue, waiting) == (load.truth, 0), f"revenue {revenue}, due {load.truth}, {waiting} hours wait"
    return Result(
        "wallet: settlement of closed hours, five charges each",
        settled / elapsed,
        "account-hours/s",
        details={"account-hours": settled},
    )


async def _settle_all(settings: WalletSettings) -> tuple[int, float]:
    database = Database(settings.database_url, settings.database_pool_size)
    try:
        context = Context(database, system_clock, uuid7_source(system_clock), settings)
        settled = 0
        began = perf_counter()
        while step := await settle_hours(context):
            settled += step
        return settled, perf_counter() - began
    finally:
        await database.close()


async def _run(bench: Bench, watch: LoopWatch, service: Service, kind: str, load: Load) -> None:
    """Workers named `kind` or `kind-<number>` join, then the topic is filled, then the gate opens."""
    workers = [worker for worker in service.workers if worker.name.partition("-")[0] == kind]
    await bench.skip_backlog(watch.group, watch.topic)
    async with working(service, workers):
        await watch.assigned(len(workers))
        begin = await topic_ends(bench.kafka, watch.topic)
        async with publishing(bench.kafka) as publisher:
            await publish(publisher, load)
        await watch.handle_all(
            {place.partition: offset for place, offset in begin.items()}, len(load.messages)
        )


@asynccontextmanager
async def publishing(kafka: KafkaSettings) -> AsyncIterator[Publisher]:
    publisher = Publisher(kafka)
    try:
        yield publisher
    finally:
        await publisher.stop()


async def _value(urls: DatabaseUrls, query: str, prefix: str) -> int:
    connection = await asyncpg.connect(urls.owner_url.replace("postgresql+asyncpg://", "postgresql://", 1))
    try:
        return int(await connection.fetchval(query, prefix) or 0)
    finally:
        await connection.close()
