"""W3C trace context in record headers: a batch's span links to the spans that sent its records."""

from collections.abc import Iterable, Sequence
from typing import Final

from opentelemetry import propagate, trace
from opentelemetry.trace import Link, SpanContext

LINKS_MAX: Final = 32


def trace_headers() -> list[tuple[str, bytes]]:
    """The present span as headers; none when nothing is traced, so that nobody pays for it."""
    if not trace.get_current_span().get_span_context().trace_flags.sampled:
        return []
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return [(name, value.encode()) for name, value in carrier.items()]


def links_of(headers_of_records: Iterable[Sequence[tuple[str, bytes | None]]]) -> list[Link]:
    """Links to the distinct spans named in the records' headers, at most LINKS_MAX."""
    contexts: dict[tuple[int, int], SpanContext] = {}
    for headers in headers_of_records:
        carrier = {
            name: value.decode("ascii", "replace")
            for name, value in headers
            if name == "traceparent" and value is not None
        }
        if not carrier:
            continue
        context = trace.get_current_span(propagate.extract(carrier)).get_span_context()
        if context.is_valid:
            contexts[context.trace_id, context.span_id] = context
        if len(contexts) >= LINKS_MAX:
            break
    return [Link(context) for context in contexts.values()]
