"""OpenTelemetry: metrics for Prometheus at /metrics, traces to a collector when one is named.

Modules make their instruments with `opentelemetry.metrics.get_meter(__name__)`; counts are added per batch.
"""

import os
from typing import Final

from fastapi import FastAPI
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

OTLP_ENDPOINT_VARIABLE: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"


def setup_telemetry(service: str) -> None:
    """Once per process. Without OTEL_EXPORTER_OTLP_ENDPOINT nothing is traced and nothing is paid for it."""
    resource = Resource.create({SERVICE_NAME: service})
    metrics.set_meter_provider(MeterProvider([PrometheusMetricReader()], resource))
    if os.environ.get(OTLP_ENDPOINT_VARIABLE):
        provider = TracerProvider(resource=resource)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
        HTTPXClientInstrumentor().instrument()


def instrument(app: FastAPI) -> None:
    """Spans for each request, when traces are exported; probes are left out."""
    if os.environ.get(OTLP_ENDPOINT_VARIABLE):
        FastAPIInstrumentor.instrument_app(app, excluded_urls="healthz,readyz,metrics")
