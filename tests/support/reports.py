"""Usage reports as an agent would write them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

JsonObject = dict[str, Any]
"""A JSON object on its way out of a test, or an answer that a test looks into."""

EVENT_TYPE: Final = "gpu.usage.reported.v1"


def instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def usage_event(
    *,
    account_id: str = "acct-7",
    resource_id: str = "inst-8f2c",
    start: datetime,
    end: datetime,
    since: datetime | None = None,
    sku: str = "rtx-4090",
    source: str = "/nodes/bj-yz-017",
    event_id: str = "boot-42/000123",
    **state: Any,
) -> JsonObject:
    """A report in structured mode; `state` may hold quantity, mode, purchase, labels."""
    return {
        "specversion": "1.0",
        "type": EVENT_TYPE,
        "source": source,
        "id": event_id,
        "subject": resource_id,
        "time": instant(end),
        "data": {
            "account_id": account_id,
            "sku": sku,
            "quantity": 1,
            "since": instant(since or start),
            "start": instant(start),
            "end": instant(end),
            **state,
        },
    }


def structured(event: JsonObject) -> bytes:
    return json.dumps(event, ensure_ascii=False).encode()


def binary(event: JsonObject) -> tuple[bytes, list[tuple[str, bytes]]]:
    """(body, headers) of Kafka's binary mode: attributes as `ce_*` headers, the data alone as the body."""
    headers = [(f"ce_{name}", str(value).encode()) for name, value in event.items() if name != "data"]
    headers.append(("content-type", b"application/json"))
    return json.dumps(event["data"], ensure_ascii=False).encode(), headers


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)
