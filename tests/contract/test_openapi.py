"""The REST of each service as it was agreed. UPDATE_SNAPSHOTS=1 writes what is now; the diff is reviewed."""

import importlib
import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from shared.serving import Service, add_probes
from shared.settings import KafkaSettings
from tests.support.databases import SERVICES

SNAPSHOTS: Final = Path(__file__).parent / "openapi"
NOWHERE: Final = "postgresql+asyncpg://nobody:x@127.0.0.1:9/none"
METHODS: Final = {"get", "post", "put", "patch", "delete"}


_documents: dict[str, dict[str, Any]] = {}


async def _document(name: str) -> dict[str, Any]:
    if name not in _documents:
        _documents[name] = await _compose_document(name)
    return _documents[name]


async def _compose_document(name: str) -> dict[str, Any]:
    """Composing opens nothing: connections are made at first use."""
    settings = getattr(importlib.import_module(f"services.{name}.settings"), f"{name.capitalize()}Settings")
    compose = importlib.import_module(f"services.{name}.app").compose
    service: Service = await compose(settings(database_url=NOWHERE), KafkaSettings())
    try:
        add_probes(service.api, service.checks)
        document: dict[str, Any] = json.loads(json.dumps(service.api.openapi()))
    finally:
        await service.close()
    document["info"].pop("version")
    return document


@pytest.mark.parametrize("name", SERVICES)
async def test_the_rest_of_a_service_is_the_agreed_one(name: str) -> None:
    document = await _document(name)
    snapshot = SNAPSHOTS / f"{name}.json"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        SNAPSHOTS.mkdir(exist_ok=True)
        snapshot.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert document == json.loads(snapshot.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SERVICES)
async def test_every_operation_says_what_it_is_and_how_it_fails(name: str) -> None:
    document = await _document(name)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert method in METHODS
            assert operation.get("summary"), f"{method} {path}"
            if path.startswith("/v1/"):
                failures = {status for status in operation["responses"] if status[0] in "45"}
                assert failures, f"{method} {path} names no error"
                for status in failures:
                    content = operation["responses"][status]["content"]
                    assert set(content) == {"application/problem+json"}, f"{method} {path} {status}"


async def test_the_public_door_gives_examples_and_never_a_number_for_money() -> None:
    document = await _document("gateway")
    schemas = document["components"]["schemas"]
    for name, schema in schemas.items():
        for field, of in schema.get("properties", {}).items():
            if field in MONEY_FIELDS:
                kinds = {of.get("type"), *(option.get("type") for option in of.get("anyOf", []))}
                assert kinds <= {None, "string", "null"}, f"{name}.{field}"


MONEY_FIELDS: Final = {
    "amount",
    "available",
    "cash",
    "accrued",
    "debt",
    "remaining",
    "total",
    "price",
    "settled",
}


@pytest.mark.parametrize(
    "call",
    [
        "POST /v1/events",
        "POST /v1/accounts",
        "GET /v1/accounts/{account_id}",
        "GET /v1/accounts/{account_id}/balance",
        "POST /v1/accounts/{account_id}/top-ups",
        "POST /v1/accounts/{account_id}/grants",
        "GET /v1/accounts/{account_id}/journal",
        "GET /v1/accounts/{account_id}/usage",
        "GET /v1/accounts/{account_id}/charges",
        "GET /v1/price-book",
        "GET /v1/price-books",
        "POST /v1/price-books",
        "POST /v1/quotes",
        "POST /v1/holds",
        "DELETE /v1/holds/{hold_id}",
        "GET /healthz",
        "GET /readyz",
        "GET /metrics",
    ],
)
async def test_the_gateway_serves_every_call_of_the_contract(call: str) -> None:
    method, path = call.split()
    assert method.lower() in (await _document("gateway"))["paths"].get(path, {})
