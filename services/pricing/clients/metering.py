"""Metering, asked to tell facts again."""

from http import HTTPStatus
from typing import Final

import httpx

from services.pricing.domain.republishing import RepublishRequest
from shared.errors import Conflict, Unavailable
from shared.time import format_instant

TIMEOUT_SECONDS: Final = 10.0
CONNECT_TIMEOUT_SECONDS: Final = 2.0
CONNECTIONS_MAX: Final = 2
KEEP_ALIVE_SECONDS: Final = 3.0
"""Shorter than metering keeps an idle connection."""
_REFUSALS: Final = (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY)


class MeteringClient:
    def __init__(self, url: str) -> None:
        self._client = httpx.AsyncClient(
            base_url=url,
            timeout=httpx.Timeout(TIMEOUT_SECONDS, connect=CONNECT_TIMEOUT_SECONDS),
            limits=httpx.Limits(max_connections=CONNECTIONS_MAX, keepalive_expiry=KEEP_ALIVE_SECONDS),
            trust_env=False,
        )

    async def republish(self, request: RepublishRequest) -> None:
        """Returns once metering has the request; it may be made any number of times.

        Raises Unavailable when metering does not answer, or not as one that knows the call; Conflict when
        it refuses.
        """
        body = {
            "reference": request.reference,
            "from": format_instant(request.first_hour),
            "to": None if request.until is None else format_instant(request.until),
        }
        try:
            response = await self._client.post("/v1/republish", json=body)
        except httpx.TransportError as error:
            raise Unavailable(f"metering does not answer: {type(error).__name__}", part="metering") from None
        if response.status_code in _REFUSALS:
            raise Conflict(f"metering refuses {request.reference}: {response.text[:500]}")
        if response.status_code not in (HTTPStatus.OK, HTTPStatus.CREATED):
            raise Unavailable(f"metering answered with {response.status_code}", part="metering")

    async def close(self) -> None:
        await self._client.aclose()
