"""What pricing is told by its environment (PRICING_*)."""

from pydantic import Field

from shared.settings import ServiceSettings, service_config


class PricingSettings(ServiceSettings):
    model_config = service_config("PRICING_")

    port: int = Field(default=8082, ge=0, le=65535)
    rerate_poll_seconds: float = Field(default=2.0, gt=0, le=600)
    """How soon what a newly published book changes is rated again, and what it gives a price to is rated."""
    metering_url: str = "http://127.0.0.1:8081"
