"""Every limit of DESIGN 3 on a usage report, through both modes of CloudEvents."""

import json
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.contracts.usage import (
    EVENT_BYTES_MAX,
    QUANTITY_MAX,
    ReportLimits,
    UsageReport,
    decode_binary,
    decode_structured,
    hours_covered,
)
from shared.errors import EventRefused
from tests.support.reports import JsonObject, instant, structured, usage_event

NOW = datetime(2026, 3, 10, 15, 5, tzinfo=UTC)
LIMITS = ReportLimits.at(NOW)
GOOD = usage_event(
    since=datetime(2026, 3, 10, 14, 20, 5, tzinfo=UTC),
    start=datetime(2026, 3, 10, 15, 0, tzinfo=UTC),
    end=datetime(2026, 3, 10, 15, 1, tzinfo=UTC),
    quantity=8,
    purchase="night_auction",
    labels={"project": "clip", "项目": "裁剪"},
)


def _with(path: str, value: Any) -> JsonObject:
    event = deepcopy(GOOD)
    *parents, leaf = path.split(".")
    place = event
    for parent in parents:
        place = place[parent]
    place[leaf] = value
    return event


def _without(path: str) -> JsonObject:
    event = deepcopy(GOOD)
    place = event
    *parents, leaf = path.split(".")
    for parent in parents:
        place = place[parent]
    del place[leaf]
    return event


def _lasting(start: str, end: str) -> JsonObject:
    return _with("data", {**GOOD["data"], "since": start, "start": start, "end": end})


def _from_binary(event: JsonObject) -> UsageReport:
    attributes = {name: str(value) for name, value in event.items() if name != "data"}
    return decode_binary(json.dumps(event["data"]).encode(), attributes, LIMITS)


def test_both_modes_give_the_same_report() -> None:
    report = decode_structured(structured(GOOD), LIMITS)
    assert report == _from_binary(GOOD)
    assert report.resource_id == "inst-8f2c"
    assert report.end_second - report.first_second == 60
    assert (report.quantity, report.mode, report.purchase) == (8, "gpu", "night_auction")
    assert report.labels == {"project": "clip", "项目": "裁剪"}


def test_state_has_defaults_and_extensions_are_ignored() -> None:
    event = _with("traceparent", "00-1-2-3")
    del event["data"]["purchase"]
    del event["data"]["labels"]
    event["data"]["note"] = "extra"
    report = decode_structured(structured(event), LIMITS)
    assert (report.mode, report.purchase, report.labels) == ("gpu", "on_demand", {})


REFUSED: list[tuple[str, JsonObject]] = [
    ("unsupported_specversion", _with("specversion", "0.3")),
    ("unsupported_type", _with("type", "gpu.usage.reported.v2")),
    ("end_not_after_start", _with("data.end", GOOD["data"]["start"])),
    ("end_not_after_start", _with("data.end", "2026-03-10T14:59:59Z")),
    ("start_before_since", _with("data.since", "2026-03-10T15:00:01Z")),
    ("span_too_long", _lasting("2026-03-09T15:00:59Z", "2026-03-10T15:01:00Z")),
    ("in_the_future", _with("data.end", instant(NOW + timedelta(seconds=301)))),
    ("too_old", _lasting("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z")),
    ("invalid_time", _with("data.end", "2026-03-10T15:01:00")),
    ("invalid_time", _with("data.since", "0")),
    ("invalid_time", _with("time", "today")),
    ("invalid_event", _with("data.quantity", 0)),
    ("invalid_event", _with("data.quantity", QUANTITY_MAX + 1)),
    ("invalid_event", _with("data.quantity", 10**12)),
    ("invalid_event", _with("data.quantity", 1.5)),
    ("invalid_event", _with("data.quantity", "8")),
    ("invalid_event", _with("data.quantity", True)),
    ("invalid_event", _with("data.mode", "half_gpu")),
    ("invalid_event", _with("data.purchase", "spot")),
    ("invalid_event", _with("data.account_id", "")),
    ("invalid_event", _with("data.account_id", "a|b")),
    ("invalid_event", _with("subject", "x" * 129)),
    ("invalid_event", _with("source", "has space")),
    ("invalid_event", _with("id", "")),
    ("invalid_event", _with("data.labels", {f"k{n}": "v" for n in range(17)})),
    ("invalid_event", _with("data.labels", {"k" * 65: "v"})),
    ("invalid_event", _with("data.labels", {"k": "v" * 65})),
    ("invalid_event", _with("data.labels", {"k": 1})),
    ("invalid_event", _with("data.labels", {"k": "\x00"})),
    ("invalid_event", _without("data.since")),
    ("invalid_event", _without("subject")),
    ("invalid_event", _without("data")),
]  # fmt: skip


@pytest.mark.parametrize(("code", "event"), REFUSED)
def test_a_broken_limit_is_named_in_both_modes(code: str, event: JsonObject) -> None:
    with pytest.raises(EventRefused) as refusal:
        decode_structured(structured(event), LIMITS)
    assert refusal.value.code == code
    assert refusal.value.detail
    if "data" in event:
        with pytest.raises(EventRefused) as refusal:
            _from_binary(event)
        assert refusal.value.code == code


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b"null", b"\xff\xfe", b"[" * 50_000, b'{"specversion": "1.0"']
)
def test_what_is_not_an_event_is_refused_and_never_a_fault(body: bytes) -> None:
    with pytest.raises(EventRefused) as refusal:
        decode_structured(body, LIMITS)
    assert refusal.value.code in {"malformed_json", "invalid_event"}
    with pytest.raises(EventRefused) as refusal:
        decode_binary(body, {}, LIMITS)
    assert refusal.value.code in {"malformed_json", "invalid_event"}


def test_an_event_is_at_most_64_kib() -> None:
    body = structured(GOOD)
    assert decode_structured(body + b" " * (EVENT_BYTES_MAX - len(body)), LIMITS)
    with pytest.raises(EventRefused) as refusal:
        decode_structured(body + b" " * (EVENT_BYTES_MAX + 1 - len(body)), LIMITS)
    assert refusal.value.code == "event_too_large"


def test_the_edges_of_the_limits_are_inside() -> None:
    latest = _with("data.end", instant(NOW + timedelta(seconds=300)))
    assert decode_structured(structured(latest), LIMITS)
    earliest = NOW - timedelta(days=45)
    data = {
        **GOOD["data"],
        "since": instant(earliest),
        "start": instant(earliest),
        "end": instant(earliest + timedelta(hours=24)),
        "quantity": QUANTITY_MAX,
        "labels": {f"{n:064d}": "v" * 64 for n in range(16)},
    }
    assert decode_structured(structured(_with("data", data)), LIMITS)


def test_a_report_within_one_second_covers_none() -> None:
    start = datetime(2026, 3, 10, 15, 0, 0, 100_000, UTC)
    report = decode_structured(
        structured(usage_event(start=start, end=start + timedelta(milliseconds=800))), LIMITS
    )
    assert hours_covered(report) == []
