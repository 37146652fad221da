"""How the gateway speaks to another service: bounded, with one clear refusal when it does not answer."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import httpx

from services.gateway.clients.request_id import REQUEST_ID_HEADER, current_request_id
from services.gateway.domain.answers import JSON, PROBLEM_JSON, Answer
from shared.errors import Unavailable

log = logging.getLogger(__name__)

Query = Mapping[str, str | int | None]
"""Query parameters; those that are None are left out."""

CONNECT_TIMEOUT_SECONDS: Final = 2.0
TRIES_MAX: Final = 3
TRY_PAUSE_SECONDS: Final = 0.1
KEEP_ALIVE_SECONDS: Final = 3.0
"""Shorter than the siblings keep an idle connection, so that a write never meets one that just closed."""

_PASSED_HEADERS: Final = ("location", "retry-after")
_NOTHING_WAS_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_UNSTRUCTURED_ERRORS_FROM: Final = 400


class Sibling:
    """One sibling. `part` is what people call it in an error."""

    def __init__(self, part: str, url: str, timeout_seconds: float, connections_max: int) -> None:
        self._part = part
        self._client = httpx.AsyncClient(
            base_url=url,
            timeout=httpx.Timeout(timeout_seconds, connect=CONNECT_TIMEOUT_SECONDS),
            limits=httpx.Limits(
                max_connections=connections_max,
                max_keepalive_connections=connections_max,
                keepalive_expiry=KEEP_ALIVE_SECONDS,
            ),
            trust_env=False,
        )

    async def get(self, path: str, query: Query | None = None) -> Answer:
        return await self._ask("GET", path, query=query, may_repeat=True)

    async def post(self, path: str, body: Any) -> Answer:
        return await self._ask("POST", path, body=body, may_repeat=False)

    async def delete(self, path: str, query: Query | None = None) -> Answer:
        return await self._ask("DELETE", path, query=query, may_repeat=True)

    async def close(self) -> None:
        await self._client.aclose()

    async def _ask(
        self, method: str, path: str, *, query: Query | None = None, body: Any = None, may_repeat: bool
    ) -> Answer:
        """Repeats only what cannot take effect twice: a read, or a request that never left."""
        params = {name: value for name, value in (query or {}).items() if value is not None}
        headers = {REQUEST_ID_HEADER: current_request_id()}
        for tries_left in reversed(range(TRIES_MAX)):
            try:
                response = await self._client.request(
                    method, path, params=params or None, json=body, headers=headers
                )
            except httpx.TransportError as error:
                worth_it = isinstance(error, _NOTHING_WAS_SENT) or (
                    may_repeat and not isinstance(error, httpx.TimeoutException)
                )
                if tries_left and worth_it:
                    await asyncio.sleep(TRY_PAUSE_SECONDS)
                    continue
                log.warning("%s: %s %s: %s", self._part, method, path, type(error).__name__)
                raise self._no_answer() from None
            return self._answer(response)
        raise self._no_answer()

    def _answer(self, response: httpx.Response) -> Answer:
        media_type = response.headers.get("content-type", "").partition(";")[0].strip()
        if response.content and media_type not in {JSON, PROBLEM_JSON}:
            log.warning("%s answered %d with %r", self._part, response.status_code, media_type)
            raise self._no_answer()
        headers = {name: response.headers[name] for name in _PASSED_HEADERS if name in response.headers}
        return Answer(response.status_code, response.content, media_type or JSON, headers)

    def _no_answer(self) -> Unavailable:
        return Unavailable(f"{self._part} does not answer just now; try again", part=self._part)


def segment(name: str) -> str:
    """A name as one segment of a path, whatever is in it."""
    return quote(name, safe="")
