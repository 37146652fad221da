"""Take usage events: check each, hand the good ones to the broker, tell which were refused and why."""

from collections.abc import Sequence

import msgspec
from opentelemetry.metrics import get_meter

from services.gateway.domain.ingest import Rejection, sort_events
from services.gateway.domain.principals import Principal
from services.gateway.usecases.publish_reports import ReportPublisher
from shared.contracts.usage import ReportLimits
from shared.time import Clock

_meter = get_meter(__name__)
_accepted = _meter.create_counter(
    "gateway.events.accepted", description="events that the broker acknowledged"
)
_refused = _meter.create_counter("gateway.events.refused", description="events refused at the door, by code")


class Receipt(msgspec.Struct, frozen=True):
    accepted: int
    rejected: list[Rejection]


async def accept_events(
    events: Sequence[msgspec.Raw],
    caller: Principal,
    *,
    reports: ReportPublisher,
    clock: Clock,
    lateness_days: int,
) -> Receipt:
    """Answers only when the broker has every accepted event. Raises Unavailable."""
    found = sort_events(events, caller, ReportLimits.at(clock(), lateness_days))
    await reports.publish(found.accepted)
    if found.accepted:
        _accepted.add(len(found.accepted))
    for rejection in found.rejected:
        _refused.add(1, {"code": rejection.code})
    return Receipt(len(found.accepted), found.rejected)
