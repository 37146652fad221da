"""WALLET_*: what the wallet is told by its environment."""

from pydantic import Field

from services.wallet.domain.standing import AVAILABLE_MICRO_LOW, RUNWAY_SECONDS_LOW
from shared.settings import ServiceSettings, service_config


class WalletSettings(ServiceSettings):
    model_config = service_config("WALLET_")

    port: int = Field(default=8083, ge=0, le=65535)
    consumers: int = Field(default=2, ge=1, le=64)
    """Batches of charges in hand at once: PostgreSQL works on one while another is decoded."""
    running_seconds: int = Field(default=120, ge=1, le=3600)
    """A resource runs while its last covered second is younger than this."""
    runway_seconds_low: int = Field(default=RUNWAY_SECONDS_LOW, ge=0)
    available_micro_low: int = Field(default=AVAILABLE_MICRO_LOW, ge=0)
    """Below either an account is `low` (R18)."""
    settle_grace_seconds: int = Field(default=300, ge=0)
    """How long after its end an hour is settled: most of what is late comes within it."""
    settle_quiet_seconds: float = Field(default=2, ge=0)
    """An account is settled when no charge has come for this long, so that a burst is settled once ..."""
    settle_wait_seconds: float = Field(default=30, ge=0)
    """... but an hour waits no longer than this for it."""
    settle_unopened_wait_seconds: float = Field(default=600, ge=0)
    """How long the hours of an account not opened yet wait for it: its trial pays no debt afterwards."""
    settle_hours_max: int = Field(default=1_000, ge=1, le=10_000)
    """Account-hours in one transaction."""
    expiry_grace_seconds: int = Field(default=3600, ge=0)
    """How long after a lot's end its rest goes to breakage (R15)."""
    hold_grace_seconds: int = Field(default=60, ge=0)
    """How much longer a hold lasts than the time it was asked for."""
    sweep_every_seconds: float = Field(default=1, gt=0, le=60)
    """How often settlement, expiry and the review of standings look for work."""
    sweep_accounts_max: int = Field(default=2_000, ge=1, le=10_000)
