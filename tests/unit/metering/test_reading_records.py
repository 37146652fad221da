"""Every record becomes a report or is refused with its stable code; nothing is dropped in silence."""

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from services.metering.consumers import decode_reports
from shared.contracts.usage import ReportLimits
from shared.kafka import Record
from tests.support.reports import JsonObject, binary, structured, usage_event

NOW = datetime(2026, 3, 10, 15, 5, tzinfo=UTC)
GOOD = usage_event(
    since=datetime(2026, 3, 10, 14, 20, 5, tzinfo=UTC),
    start=datetime(2026, 3, 10, 15, 0, tzinfo=UTC),
    end=datetime(2026, 3, 10, 15, 1, tzinfo=UTC),
    labels={"project": "clip", "项目": "裁剪"},
)
STRUCTURED = [("content-type", b"application/cloudevents+json; charset=UTF-8")]


def record(value: bytes | None, headers: list[tuple[str, bytes]] | None = None) -> Record:
    return Record("usage.reported.v1", 0, 0, 0, b"inst-8f2c", value, headers or [])


def codes(*records: Record) -> list[str]:
    _, rejected = decode_reports(records, ReportLimits.at(NOW))
    return [refusal.code for refusal in rejected]


def changed(path: str, value: Any) -> JsonObject:
    event = deepcopy(GOOD)
    *parents, leaf = path.split(".")
    place = event
    for parent in parents:
        place = place[parent]
    place[leaf] = value
    return event


def without(path: str) -> JsonObject:
    event = deepcopy(GOOD)
    *parents, leaf = path.split(".")
    place = event
    for parent in parents:
        place = place[parent]
    del place[leaf]
    return event


def test_structured_mode_binary_mode_and_bare_json_give_the_same_report() -> None:
    body, headers = binary(GOOD)
    records = [
        record(structured(GOOD), STRUCTURED),
        record(structured(GOOD)),
        record(
            structured(GOOD), [("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
        ),
        record(body, headers),
        record(body, [(name.upper(), value) for name, value in headers]),
    ]
    reports, rejected = decode_reports(records, ReportLimits.at(NOW))
    assert rejected == []
    assert len(reports) == len(records)
    assert all(report == reports[0] for report in reports)
    assert reports[0].labels == {"project": "clip", "项目": "裁剪"}


def test_the_content_type_decides_even_beside_ce_headers() -> None:
    assert codes(record(structured(GOOD), [("ce_specversion", b"9.9"), *STRUCTURED])) == []


REFUSED = [
    ("malformed_json", b""),
    ("malformed_json", b"{"),
    ("malformed_json", b"\xff\xfe"),
    ("malformed_json", structured(GOOD)[:-1]),
    ("malformed_json", b'{"extension":' * 5_000),
    ("invalid_event", b"[" * 10_000),
    ("invalid_event", b"null"),
    ("invalid_event", b"[]"),
    ("event_too_large", structured(GOOD) + b" " * (65 * 1024)),
    ("unsupported_specversion", structured(changed("specversion", "0.3"))),
    ("unsupported_specversion", structured(changed("specversion", "1.0.1"))),
    ("unsupported_type", structured(changed("type", "gpu.usage.reported.v2"))),
    ("end_not_after_start", structured(changed("data.end", "2026-03-10T14:59:00Z"))),
    ("end_not_after_start", structured(changed("data.end", "2026-03-10T15:00:00Z"))),
    ("start_before_since", structured(changed("data.since", "2026-03-10T15:00:01Z"))),
    ("in_the_future", structured(changed("data.end", "2026-03-10T15:10:01Z"))),
    ("too_old", structured(changed("data", {**GOOD["data"], "since": "2026-01-01T00:00:00Z",
        "start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:01:00Z"}))),
    ("span_too_long", structured(changed("data", {**GOOD["data"], "since": "2026-03-08T00:00:00Z",
        "start": "2026-03-08T00:00:00Z", "end": "2026-03-09T00:00:01Z"}))),
    ("invalid_time", structured(changed("data.start", "2026-03-10T15:00:00"))),
    ("invalid_time", structured(changed("data.start", "yesterday"))),
    ("invalid_time", structured(changed("data.since", ""))),
    ("invalid_event", structured(changed("data.labels", {f"label-{n}": "x" for n in range(17)}))),
    ("invalid_event", structured(changed("data.labels", {"project": "x" * 65}))),
    ("invalid_event", structured(changed("data.labels", {"": "x"}))),
    ("invalid_event", structured(changed("data.labels", {"project": "a\x00b"}))),
    ("invalid_event", structured(changed("data.labels", {"pro\x00ject": "a"}))),
    ("invalid_event", structured(changed("data.labels", {"project": 7}))),
    ("invalid_event", structured(changed("data.labels", ["project"]))),
    ("invalid_event", structured(changed("data.quantity", 0))),
    ("invalid_event", structured(changed("data.quantity", -1))),
    ("invalid_event", structured(changed("data.quantity", 10**12))),
    ("invalid_event", structured(changed("data.quantity", 1.5))),
    ("invalid_event", structured(changed("data.quantity", "8"))),
    ("invalid_event", structured(changed("data.quantity", True))),
    ("invalid_event", structured(changed("data.mode", "turbo"))),
    ("invalid_event", structured(changed("data.purchase", ""))),
    ("invalid_event", structured(changed("data.start", 1_773_154_800))),
    ("invalid_event", structured(changed("data", "text"))),
    ("invalid_event", structured(changed("subject", ""))),
    ("invalid_event", structured(changed("subject", "a b"))),
    ("invalid_event", structured(changed("subject", "inst\n"))),
    ("invalid_event", structured(changed("subject", "x" * 129))),
    ("invalid_event", structured(changed("data.account_id", "acct\x00"))),
    ("invalid_event", structured(changed("data.account_id", "客户"))),
    ("invalid_event", structured(changed("data.sku", "a|b"))),
    *[("invalid_event", structured(without(name))) for name in ("specversion", "type", "source", "id",
        "subject", "data", "data.account_id", "data.sku", "data.quantity", "data.since", "data.start",
        "data.end")],
]  # fmt: skip


@pytest.mark.parametrize(("code", "body"), REFUSED)
def test_a_structured_event_that_breaks_a_limit_is_refused_with_its_code(code: str, body: bytes) -> None:
    assert codes(record(body, STRUCTURED)) == [code]


@pytest.mark.parametrize(
    ("code", "event"),
    [
        ("unsupported_specversion", changed("specversion", "0.3")),
        ("unsupported_type", changed("type", "other")),
        ("invalid_event", without("subject")),
        ("invalid_event", changed("data.quantity", 0)),
        ("invalid_event", changed("subject", "a b")),
        ("end_not_after_start", changed("data.end", "2026-03-10T14:59:00Z")),
    ],
)
def test_a_binary_event_is_held_to_the_same_limits(code: str, event: JsonObject) -> None:
    body, headers = binary(event)
    assert codes(record(body, headers)) == [code]


def test_a_binary_event_without_its_data_or_with_bytes_for_text_is_refused() -> None:
    body, headers = binary(GOOD)
    assert codes(record(b"", headers), record(None, headers)) == ["malformed_json", "malformed_json"]
    assert codes(record(b"{", headers)) == ["malformed_json"]
    assert codes(record(body, [*headers, ("ce_subject", b"\xff")])) == ["invalid_event"]


def test_a_bad_record_does_not_keep_its_neighbours_back() -> None:
    reports, rejected = decode_reports(
        [record(structured(GOOD)), record(b"{"), record(structured(GOOD))], ReportLimits.at(NOW)
    )
    assert len(reports) == 2
    assert [(refusal.code, refusal.record.value) for refusal in rejected] == [("malformed_json", b"{")]


def test_labels_and_quantities_at_their_limits_are_taken() -> None:
    labels = {f"{'k' * 62}{n:02}": "v" * 64 for n in range(16)}
    assert codes(record(structured(changed("data.labels", labels)))) == []
    assert codes(record(structured(changed("data.quantity", 10_000_000)))) == []
    assert codes(record(structured(changed("data.labels", {"project": ""})))) == []


def test_fractions_of_a_second_are_cut_and_adjoining_reports_tile() -> None:
    first = changed(
        "data", {**GOOD["data"], "start": "2026-03-10T15:00:00.25Z", "end": "2026-03-10T15:00:07.55Z"}
    )
    second = changed(
        "data", {**GOOD["data"], "start": "2026-03-10T15:00:07.55Z", "end": "2026-03-10T15:00:07.9Z"}
    )
    reports, _ = decode_reports([record(structured(first)), record(structured(second))], ReportLimits.at(NOW))
    assert reports[0].end_second == reports[1].first_second == reports[1].end_second
