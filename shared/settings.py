"""Settings, read once from the environment at the composition root."""

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError


def service_config(prefix: str) -> SettingsConfigDict:
    """Where a service's settings come from: variables that begin with its prefix, such as WALLET_."""
    return SettingsConfigDict(env_prefix=prefix, frozen=True, extra="ignore")


def _checked_url(url: str) -> str:
    try:
        driver = make_url(url).drivername
    except ArgumentError:
        driver = ""
    if driver != "postgresql+asyncpg":
        raise ValueError("must be postgresql+asyncpg://role:password@host:port/database")
    return url


DatabaseUrl = Annotated[str, AfterValidator(_checked_url)]


class ServiceSettings(BaseSettings):
    """What every service needs to be told. A service adds its own and gives its prefix and port."""

    database_url: DatabaseUrl
    """postgresql+asyncpg://role:password@host:port/database"""
    migration_url: DatabaseUrl | None = None
    """The same as the database's owner; only `migrate` needs it."""
    database_pool_size: int = Field(default=10, ge=1, le=100)
    host: str = "127.0.0.1"
    port: int = Field(ge=0, le=65535)
    linger_seconds: float = Field(default=0.05, ge=0, le=600)
    """How long after the batch before a batch may still grow: freshness against cost (DESIGN 2)."""
    batch_records_max: int = Field(default=10_000, ge=1, le=100_000)


class KafkaSettings(BaseSettings):
    """KAFKA_*: the broker that all services share."""

    model_config = service_config("KAFKA_")

    bootstrap: str = "127.0.0.1:9092"
    enable_idempotence: bool = True
    """Off for brokers without the idempotent producer; facts carry revisions, so a repeat is harmless."""
    session_timeout_seconds: float = Field(default=15, ge=1, le=300)
    """How long a silent worker keeps its partitions; Kafka itself allows 6 and more."""
    partitions: int = Field(default=6, ge=1, le=1000)
    replication_factor: int = Field(default=1, ge=1, le=10)


class LogSettings(BaseSettings):
    """LOG_*: how much a process says."""

    model_config = service_config("LOG_")

    level: str = "INFO"
