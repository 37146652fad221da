"""Sorting a body of usage events into those that go on to metering and those that go back."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from services.gateway.domain.principals import Principal
from services.gateway.domain.refusals import BatchTooLarge, MalformedJson
from shared.contracts.usage import ReportLimits, decode_structured
from shared.errors import EventRefused

EVENTS_PER_BATCH_MAX: Final = 1000


class Accepted(NamedTuple):
    """`body` is the event as it was sent: nothing is reformatted on the way to metering."""

    resource_id: str
    body: bytes


class Rejection(Struct, frozen=True):
    index: int
    id: str | None
    code: str
    detail: str


class Sorted(NamedTuple):
    accepted: list[Accepted]
    rejected: list[Rejection]


def split_batch(body: bytes) -> list[msgspec.Raw]:
    """The events of a JSON array, not looked into. Raises MalformedJson or BatchTooLarge."""
    try:
        events = _batch_decoder.decode(body)
    except msgspec.ValidationError:
        raise MalformedJson("a batch is a JSON array of events") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedJson(f"the body is not JSON: {error}") from None
    if len(events) > EVENTS_PER_BATCH_MAX:
        raise BatchTooLarge(f"a batch has at most {EVENTS_PER_BATCH_MAX} events, this has {len(events)}")
    return events


def only_event(body: bytes) -> list[msgspec.Raw]:
    """The one event of a body, not looked into. Raises MalformedJson."""
    try:
        return [_event_decoder.decode(body)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedJson(f"the body is not JSON: {error}") from None


def sort_events(events: Sequence[msgspec.Raw], principal: Principal, limits: ReportLimits) -> Sorted:
    """Every event is checked by the function metering uses, so that what is accepted here is billed there."""
    accepted: list[Accepted] = []
    rejected: list[Rejection] = []
    for index, event in enumerate(events):
        try:
            report = decode_structured(event, limits)
        except EventRefused as error:
            refused = error
        else:
            if principal.may_report_as(report.source):
                accepted.append(Accepted(report.resource_id, bytes(event)))
                continue
            refused = _wrong_source(report.source, principal)
        rejected.append(Rejection(index, _id_of(event), refused.code, refused.detail))
    return Sorted(accepted, rejected)


def _wrong_source(source: str, principal: Principal) -> EventRefused:
    return EventRefused(
        "source_not_allowed",
        f"source {source!r} is not under {principal.source_prefix!r}, to which the key is bound",
    )


class _Identified(Struct):
    id: str | None = None


_batch_decoder = msgspec.json.Decoder(list[msgspec.Raw])
_event_decoder = msgspec.json.Decoder(msgspec.Raw)
_id_decoder = msgspec.json.Decoder(_Identified)
_ID_CHARACTERS_SHOWN: Final = 128


def _id_of(event: msgspec.Raw) -> str | None:
    """The id by which the sender knows the event, as far as there is one."""
    try:
        event_id = _id_decoder.decode(event).id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return None if event_id is None else event_id[:_ID_CHARACTERS_SHOWN]
