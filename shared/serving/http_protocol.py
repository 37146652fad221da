"""Uvicorn's fast HTTP protocol with what it lacks: a limit on a request's head, and refusals as problems."""

from http import HTTPStatus
from typing import Final

from fastapi import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from shared.problems import problem_response

HEAD_BYTES_MAX: Final = 64 * 1024
_CLOSE: Final = {"connection": "close"}


class LimitedHeadProtocol(HttpToolsProtocol):
    """Answers 431 and hangs up once a request's line and headers exceed HEAD_BYTES_MAX."""

    _in_head = True
    _heads = 0
    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Bytes count while they are nothing but head; those that end one may hold a body as well."""
        was_in_head, heads = self._in_head, self._heads
        super().data_received(data)
        is_all_head = was_in_head and self._in_head and heads == self._heads
        self._head_bytes = self._head_bytes + len(data) if is_all_head else 0
        if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            detail = f"the request line and headers are at most {HEAD_BYTES_MAX} bytes"
            self._hang_up(problem_response(431, "headers_too_large", detail, headers=_CLOSE))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._heads += 1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words are not ours
        self._hang_up(
            problem_response(400, "malformed_http", "this is not an HTTP/1.1 request", headers=_CLOSE)
        )

    def _hang_up(self, response: Response) -> None:
        status = HTTPStatus(response.status_code)
        head = [f"HTTP/1.1 {status} {status.phrase}".encode()]
        head += [name + b": " + value for name, value in response.raw_headers]
        self.transport.write(b"\r\n".join(head) + b"\r\n\r\n" + bytes(response.body))
        self.transport.close()
