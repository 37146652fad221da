"""Tell the facts of a period again, so that whoever reads them looks at them anew (R5)."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from aiokafka.errors import KafkaError
from opentelemetry.metrics import get_meter

from services.metering.domain.folding import HourKey
from services.metering.storage import republications
from services.metering.usecases.meter_reports import read_metered
from services.metering.usecases.metered_message import metered_message
from shared.database import Database, is_transient
from shared.kafka import Publisher
from shared.time import Clock, format_instant

log = logging.getLogger(__name__)
_meter = get_meter(__name__)
_told = _meter.create_counter("metering.republish.hours", description="resource-hours told again")
_unfinished = _meter.create_gauge("metering.republish.unfinished", description="requests not yet told whole")

STEPS_MAX: Final = 2_000
POLL_SECONDS: Final = 1.0


class RepublishFacts:
    """May run twice, in two processes, or die anywhere: a page is told again until its position is stored.

    Between pages it pauses: with the pause at its default it tells at most some ten thousand resource-hours
    a second, which pricing and the wallet carry beside what is reported meanwhile.
    """

    def __init__(self, database: Database, publisher: Publisher, clock: Clock, pause_seconds: float) -> None:
        self._database = database
        self._publisher = publisher
        self._clock = clock
        self._pause_seconds = pause_seconds

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            wait_seconds = POLL_SECONDS
            try:
                if await self.tell_page():
                    wait_seconds = self._pause_seconds
            except Exception as error:  # sorted here: wait, or let the worker be started again
                if not isinstance(error, KafkaError) and not is_transient(error):
                    raise
                log.warning("telling again waits: %s: %s", type(error).__name__, str(error).split("\n", 1)[0])
            try:
                await asyncio.wait_for(stop.wait(), wait_seconds)
            except TimeoutError:
                continue

    async def tell_page(self) -> bool:
        """Tells the next page of the oldest request; False when there is none, or another worker is at it."""
        async with self._database.transaction() as connection:
            if not await republications.try_lock_walk(connection):
                return False
            _unfinished.set(await republications.count_unfinished(connection))
            request = await republications.oldest_unfinished(connection)
            if request is None:
                return False
            stretch = await republications.next_keys(connection, request.hours, request.position, STEPS_MAX)
            await self._tell(stretch.keys)
            finished_at = self._clock() if stretch.is_end else None
            await republications.store_progress(connection, request.reference, stretch, finished_at)
        _told.add(len(stretch.keys))
        if stretch.is_end:
            log.info(
                "%s: %d resource-hours from %s were told again",
                request.reference,
                request.hours_told + len(stretch.keys),
                format_instant(request.hours.first_hour),
            )
        return True

    async def _tell(self, keys: Sequence[HourKey]) -> None:
        """Until nothing has changed since: the last fact told of an hour is then its newest.

        A consumer may have told revision n + 1 between our reading and telling revision n. Readers do not
        mind, but compaction keeps what was told last, and a reader that begins anew would miss n + 1.
        """
        hours, _ = await read_metered(self._database, keys)
        while hours:
            await self._publisher.publish([metered_message(hour) for hour in hours])
            revisions = {hour.key: hour.revision for hour in hours}
            now, _ = await read_metered(self._database, list(revisions))
            hours = [hour for hour in now if hour.revision != revisions[hour.key]]
