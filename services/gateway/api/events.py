"""POST /v1/events: the hot path. No pydantic objects are made of the body, and no event is reformatted."""

from typing import Any, Final

import msgspec
from fastapi import APIRouter, Request, Response

from services.gateway.api.parts import KEY_SCHEME, caller_in, parts_in
from services.gateway.api.problems import GATEWAY_PROBLEM_RESPONSES
from services.gateway.api.schemas import EventsReceipt
from services.gateway.domain.ingest import only_event, split_batch
from services.gateway.domain.permissions import Operation, require
from services.gateway.domain.refusals import UnsupportedMediaType
from services.gateway.usecases.accept_events import Receipt, accept_events
from shared.contracts.usage import EVENT_TYPE
from shared.problems import problem_response

SINGLE: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
EITHER: Final = "application/json"
ACCEPTED_TYPES: Final = (SINGLE, BATCH, EITHER)

router = APIRouter(tags=["events"], responses=GATEWAY_PROBLEM_RESPONSES)

_EXAMPLE: Final[dict[str, Any]] = {
    "specversion": "1.0",
    "type": EVENT_TYPE,
    "source": "/nodes/bj-yz-017",
    "id": "boot-42/000123",
    "subject": "inst-8f2c",
    "time": "2026-03-10T15:01:00Z",
    "data": {
        "account_id": "acct-7",
        "sku": "rtx-4090",
        "quantity": 8,
        "mode": "gpu",
        "purchase": "night_auction",
        "since": "2026-03-10T14:20:05Z",
        "start": "2026-03-10T15:00:00Z",
        "end": "2026-03-10T15:01:00Z",
        "labels": {"project": "clip", "job": "4711", "workload": "training"},
    },
}
_EVENT_SCHEMA: Final = {"type": "object", "description": "A CloudEvent 1.0 in JSON; see docs/asyncapi.yaml."}
_REQUEST_BODY: Final = {
    "required": True,
    "content": {
        SINGLE: {"schema": _EVENT_SCHEMA, "example": _EXAMPLE},
        BATCH: {"schema": {"type": "array", "items": _EVENT_SCHEMA, "maxItems": 1000}, "example": [_EXAMPLE]},
        EITHER: {"schema": {"description": "One event or an array of events."}, "example": _EXAMPLE},
    },
}


@router.post(
    "/v1/events",
    status_code=202,
    response_model=EventsReceipt,
    summary="Report usage",
    description=(
        "One CloudEvent, or a batch of at most 1,000 and 1 MiB; an event is at most 64 KiB. 202 means that "
        "the message broker has every accepted event; events of a batch that break a rule come back in "
        "`rejected` with their reason, the others are taken. 422 if none was taken. Sending an event again "
        "is harmless: usage is a set of seconds. No Idempotency-Key is needed."
    ),
    openapi_extra={"requestBody": _REQUEST_BODY, "security": [{KEY_SCHEME: []}]},
)
async def post_events(request: Request) -> Response:
    # No dependencies: FastAPI takes longer to resolve them than it takes to publish an event.
    caller, parts = caller_in(request), parts_in(request)
    require(caller, Operation.POST_EVENTS)
    media_type = _media_type(request)
    body = await request.body()
    is_batch = media_type == BATCH or (media_type == EITHER and body.lstrip()[:1] == b"[")
    receipt = await accept_events(
        split_batch(body) if is_batch else only_event(body),
        caller,
        reports=parts.reports,
        clock=parts.clock,
        lateness_days=parts.settings.lateness_days,
    )
    if receipt.rejected and not receipt.accepted:
        return _all_refused(receipt, request.url.path)
    return Response(msgspec.json.encode(receipt), 202, media_type="application/json")


def _media_type(request: Request) -> str:
    """Raises UnsupportedMediaType."""
    media_type, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    media_type = media_type.strip()
    if media_type not in ACCEPTED_TYPES or parameters.strip().replace('"', "") not in ("", "charset=utf-8"):
        raise UnsupportedMediaType(
            f"send {SINGLE} for one event or {BATCH} for a batch, in UTF-8",
            accepted=", ".join(ACCEPTED_TYPES),
        )
    if request.headers.get("content-encoding", "identity") != "identity":
        raise UnsupportedMediaType("send the body uncompressed", accepted=", ".join(ACCEPTED_TYPES))
    return media_type


def _all_refused(receipt: Receipt, path: str) -> Response:
    first = receipt.rejected[0]
    return problem_response(
        422,
        "events_refused",
        f"no event was accepted; the first: {first.code}: {first.detail}",
        instance=path,
        facts={"accepted": 0, "rejected": msgspec.to_builtins(receipt.rejected)},
    )
