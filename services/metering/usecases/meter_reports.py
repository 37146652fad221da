"""Reports become covered seconds, and the facts of the resource-hours that they touch."""

from collections.abc import Sequence
from typing import NamedTuple

from services.metering.domain.coverage import seconds_in
from services.metering.domain.facts import Conflict, MeteredHour, metered_hours
from services.metering.domain.folding import HourKey, fold_reports, hours_touched
from services.metering.storage.coverage import ROWS_PER_STATEMENT_MAX, add_coverage, read_hours
from shared.contracts.usage import UsageReport
from shared.database import Database


class Metered(NamedTuple):
    """`hours` has every resource-hour that the reports touch, changed or not.

    `seconds` are as reported, each once per window of the batch.
    """

    hours: list[MeteredHour]
    conflicts: list[Conflict]
    seconds: int
    windows: int
    windows_changed: int


async def meter_reports(database: Database, reports: Sequence[UsageReport]) -> Metered:
    """Can be run twice, late, or by two workers at once with one result (DESIGN 1)."""
    windows = fold_reports(reports)
    if not windows:
        return Metered([], [], 0, 0, 0)
    async with database.transaction() as connection:
        changed = await add_coverage(connection, windows)
    hours, conflicts = await read_metered(database, hours_touched(windows))
    seconds = sum([seconds_in(ranges) for ranges in windows.values()])
    return Metered(hours, conflicts, seconds, len(windows), changed)


async def read_metered(
    database: Database, keys: Sequence[HourKey]
) -> tuple[list[MeteredHour], list[Conflict]]:
    """What is to be told of resource-hours whose changes are committed.

    It is read after the commit, in snapshots of its own, never inside the transaction and never
    from its RETURNING. There a worker would see its own uncommitted rows beside the old ones of another:
    with one state written by each, both would tell the same sum of revisions for different contents, and
    the reader downstream would keep the wrong one for ever. Snapshots hold committed rows only and are
    ordered, each containing the one before; each change adds one to the sum. So equal sums mean that
    nothing lies between two reads, whoever made them, a zombie worker too.
    """
    hours: list[MeteredHour] = []
    conflicts: list[Conflict] = []
    async with database.reading() as connection:
        for first in range(0, len(keys), ROWS_PER_STATEMENT_MAX):
            page = keys[first : first + ROWS_PER_STATEMENT_MAX]
            told, disputed = metered_hours(page, await read_hours(connection, page))
            hours += told
            conflicts += disputed
    return hours, conflicts
