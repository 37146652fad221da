"""Rate usage that had no price once a newer book may have one."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from aiokafka.errors import KafkaError
from opentelemetry.metrics import get_meter

from services.pricing.domain.unpriced import UnpricedUsage
from services.pricing.storage import price_books, unpriced
from services.pricing.usecases.charge_message import charge_message
from services.pricing.usecases.load_pricer import LoadPricer
from shared.contracts.facts import ChargeRated, UsageMetered
from shared.database import Database, is_transient
from shared.kafka import Publisher

log = logging.getLogger(__name__)
_waiting = get_meter(__name__).create_gauge(
    "pricing.unpriced.rows", description="resource-hours that wait for a price"
)

BATCH_ROWS_MAX: Final = 500
COUNTED_ROWS_MAX: Final = 100_000


class RerateUnpriced:
    """May run twice, in two processes, or die anywhere: charges are told again until their rows are gone.

    The wallet prefers the greater (revision, price_book), so the same revision under a newer book wins
    and a repetition changes nothing.
    """

    def __init__(
        self, database: Database, load_pricer: LoadPricer, publisher: Publisher, poll_seconds: float
    ) -> None:
        self._database = database
        self._load_pricer = load_pricer
        self._publisher = publisher
        self._poll_seconds = poll_seconds

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self()
            except Exception as error:  # sorted here: wait, or let the worker be started again
                if not isinstance(error, KafkaError) and not is_transient(error):
                    raise
                log.warning("re-rating waits: %s: %s", type(error).__name__, str(error).split("\n", 1)[0])
            try:
                await asyncio.wait_for(stop.wait(), self._poll_seconds)
            except TimeoutError:
                continue

    async def __call__(self) -> int:
        """How many kept facts were rated again; those that now have their price are forgotten."""
        after, rerated = unpriced.BEFORE_ALL, 0
        while True:
            async with self._database.reading() as connection:
                head = await price_books.read_head(connection)
                pricer = await self._load_pricer(connection, head.version)
                usages = await unpriced.rated_before(connection, pricer.head, after, BATCH_ROWS_MAX)
                if not usages:
                    _waiting.set(await unpriced.count(connection, COUNTED_ROWS_MAX))
                    break
            charges = [pricer.rate(usage.fact) for usage in usages]
            await self._publisher.publish([charge_message(charge) for charge in charges])
            await self._settle([usage.fact for usage in usages], charges)
            after, rerated = unpriced.key_of(usages[-1].fact), rerated + len(usages)
        if rerated:
            log.info("%d hours without a price were rated again under book %d", rerated, pricer.head)
        return rerated

    async def _settle(self, facts: Sequence[UsageMetered], charges: Sequence[ChargeRated]) -> None:
        both = list(zip(facts, charges, strict=True))
        async with self._database.transaction() as connection:
            await unpriced.forget(connection, [fact for fact, charge in both if not charge.unpriced])
        lacking = [UnpricedUsage.of(fact, charge) for fact, charge in both if charge.unpriced]
        if lacking:
            async with self._database.transaction() as connection:
                await unpriced.renew(connection, lacking)
