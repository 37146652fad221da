"""GATEWAY_*: read once from the environment at the composition root."""

from pydantic import Field

from shared.contracts.usage import LATENESS_DAYS_DEFAULT
from shared.settings import ServiceSettings, service_config


class GatewaySettings(ServiceSettings):
    model_config = service_config("GATEWAY_")

    port: int = Field(default=8080, ge=0, le=65535)

    metering_url: str = "http://127.0.0.1:8081"
    pricing_url: str = "http://127.0.0.1:8082"
    wallet_url: str = "http://127.0.0.1:8083"
    sibling_timeout_seconds: float = Field(default=10, gt=0, le=60)
    sibling_connections_max: int = Field(default=100, ge=1, le=1000)

    key_cache_seconds: float = Field(default=5, ge=0, le=300)
    """How long a key is believed without asking the database: a revocation takes at most this long."""
    body_bytes_max: int = Field(default=1024 * 1024, ge=1024, le=16 * 1024 * 1024)
    body_seconds_max: float = Field(default=20, gt=0, le=600)
    """How long a client may take to send its body."""
    request_seconds_max: float = Field(default=45, gt=0, le=600)

    publish_seconds_max: float = Field(default=10, gt=0, le=60)
    """How long a report may wait for the broker's acknowledgement before it is answered with 503."""
    pending_bytes_max: int = Field(default=64 * 1024 * 1024, ge=1024 * 1024)
    """Reports that wait for the broker, all requests together; beyond it they are answered with 503."""
    lateness_days: int = Field(default=LATENESS_DAYS_DEFAULT, ge=1, le=366)
    """As metering's: an older report is refused here, where its sender hears of it."""

    wallet_wait_seconds: float = Field(default=3, ge=0, le=30)
    """How long opening an account waits for its wallet, so that a client reads what it wrote."""

    idempotency_lease_seconds: int = Field(default=60, ge=1, le=3600)
    """How long a command may run before its Idempotency-Key may run it again."""
    idempotency_keep_hours: int = Field(default=24, ge=1, le=24 * 30)
