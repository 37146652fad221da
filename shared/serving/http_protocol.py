"""Uvicorn's fast HTTP protocol with what it lacks: a limit on a request's head, and refusals as problems."""

import asyncio
from http import HTTPStatus
from typing import Final

from fastapi import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from shared.problems import problem_response

HEAD_BYTES_MAX: Final = 64 * 1024
HEAD_SECONDS_MAX: Final = 60
_CLOSE: Final = {"connection": "close"}


class _HeadTooLargeError(Exception):
    """Stops the parser."""


class LimitedHeadProtocol(HttpToolsProtocol):
    """Answers 431 and hangs up once a request's line and headers exceed HEAD_BYTES_MAX."""

    _in_head = True
    _heads = 0
    _unfinished_bytes = 0
    _head_bytes = 0
    _is_head_too_large = False

    def data_received(self, data: bytes) -> None:
        """Of a head that has not ended, what arrived counts; the parser tells a long header when it ends."""
        was_in_head, heads = self._in_head, self._heads
        super().data_received(data)
        is_all_head = was_in_head and self._in_head and heads == self._heads
        self._unfinished_bytes = self._unfinished_bytes + len(data) if is_all_head else 0
        if self._unfinished_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self._refuse_head()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_timer.cancel()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        """A connection that says nothing, or drips its head, is not kept."""
        self._head_timer = self.loop.call_later(HEAD_SECONDS_MAX, self.transport.close)

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._head_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._heads += 1
        self._head_timer.cancel()
        if self._head_bytes > HEAD_BYTES_MAX:
            self._is_head_too_large = True
            raise _HeadTooLargeError
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._head_timer.cancel()
        if self._in_head and not self.transport.is_closing():
            self._expect_head()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words are not ours
        if self._is_head_too_large:
            self._refuse_head()
            return
        self._hang_up(
            problem_response(400, "malformed_http", "this is not an HTTP/1.1 request", headers=_CLOSE)
        )

    def _refuse_head(self) -> None:
        detail = f"the request line and headers are at most {HEAD_BYTES_MAX} bytes"
        self._hang_up(problem_response(431, "headers_too_large", detail, headers=_CLOSE))

    def _hang_up(self, response: Response) -> None:
        status = HTTPStatus(response.status_code)
        head = [f"HTTP/1.1 {status} {status.phrase}".encode()]
        head += [name + b": " + value for name, value in response.raw_headers]
        self.transport.write(b"\r\n".join(head) + b"\r\n\r\n" + bytes(response.body))
        self.transport.close()
