"""Logs, and OpenTelemetry: metrics for Prometheus at /metrics, traces to a collector when one is named.

Modules make their instruments with `opentelemetry.metrics.get_meter(__name__)`; counts are added per batch.
"""

import logging
import os
import sys
import time
from typing import TYPE_CHECKING, Final

from opentelemetry import metrics, trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from shared.settings import LogSettings

if TYPE_CHECKING:
    from fastapi import FastAPI

OTLP_ENDPOINT_VARIABLE: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
QUIET_SECONDS: Final = 10
_QUIET: Final = {"aiokafka": "ERROR", "alembic": "WARNING", "httpx": "WARNING", "httpcore": "WARNING"}


class _Seldom(logging.Filter):
    """A client library that repeats itself a hundred times a second is heard once in QUIET_SECONDS."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("aiokafka"):
            return True
        what = f"{record.name} {record.msg}"
        if record.created < self._said.get(what, 0.0) + QUIET_SECONDS:
            return False
        self._said[what] = record.created
        return True


def setup_logging() -> None:
    """One line per outcome on standard error, times in UTC."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    handler.addFilter(_Seldom())
    logging.basicConfig(level=LogSettings().level.upper(), handlers=[handler], force=True)
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)


def setup_telemetry(service: str) -> None:
    """Once per process. Without OTEL_EXPORTER_OTLP_ENDPOINT nothing is traced and nothing is paid for it."""
    resource = Resource.create({SERVICE_NAME: service})
    metrics.set_meter_provider(MeterProvider([PrometheusMetricReader()], resource))
    if os.environ.get(OTLP_ENDPOINT_VARIABLE):
        # Only a process that traces pays for loading this.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor  # noqa: PLC0415

        provider = TracerProvider(resource=resource)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
        HTTPXClientInstrumentor().instrument()


def instrument(app: "FastAPI") -> None:
    """Spans for each request, when traces are exported; probes are left out."""
    if os.environ.get(OTLP_ENDPOINT_VARIABLE):
        from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor  # noqa: PLC0415 - as above

        FastAPIInstrumentor.instrument_app(app, excluded_urls="healthz,readyz,metrics")
