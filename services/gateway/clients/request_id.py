"""The id by which one request is followed from its caller through every service and log."""

from contextvars import ContextVar
from typing import Final

REQUEST_ID_HEADER: Final = "x-request-id"

_request_id: ContextVar[str] = ContextVar("request_id", default="-")

current_request_id = _request_id.get
begin_request = _request_id.set
