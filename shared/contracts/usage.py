"""The usage report (DESIGN 3): a CloudEvent that says "resource R was in state S over [start, end)".

The gateway checks it at the door and metering checks it again from Kafka, by the same functions.
"""

import re
import string
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from shared.errors import EventRefused
from shared.ids import ID_CHARACTERS_MAX, ID_PATTERN, is_id
from shared.time import SECONDS_PER_HOUR, epoch_second, hour_of, parse_instant

EVENT_TYPE: Final = "gpu.usage.reported.v1"
EVENT_BYTES_MAX: Final = 64 * 1024
LABELS_MAX: Final = 16
QUANTITY_MAX: Final = 10_000_000
SPAN_SECONDS_MAX: Final = 24 * SECONDS_PER_HOUR
FUTURE_SECONDS_MAX: Final = 300
LATENESS_DAYS_DEFAULT: Final = 45

Mode = Literal["gpu", "no_gpu"]
Purchase = Literal["on_demand", "night_auction"]
# Lengths are checked while decoding, characters by check_report in two looks at all of an event's texts:
# a `pattern` per field costs 4 us an event, twice the decoding itself.
Id = Annotated[
    str, Meta(min_length=1, max_length=ID_CHARACTERS_MAX, extra_json_schema={"pattern": ID_PATTERN})
]
Label = Annotated[
    str, Meta(min_length=1, max_length=64, extra_json_schema={"pattern": r"^[^\x00-\x1f\x7f]{1,64}\Z"})
]
LabelValue = Annotated[str, Meta(max_length=64, extra_json_schema={"pattern": r"^[^\x00-\x1f\x7f]{0,64}\Z"})]


class UsageData(Struct, frozen=True, gc=False):
    """The `data` of a report. Times are RFC 3339; `quantity` counts cards, or GB for storage."""

    account_id: Id
    sku: Id
    quantity: Annotated[int, Meta(ge=1, le=QUANTITY_MAX)]
    since: str
    start: str
    end: str
    mode: Mode = "gpu"
    purchase: Purchase = "on_demand"
    labels: Annotated[dict[Label, LabelValue], Meta(max_length=LABELS_MAX)] = {}


class UsageEvent(Struct, frozen=True, gc=False):
    """The CloudEvents 1.0 envelope; extension attributes are allowed and ignored."""

    specversion: str
    type: str
    source: Id
    id: Id
    subject: Id
    data: UsageData
    time: str | None = None


class UsageReport(Struct, frozen=True, gc=False):
    """A report that passed every limit of DESIGN 3.

    `first_second` and `end_second` are floor(start) and floor(end) since 1970: the covered seconds are
    [first_second, end_second), which may be none.
    """

    account_id: str
    resource_id: str
    sku: str
    quantity: int
    mode: str
    purchase: str
    labels: dict[str, str]
    since: datetime
    first_second: int
    end_second: int
    source: str
    event_id: str


_SPAN_MAX: Final = timedelta(seconds=SPAN_SECONDS_MAX)
_ID_BYTES: Final = (string.ascii_letters + string.digits + "._:/@-").encode()
_CONTROL_CHARACTER: Final = re.compile(r"[\x00-\x1f\x7f]")
_SINCES_CACHED_MAX: Final = 131_072

_event_decoder = msgspec.json.Decoder(UsageEvent)
_data_decoder = msgspec.json.Decoder(UsageData)


class ReportLimits(Struct, frozen=True):
    """What counts as too old and too far ahead, seen from one instant; made once per batch."""

    earliest: datetime
    latest: datetime

    @classmethod
    def at(cls, now: datetime, lateness_days: int = LATENESS_DAYS_DEFAULT) -> "ReportLimits":
        return cls(now - timedelta(days=lateness_days), now + timedelta(seconds=FUTURE_SECONDS_MAX))


def decode_structured(body: bytes | msgspec.Raw, limits: ReportLimits) -> UsageReport:
    """A report from a CloudEvent in structured mode (JSON). Raises EventRefused with the reason."""
    _refuse_oversize(len(memoryview(body)))
    try:
        event = _event_decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _refusal_of(body, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EventRefused("malformed_json", f"the event is not JSON: {error}") from None
    return check_report(event, limits)


def decode_binary(body: bytes, attributes: dict[str, str], limits: ReportLimits) -> UsageReport:
    """A report from binary mode: attributes from the `ce_*` headers, `body` is the data alone.

    Raises EventRefused with the reason.
    """
    _refuse_oversize(len(body))
    try:
        data = _data_decoder.decode(body)
        event = msgspec.convert({**attributes, "data": msgspec.to_builtins(data)}, UsageEvent)
    except msgspec.ValidationError as error:
        raise EventRefused("invalid_event", str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EventRefused("malformed_json", f"the data is not JSON: {error}") from None
    return check_report(event, limits)


def check_report(event: UsageEvent, limits: ReportLimits) -> UsageReport:
    """The rules between fields. Raises EventRefused with a stable code and the reason."""
    if event.specversion != "1.0":
        raise EventRefused("unsupported_specversion", f"specversion is {event.specversion[:20]!r}, not '1.0'")
    if event.type != EVENT_TYPE:
        raise EventRefused("unsupported_type", f"type is {event.type[:80]!r}, not {EVENT_TYPE!r}")
    data = event.data
    _refuse_wrong_characters(event)
    since = _since(data.since)
    start = _instant("start", data.start)
    end = _instant("end", data.end)
    if event.time is not None and event.time != data.end:
        _instant("time", event.time)
    if end <= start:
        raise EventRefused("end_not_after_start", f"end {data.end} is not after start {data.start}")
    if start < since:
        raise EventRefused("start_before_since", f"start {data.start} is before since {data.since}")
    if end - start > _SPAN_MAX:
        raise EventRefused("span_too_long", "a report spans at most 24 hours")
    if end > limits.latest:
        raise EventRefused(
            "in_the_future", f"end {data.end} is more than {FUTURE_SECONDS_MAX} s ahead of now"
        )
    if start < limits.earliest:
        raise EventRefused("too_old", f"start {data.start} is before the earliest accepted instant")
    return UsageReport(
        data.account_id,
        event.subject,
        data.sku,
        data.quantity,
        data.mode,
        data.purchase,
        data.labels,
        since,
        epoch_second(start),
        epoch_second(end),
        event.source,
        event.id,
    )


def hours_covered(report: UsageReport) -> list[tuple[int, int, int]]:
    """(hour, from, to) for each hour the report reaches into; from and to are seconds of that hour."""
    pieces = []
    second = report.first_second
    while second < report.end_second:
        hour = hour_of(second)
        until = min(report.end_second, hour + SECONDS_PER_HOUR)
        pieces.append((hour, second - hour, until - hour))
        second = until
    return pieces


def _refuse_wrong_characters(event: UsageEvent) -> None:
    data = event.data
    ids = f"{event.source}{event.id}{event.subject}{data.account_id}{data.sku}"
    if not ids.isascii() or ids.encode().translate(None, _ID_BYTES):
        named = {
            "source": event.source,
            "id": event.id,
            "subject": event.subject,
            "data.account_id": data.account_id,
            "data.sku": data.sku,
        }
        wrong = ", ".join(name for name, text in named.items() if not is_id(text))
        raise EventRefused("invalid_event", f"only A-Z a-z 0-9 . _ : / @ - may be in an id: {wrong}")
    if data.labels and _CONTROL_CHARACTER.search("".join([*data.labels, *data.labels.values()])):
        raise EventRefused("invalid_event", "a label holds a control character")


@lru_cache(maxsize=_SINCES_CACHED_MAX)
def _since(text: str) -> datetime:
    """Cached: every report of a boot repeats its `since`, for hours or days."""
    return _instant("since", text)


def _instant(name: str, text: str) -> datetime:
    try:
        return parse_instant(text)
    except ValueError as error:
        raise EventRefused("invalid_time", f"{name}: {error}") from None


def _refuse_oversize(size_bytes: int) -> None:
    if size_bytes > EVENT_BYTES_MAX:
        raise EventRefused(
            "event_too_large", f"an event is at most {EVENT_BYTES_MAX} bytes, this has {size_bytes}"
        )


class _Attributes(Struct):
    specversion: str | None = None
    type: str | None = None


def _refusal_of(body: bytes | msgspec.Raw, error: msgspec.ValidationError) -> EventRefused:
    """The most telling reason: a wrong version or type is named before the fields it makes wrong."""
    try:
        attributes = msgspec.json.decode(body, type=_Attributes)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return EventRefused("invalid_event", str(error))
    if attributes.specversion not in (None, "1.0"):
        return EventRefused(
            "unsupported_specversion", f"specversion is {attributes.specversion!r:.30}, not '1.0'"
        )
    if attributes.type not in (None, EVENT_TYPE):
        return EventRefused("unsupported_type", f"type is {attributes.type!r:.90}, not {EVENT_TYPE!r}")
    return EventRefused("invalid_event", str(error))
