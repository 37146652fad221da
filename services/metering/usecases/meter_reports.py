"""Reports become covered seconds, and the facts of the resource-hours that they touch."""

from collections.abc import Sequence
from typing import NamedTuple

from services.metering.domain.coverage import seconds_in
from services.metering.domain.facts import HourMetered, metered_hour
from services.metering.domain.folding import fold_reports, hours_touched
from services.metering.storage.coverage import add_coverage, read_hours
from shared.contracts.usage import UsageReport
from shared.database import Database


class Metered(NamedTuple):
    """`hours` has every resource-hour that the reports touch, changed or not; `seconds` are as reported."""

    hours: list[HourMetered]
    seconds: int
    windows: int
    windows_changed: int


async def meter_reports(database: Database, reports: Sequence[UsageReport]) -> Metered:
    """Can be run twice, late, or by two workers at once with one result (DESIGN 1)."""
    windows = fold_reports(reports)
    if not windows:
        return Metered([], 0, 0, 0)
    async with database.transaction() as connection:
        changed = await add_coverage(connection, windows)
    # The facts are read after the commit, in a snapshot of their own, never inside the transaction and
    # never from its RETURNING. There a worker would see its own uncommitted rows beside the old ones of
    # another: with one state written by each, both would tell the same sum of revisions for different
    # contents, and the reader downstream would keep the wrong one for ever. Snapshots hold committed rows
    # only and are ordered, each containing the one before; each change adds one to the sum. So equal
    # sums mean that nothing lies between two reads, whoever made them, a zombie worker too.
    keys = hours_touched(windows)
    async with database.reading() as connection:
        stored = await read_hours(connection, keys)
    return Metered(
        hours=[metered_hour(key, rows) for key, rows in zip(keys, stored, strict=True)],
        seconds=sum([seconds_in(window.ranges) for window in windows]),
        windows=len(windows),
        windows_changed=changed,
    )
