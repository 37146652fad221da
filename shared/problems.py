"""Errors on the wire: RFC 9457 `application/problem+json` with a stable `type`."""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from shared import errors
from shared.database import is_transient

log = logging.getLogger(__name__)

PROBLEM_CONTENT_TYPE: Final = "application/problem+json"
RETRY_AFTER_SECONDS: Final = 1
_DATA_EXCEPTION: Final = "22"
"""SQLSTATE class: what the caller sent cannot be stored."""

_STATUS: Final[Mapping[type[errors.Refusal], HTTPStatus]] = {
    errors.Invalid: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.Conflict: HTTPStatus.CONFLICT,
    errors.InsufficientFunds: HTTPStatus.PAYMENT_REQUIRED,
    errors.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}


class FieldProblem(BaseModel):
    """One field that is wrong."""

    field: str = Field(examples=["body.amount"])
    detail: str = Field(examples=["an amount is a decimal string with at most six places"])


class Problem(BaseModel):
    """RFC 9457. `type` is stable, one per `code`; `detail` is for people; further members are the facts."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["urn:gpu-billing:problem:not_found"])
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    code: str = Field(examples=["not_found"])
    detail: str = Field(examples=["there is no account acct-7"])
    instance: str | None = Field(default=None, examples=["/v1/accounts/acct-7"])
    errors: list[FieldProblem] | None = None


def problem_response(
    status: int,
    code: str,
    detail: str,
    *,
    instance: str | None = None,
    headers: Mapping[str, str] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Response:
    """The one way an error leaves a service; 503 always says when to come back."""
    body = {
        "type": f"urn:gpu-billing:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        **({"instance": instance} if instance else {}),
        **(facts or {}),
    }
    extra = dict(headers or {})
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        extra.setdefault("retry-after", str(RETRY_AFTER_SECONDS))
    return Response(msgspec.json.encode(body), status, extra, PROBLEM_CONTENT_TYPE)


def _documented(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    return {
        int(status): {
            "description": status.phrase,
            "content": {PROBLEM_CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in statuses
    }


PROBLEM_RESPONSES: Final = _documented(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.CONFLICT,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
"""For FastAPI(responses=...): what any operation may answer instead of its result."""


def install_problems(app: FastAPI) -> None:
    """Every error of the app becomes a problem; faults of ours are logged whole and shown as one line."""
    app.add_exception_handler(errors.Refusal, _on_refusal)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    for lost in (DBAPIError, PoolTimeoutError, OSError, TimeoutError):
        app.add_exception_handler(lost, _on_lost)
    app.add_exception_handler(Exception, _on_fault)
    _document_problem(app)


def _on_refusal(request: Request, error: Exception) -> Response:
    if not isinstance(error, errors.Refusal):
        raise error
    status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), HTTPStatus.CONFLICT)
    return problem_response(status, error.code, error.detail, instance=request.url.path, facts=error.facts)


def _on_invalid(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    found: Sequence[Mapping[str, Any]] = error.errors()
    if any(item["type"] == "json_invalid" for item in found):
        return problem_response(
            HTTPStatus.BAD_REQUEST, "malformed_json", "the body is not JSON", instance=request.url.path
        )
    if any(item["type"] == "model_attributes_type" and item["loc"] == ("body",) for item in found):
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not kind.endswith("+json"):
            return problem_response(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                f"the body is JSON and must be sent as application/json, not as {kind or 'nothing'!r}",
                instance=request.url.path,
                facts={"accepted": ["application/json"]},
            )
    fields = [
        {"field": ".".join(str(part) for part in item["loc"]), "detail": _plain(str(item["msg"]))}
        for item in found
    ]
    detail = "; ".join(f"{field['field']}: {field['detail']}" for field in fields[:3])
    return problem_response(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        errors.Invalid.code,
        detail,
        instance=request.url.path,
        facts={"errors": fields[:50]},
    )


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ")


_HTTP_CODES: Final = {
    HTTPStatus.UNAUTHORIZED: "unauthorized",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.NOT_FOUND: "not_found",
    HTTPStatus.METHOD_NOT_ALLOWED: "method_not_allowed",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "body_too_large",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "unsupported_media_type",
}


def _on_http(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    code = _HTTP_CODES.get(HTTPStatus(error.status_code), "http_error")
    headers = answer_headers(request, error)
    return problem_response(
        error.status_code, code, str(error.detail), instance=request.url.path, headers=headers
    )


_METHODS: Final = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")


def answer_headers(request: Request, error: HTTPException) -> Mapping[str, str]:
    """The error's own, and for 405 every method of the path: the router names those of one route only."""
    if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
        return error.headers or {}
    allowed = [
        method
        for method in _METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    ]
    return {"allow": ", ".join(allowed)}


def _on_lost(request: Request, error: Exception) -> Response:
    """A part that is away is no fault of the code: say so, and when to come back."""
    if str(getattr(getattr(error, "orig", None), "sqlstate", "")).startswith(_DATA_EXCEPTION):
        return problem_response(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            errors.Invalid.code,
            "a value cannot be stored: a character that text may not hold, or a number out of range",
            instance=request.url.path,
        )
    if not is_transient(error):
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return _on_fault(request, error)
    reason = str(error).split("\n", 1)[0]
    log.warning("%s %s: %s: %s", request.method, request.url.path, type(error).__name__, reason)
    return problem_response(
        HTTPStatus.SERVICE_UNAVAILABLE,
        errors.Unavailable.code,
        "the database does not answer at the moment; the same call may go through later",
        instance=request.url.path,
    )


def _on_fault(request: Request, _: Exception) -> Response:
    """Uvicorn logs the trace; the caller sees one line."""
    return problem_response(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "internal_error",
        "this is our fault and has been logged; nothing was changed unless a retry says so",
        instance=request.url.path,
    )


def _document_problem(app: FastAPI) -> None:
    """Adds the Problem schema to the document, and drops FastAPI's own validation error from it."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generate()
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(problem.pop("$defs", {}))
            schemas["Problem"] = problem
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
