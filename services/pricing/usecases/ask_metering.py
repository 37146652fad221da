"""Ask metering to tell again what a newly published book changes (R3, R5)."""

import asyncio
import logging
from typing import Final

from opentelemetry.metrics import get_meter

from services.pricing.clients.metering import MeteringClient
from services.pricing.storage import republish_requests
from shared.database import Database, is_transient
from shared.errors import Conflict, Unavailable
from shared.time import Clock

log = logging.getLogger(__name__)
_unasked = get_meter(__name__).create_gauge(
    "pricing.republish.unasked", description="books whose period metering is still to be asked for"
)

REQUESTS_MAX: Final = 100
WAIT_SECONDS_MAX: Final = 30.0


class AskMetering:
    """May run twice, in two processes, or die anywhere: metering knows a request by its reference.

    It reads what is committed, so metering is asked after the book's commit. Whatever was rated under an
    older book was told before that commit, hence stored before it, so the walk that metering begins later
    meets it; and each batch of pricing reads the newest version before it rates, so what is told again is
    rated under this book or a newer one.
    """

    def __init__(
        self, database: Database, metering: MeteringClient, clock: Clock, poll_seconds: float
    ) -> None:
        self._database = database
        self._metering = metering
        self._clock = clock
        self._poll_seconds = poll_seconds

    async def run(self, stop: asyncio.Event) -> None:
        wait_seconds = self._poll_seconds
        while not stop.is_set():
            try:
                wait_seconds = self._poll_seconds if await self() else self._longer(wait_seconds)
            except Exception as error:  # sorted here: wait, or let the worker be started again
                if not isinstance(error, Unavailable) and not is_transient(error):
                    raise
                wait_seconds = self._longer(wait_seconds)
                log.warning("metering is not asked yet: %s", str(error).split("\n", 1)[0])
            try:
                await asyncio.wait_for(stop.wait(), wait_seconds)
            except TimeoutError:
                continue

    async def __call__(self) -> bool:
        """Whether metering has all that there was to ask. Raises Unavailable when it does not answer.

        A refusal is logged and asked again with the rest: it takes somebody to look at it.
        """
        async with self._database.reading() as connection:
            requests = await republish_requests.unasked(connection, REQUESTS_MAX)
        _unasked.set(len(requests))
        refused = 0
        for request in requests:
            try:
                await self._metering.republish(request)
            except Conflict as refusal:
                refused += 1
                log.error("%s", refusal.detail)  # noqa: TRY400 - an answer, not a fault of ours
                continue
            async with self._database.transaction() as connection:
                await republish_requests.mark_asked(connection, request.price_book, self._clock())
            log.info("metering was asked to tell again what price book %d changes", request.price_book)
        _unasked.set(refused)
        return not refused

    def _longer(self, wait_seconds: float) -> float:
        return max(self._poll_seconds, min(2 * wait_seconds, WAIT_SECONDS_MAX))
