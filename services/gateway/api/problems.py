"""The statuses of refusals that only the gateway makes; the rest is shared.problems."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from services.gateway.domain import refusals
from shared import errors
from shared.problems import PROBLEM_RESPONSES, answer_headers, problem_response

_STATUS: Final[Mapping[type[errors.Refusal], HTTPStatus]] = {
    refusals.Unauthenticated: HTTPStatus.UNAUTHORIZED,
    refusals.Forbidden: HTTPStatus.FORBIDDEN,
    refusals.MalformedJson: HTTPStatus.BAD_REQUEST,
    refusals.BatchTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    refusals.UnsupportedMediaType: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    errors.Conflict: HTTPStatus.CONFLICT,
    errors.Invalid: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}

_HTTP_CODES: Final[Mapping[int, str]] = {
    400: "malformed_json",
    404: "not_found",
    405: "method_not_allowed",
    408: "body_too_slow",
    413: "body_too_large",
    500: "internal_error",
}
"""What the framework and the door refuse by status alone; a body that cannot be parsed is the only 400."""

_OUR_FAULT: Final = "this is our fault and has been logged; it is safe to send the same request again"


def refusal_problem(refusal: errors.Refusal, path: str) -> Response:
    status = next((_STATUS[kind] for kind in type(refusal).__mro__ if kind in _STATUS), HTTPStatus.CONFLICT)
    facts = dict(refusal.facts)
    headers = {}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = 'Bearer realm="gpu-billing"'
    if "retry_after" in facts:
        headers["retry-after"] = str(facts.pop("retry_after"))
    return problem_response(status, refusal.code, refusal.detail, instance=path, headers=headers, facts=facts)


def http_problem(error: HTTPException, path: str, headers: Mapping[str, str] | None = None) -> Response:
    code = _HTTP_CODES.get(error.status_code, "http_error")
    detail = str(error.detail)
    if error.status_code == HTTPStatus.INTERNAL_SERVER_ERROR:
        detail = _OUR_FAULT
    elif code == "malformed_json":
        detail = "the body is not JSON"
    return problem_response(error.status_code, code, detail, instance=path, headers=headers or error.headers)


def install_gateway_problems(app: FastAPI) -> None:
    """After shared.problems: its own handlers stay for everything that is not named here."""
    for kind in _STATUS:
        app.add_exception_handler(kind, _on_refusal)
    app.add_exception_handler(HTTPException, _on_http)


def _on_refusal(request: Request, error: Exception) -> Response:
    if not isinstance(error, errors.Refusal):
        raise error
    return refusal_problem(error, request.url.path)


def _on_http(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return http_problem(error, request.url.path, answer_headers(request, error))


def _documented(status: HTTPStatus) -> dict[str, object]:
    return {**PROBLEM_RESPONSES[404], "description": status.phrase}


GATEWAY_PROBLEM_RESPONSES: Final[dict[int | str, dict[str, object]]] = {
    **PROBLEM_RESPONSES,
    401: _documented(HTTPStatus.UNAUTHORIZED),
    403: _documented(HTTPStatus.FORBIDDEN),
    413: _documented(HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
}
"""What any operation may answer instead of its result."""
