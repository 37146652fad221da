"""From the reports of a batch to one window per (account, resource, hour, since, state)."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from services.metering.domain.state import UsageState, state_of
from shared.contracts.facts import Range
from shared.contracts.usage import UsageReport
from shared.time import SECONDS_PER_HOUR


class HourKey(NamedTuple):
    """One resource-hour; `hour` is its start in seconds since 1970."""

    account_id: str
    resource_id: str
    hour: int


class Window(NamedTuple):
    """Seconds of one resource-hour in one state; `ranges` in any order, overlapping or not."""

    account_id: str
    resource_id: str
    hour: int
    since: datetime
    state: UsageState
    ranges: list[Range]


def fold_reports(reports: Iterable[UsageReport]) -> list[Window]:
    """The windows that the reports cover. A report that covers no whole second covers no window."""
    windows: dict[tuple[str, str, int, datetime, UsageState], list[Range]] = {}
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
    return [Window(*key, ranges) for key, ranges in windows.items()]


def hours_touched(windows: Iterable[Window]) -> list[HourKey]:
    """Each resource-hour of the windows once, in the order of their first window."""
    return list(dict.fromkeys(HourKey(window[0], window[1], window[2]) for window in windows))
