"""Take a request to tell the facts of a period again: once per reference (R19)."""

from datetime import datetime
from typing import NamedTuple

from services.metering.domain.republishing import Republication, whole_hours
from services.metering.storage import republications
from shared.database import Database
from shared.errors import Conflict
from shared.time import Clock


class Requested(NamedTuple):
    republication: Republication
    is_new: bool


async def request_republication(
    database: Database, clock: Clock, reference: str, start: datetime, end: datetime | None
) -> Requested:
    """Every hour that [start, end) touches; the same hours under one reference are one request.

    Raises Invalid for an empty period, Conflict when the reference named other hours before.
    """
    hours = whole_hours(start, end)
    async with database.transaction() as connection:
        is_new = await republications.add(connection, reference, hours, clock())
        republication = await republications.find(connection, reference)
    if republication.hours != hours:
        raise Conflict(f"the reference {reference!r} was used for other hours before", reference=reference)
    return Requested(republication, is_new)
