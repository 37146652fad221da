"""Sorting a body of events: each is judged alone, by the rules metering uses."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.gateway.domain.ingest import only_event, sort_events, split_batch
from services.gateway.domain.principals import Principal, Role
from services.gateway.domain.refusals import BatchTooLarge, MalformedJson
from shared.contracts.usage import ReportLimits
from tests.support.reports import structured, usage_event

NOW = datetime(2026, 3, 10, 15, tzinfo=UTC)
LIMITS = ReportLimits.at(NOW)
OPERATOR = Principal("k", Role.OPERATOR)


def _event(**fields: Any) -> bytes:
    return structured(usage_event(**{"start": NOW - timedelta(minutes=1), "end": NOW, **fields}))


def _batch(*events: bytes) -> bytes:
    return b"[" + b",".join(events) + b"]"


def test_a_good_event_goes_on_exactly_as_it_was_sent() -> None:
    sent = _event(labels={"project": "視覚"}).replace(b'"mode"', b'  "mode"')
    found = sort_events(split_batch(_batch(sent)), OPERATOR, LIMITS)
    assert found.accepted[0].body == sent
    assert found.accepted[0].resource_id == "inst-8f2c"
    assert found.rejected == []


def test_a_bad_event_takes_nobody_with_it_and_is_named() -> None:
    events = [
        _event(event_id="a"),
        _event(event_id="b", quantity=0),
        b"7",
        b'{"id": 7}',
        _event(event_id="c"),
    ]
    found = sort_events(split_batch(_batch(*events)), OPERATOR, LIMITS)
    assert len(found.accepted) == 2
    named = [(rejection.index, rejection.id, rejection.code) for rejection in found.rejected]
    assert named == [(1, "b", "invalid_event"), (2, None, "invalid_event"), (3, None, "invalid_event")]


def test_text_that_is_no_utf8_is_refused_for_its_event_alone() -> None:
    found = sort_events(
        split_batch(_batch(_event(), _event().replace(b"bj-yz", b"\xff\xfe"))), OPERATOR, LIMITS
    )
    assert (len(found.accepted), [rejection.index for rejection in found.rejected]) == (1, [1])


def test_an_agent_is_held_to_its_prefix() -> None:
    agent = Principal("k", Role.AGENT, source_prefix="/nodes/bj-yz-017")
    found = sort_events(split_batch(_batch(_event(), _event(source="/nodes/other"))), agent, LIMITS)
    assert [rejection.code for rejection in found.rejected] == ["source_not_allowed"]


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b"nope", b"[1,]", b"[" * 100_000, b"[] x", b"\xff\xfe"])
def test_a_body_that_is_no_array_is_refused_whole(body: bytes) -> None:
    with pytest.raises(MalformedJson):
        split_batch(body)


@pytest.mark.parametrize("body", [b"", b"{", b"nope", b"{} {}", b"[" * 100_000, b"\xff\xfe"])
def test_a_body_that_is_no_event_is_refused_whole(body: bytes) -> None:
    with pytest.raises(MalformedJson):
        only_event(body)


def test_a_batch_has_at_most_a_thousand_events_and_may_have_none() -> None:
    assert split_batch(b"[]") == []
    assert len(split_batch(_batch(*[b"{}"] * 1_000))) == 1_000
    with pytest.raises(BatchTooLarge):
        split_batch(_batch(*[b"{}"] * 1_001))
