"""Kafka in: a batch of usage.reported.v1 -> covered seconds -> usage.metered.v1."""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from opentelemetry.metrics import get_meter

from services.metering.domain.facts import Conflict
from services.metering.usecases.meter_reports import Metered, meter_reports
from services.metering.usecases.metered_message import metered_message
from shared.contracts.usage import ReportLimits, UsageReport, decode_binary, decode_structured
from shared.database import Database
from shared.errors import EventRefused
from shared.kafka import BatchHandler, BatchOutcome, Record, Rejected
from shared.time import Clock, epoch_second, format_epoch

log = logging.getLogger(__name__)

CONFLICTS_NAMED_MAX: Final = 3
STRUCTURED_CONTENT_TYPE: Final = "application/cloudevents"

_meter = get_meter(__name__)
_reports = _meter.create_counter("metering.reports", description="reports accepted")
_refused = _meter.create_counter("metering.reports.refused", description="reports refused, by code")
_seconds = _meter.create_counter("metering.seconds", unit="s", description="seconds reported, as folded")
_windows = _meter.create_counter("metering.windows", description="rows that batches touched")
_changed = _meter.create_counter("metering.windows.changed", description="rows whose coverage grew")
_batches = _meter.create_counter("metering.batches", description="batches metered")
_batch_reports = _meter.create_histogram(
    "metering.batch.reports",
    description="reports in a batch",
    explicit_bucket_boundaries_advisory=[1, 10, 100, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000],
)
_conflicts = _meter.create_counter(
    "metering.conflict.seconds", unit="s", description="claims of several states on a second, in facts told"
)
_freshness = _meter.create_histogram(
    "metering.freshness",
    unit="s",
    description="age of the newest reported second when its batch is committed",
    explicit_bucket_boundaries_advisory=[0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3_600, 86_400],
)


def usage_reported_handler(database: Database, clock: Clock, lateness_days: int) -> BatchHandler:
    async def handle(records: Sequence[Record]) -> BatchOutcome:
        reports, rejected = decode_reports(records, ReportLimits.at(clock(), lateness_days))
        metered = await meter_reports(database, reports)
        _count(reports, rejected, metered, clock())
        _log_conflicts(metered.conflicts)
        return BatchOutcome([metered_message(hour) for hour in metered.hours], rejected)

    return handle


def decode_reports(
    records: Sequence[Record], limits: ReportLimits
) -> tuple[list[UsageReport], list[Rejected]]:
    """The reports, and the records that break a limit of DESIGN 3 with the reason."""
    reports = []
    rejected = []
    for record in records:
        try:
            reports.append(_decode(record, limits))
        except EventRefused as refusal:
            rejected.append(Rejected(record, refusal.code, refusal.detail))
    return reports, rejected


def _decode(record: Record, limits: ReportLimits) -> UsageReport:
    body = record.value
    if not body:
        raise EventRefused("malformed_json", "the record is empty")
    attributes = _binary_mode_attributes(record.headers) if record.headers else None
    if attributes is None:
        return decode_structured(body, limits)
    return decode_binary(body, attributes, limits)


def _binary_mode_attributes(headers: Sequence[tuple[str, bytes | None]]) -> dict[str, str] | None:
    """The event's attributes without their `ce_`, or None when the event is in structured mode.

    As the CloudEvents Kafka binding has it, the content type decides and then the headers. A record
    with neither is taken for structured: many producers send plain JSON with no header at all.
    """
    attributes = {}
    for name, value in headers:
        lowered = name.lower()
        if lowered == "content-type" and (value or b"").lower().startswith(STRUCTURED_CONTENT_TYPE.encode()):
            return None
        if lowered.startswith("ce_"):
            try:
                attributes[lowered[3:]] = (value or b"").decode()
            except UnicodeDecodeError:
                raise EventRefused("invalid_event", f"header {name[:80]!r} is not UTF-8") from None
    return attributes or None


def _count(
    reports: Sequence[UsageReport], rejected: Sequence[Rejected], metered: Metered, now: datetime
) -> None:
    _batches.add(1)
    _batch_reports.record(len(reports) + len(rejected))
    _reports.add(len(reports))
    for refusal in rejected:
        _refused.add(1, {"code": refusal.code})
    _seconds.add(metered.seconds)
    _windows.add(metered.windows)
    _changed.add(metered.windows_changed)
    if reports:
        newest_second = max([report.end_second for report in reports])
        _freshness.record(max(0, epoch_second(now) - newest_second))


def _log_conflicts(conflicts: Sequence[Conflict]) -> None:
    if not conflicts:
        return
    seconds = sum(conflict.seconds for conflict in conflicts)
    _conflicts.add(seconds)
    named = [
        f"{account_id}/{resource_id}/{format_epoch(hour)}"
        for (account_id, resource_id, hour), _ in conflicts[:CONFLICTS_NAMED_MAX]
    ]
    log.warning(
        "%d s in %d resource-hours are claimed by more than one state, the later since owns them: %s",
        seconds,
        len(conflicts),
        ", ".join(named),
    )
