"""From the reports of a batch to the seconds they cover, once per row.

Keys are plain tuples: at 40,000 reports a second a named one costs more than the folding.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import TypeAlias

from services.metering.domain.state import UsageState, state_of
from shared.contracts.facts import Range
from shared.contracts.usage import UsageReport
from shared.time import SECONDS_PER_HOUR

HourKey: TypeAlias = tuple[str, str, int]
"""(account_id, resource_id, hour): one resource-hour; hours are their start in seconds since 1970."""

WindowKey: TypeAlias = tuple[str, str, int, datetime, UsageState]
"""(account_id, resource_id, hour, since, state): one row."""

Windows: TypeAlias = dict[WindowKey, list[Range]]
"""New seconds of each row, as ranges of its hour in any order, overlapping or not."""


def fold_reports(reports: Iterable[UsageReport]) -> Windows:
    """The windows that the reports cover. A report that covers no whole second covers no window."""
    windows: Windows = {}
    for report in reports:
        state = state_of(
            report.sku, report.quantity, report.mode, report.purchase, tuple(report.labels.items())
        )
        second, end_second = report.first_second, report.end_second
        while second < end_second:
            start = second % SECONDS_PER_HOUR
            hour = second - start
            end = min(end_second - hour, SECONDS_PER_HOUR)
            key = (report.account_id, report.resource_id, hour, report.since, state)
            ranges = windows.get(key)
            if ranges is None:
                windows[key] = [(start, end)]
            elif ranges[-1][1] == start:  # the next report of a healthy agent
                ranges[-1] = (ranges[-1][0], end)
            else:
                ranges.append((start, end))
            second = hour + end
    return windows


def hours_touched(windows: Windows) -> list[HourKey]:
    """Each resource-hour of the windows once, in the order of their first window."""
    return list(dict.fromkeys([key[:3] for key in windows]))
