"""Rate a batch of metered facts under the newest books, and keep what has no price yet."""

from collections.abc import Sequence
from typing import NamedTuple

from opentelemetry.metrics import get_meter

from services.pricing.domain.rating import FactRefused
from services.pricing.domain.unpriced import UnpricedUsage
from services.pricing.storage import price_books, unpriced
from services.pricing.usecases.load_pricer import LoadPricer
from shared.contracts.facts import ChargeRated, UsageMetered
from shared.database import Database

_meter = get_meter(__name__)
_rated = _meter.create_counter("pricing.facts.rated", description="metered facts rated")
_lacking = _meter.create_counter(
    "pricing.facts.unpriced", description="of these, with seconds without a price"
)


class RatedBatch(NamedTuple):
    """Charges, and the facts that cannot be rated, each by its place in the batch with the reason."""

    charges: Sequence[ChargeRated]
    refused: Sequence[tuple[int, str]]


class RateUsage:
    """No row is written for an hour that has its price.

    A batch may be rated under version N while N + 1 is being published. Where N + 1 changes none of its
    seconds nothing is wrong. Seconds without a price are kept with the version they were rated under, so
    RerateUnpriced finds them. Where N + 1 changes seconds that may have been rated (a correction, or a
    book that begins before reports could reach), metering is asked to tell them again (AskMetering).
    """

    def __init__(self, database: Database, load_pricer: LoadPricer) -> None:
        self._database = database
        self._load_pricer = load_pricer

    async def __call__(self, facts: Sequence[UsageMetered]) -> RatedBatch:
        """`facts` holds at most one revision of each resource-hour."""
        async with self._database.reading() as connection:
            head = await price_books.read_head(connection)
            pricer = await self._load_pricer(connection, head.version)
        charges: list[ChargeRated] = []
        refused: list[tuple[int, str]] = []
        priced: list[UsageMetered] = []
        lacking: list[UnpricedUsage] = []
        for index, fact in enumerate(facts):
            try:
                charge = pricer.rate(fact)
            except FactRefused as error:
                refused.append((index, str(error)))
                continue
            charges.append(charge)
            if charge.unpriced:
                lacking.append(UnpricedUsage.of(fact, charge))
            elif head.any_unpriced:
                priced.append(fact)
        # Each statement locks rows in the order of their key; both in one transaction would not.
        if priced:
            async with self._database.transaction() as connection:
                await unpriced.forget(connection, priced)
        if lacking:
            async with self._database.transaction() as connection:
                await unpriced.keep(connection, lacking)
        _rated.add(len(charges))
        _lacking.add(len(lacking))
        return RatedBatch(charges, refused)
