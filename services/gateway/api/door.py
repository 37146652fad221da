"""The outermost layer: nobody passes without a key, nothing passes without a limit, no fault shows a trace.

Plain ASGI, since every ingest request goes through it.
"""

import asyncio
import logging
import re
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.api.problems import http_problem, refusal_problem
from services.gateway.clients.request_id import REQUEST_ID_HEADER, begin_request
from services.gateway.settings import GatewaySettings
from services.gateway.usecases.authenticate import KeyRing
from shared.database import is_transient
from shared.errors import Refusal, Unavailable
from shared.ids import IdSource

log = logging.getLogger(__name__)

GUARDED_PREFIX: Final = "/v1/"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/@+=-]{1,128}", re.ASCII)
_SERVER_ERRORS_FROM: Final = 500


class Door:
    def __init__(self, app: ASGIApp, settings: GatewaySettings, keys: KeyRing, new_id: IdSource) -> None:
        self._app = app
        self._settings = settings
        self._keys = keys
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = headers.get(REQUEST_ID_HEADER, "")
        if _REQUEST_ID.fullmatch(request_id) is None:
            request_id = str(self._new_id())
        begin_request(request_id)
        reply = _Reply(send, request_id)
        try:
            async with asyncio.timeout(self._settings.request_seconds_max):
                await self._admit(scope, headers, receive, reply)
        except ClientDisconnect:
            log.info("%s %s: the caller left, request %s", scope["method"], scope["path"], request_id)
        except Exception as error:
            if reply.has_started:
                raise
            await self._answer_fault(error, scope, receive, reply)
        if reply.status >= _SERVER_ERRORS_FROM:
            log.warning(
                "%s %s answered %d, request %s", scope["method"], scope["path"], reply.status, request_id
            )

    async def _admit(self, scope: Scope, headers: Headers, receive: Receive, reply: "_Reply") -> None:
        if scope["path"].startswith(GUARDED_PREFIX):
            scope["principal"] = await self._keys.authenticate(headers.get("authorization"))
        declared = headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared) > self._settings.body_bytes_max:
            raise _too_large(self._settings.body_bytes_max)
        body = _Body(receive, self._settings.body_bytes_max, self._settings.body_seconds_max)
        await self._app(scope, body, reply)

    async def _answer_fault(self, error: Exception, scope: Scope, receive: Receive, reply: "_Reply") -> None:
        if isinstance(error, Refusal):
            response = refusal_problem(error, scope["path"])
        elif isinstance(error, HTTPException):
            response = http_problem(error, scope["path"])
        elif isinstance(error, TimeoutError):
            response = refusal_problem(Unavailable("this took too long; try again"), scope["path"])
        elif is_transient(error):
            log.warning("the database does not answer: %s", type(error).__name__)
            response = refusal_problem(
                Unavailable("the gateway's database does not answer just now; try again"), scope["path"]
            )
        else:
            log.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
            response = http_problem(HTTPException(500), scope["path"])
        await response(scope, receive, reply)


class _Reply:
    """Sends, and puts the request's id on every answer."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id
        self.status = 0

    @property
    def has_started(self) -> bool:
        return self.status != 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers[REQUEST_ID_HEADER] = self._request_id
            headers["x-content-type-options"] = "nosniff"
            headers.setdefault("cache-control", "no-store")
        await self._send(message)


class _Body:
    """Receives no more bytes, and for no longer, than allowed; a declared length is not believed."""

    def __init__(self, receive: Receive, bytes_max: int, seconds_max: float) -> None:
        self._receive = receive
        self._bytes_max = bytes_max
        self._bytes_left = bytes_max
        self._until = asyncio.get_running_loop().time() + seconds_max
        self._is_complete = False

    async def __call__(self) -> Message:
        if self._is_complete:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, "the body did not arrive in time") from None
        if message["type"] == "http.request":
            self._bytes_left -= len(message.get("body", b""))
            if self._bytes_left < 0:
                raise _too_large(self._bytes_max)
            self._is_complete = not message.get("more_body", False)
        return message


def _too_large(bytes_max: int) -> HTTPException:
    return HTTPException(413, f"a body is at most {bytes_max} bytes")
