"""METERING_*: what this service needs to be told."""

from pydantic import Field

from shared.contracts.usage import LATENESS_DAYS_DEFAULT
from shared.settings import ServiceSettings, service_config


class MeteringSettings(ServiceSettings):
    model_config = service_config("METERING_")

    port: int = Field(default=8081, ge=0, le=65535)
    lateness_days: int = Field(default=LATENESS_DAYS_DEFAULT, ge=1, le=366)
    """How far back a report may start (DESIGN 3)."""
    consumers: int = Field(default=2, ge=1, le=64)
    """Batches in hand at once: while PostgreSQL works on one, the next is decoded."""
    republish_pause_seconds: float = Field(default=0.1, ge=0, le=60)
    """Between two pages of facts told again: longer leaves more to what is reported meanwhile."""
