"""An SDK of OpenTelemetry for a test: what spans the product has made."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext

from sites import traces


@dataclass(frozen=True)
class Spans:
    """The spans that have ended."""

    provider: TracerProvider
    exporter: InMemorySpanExporter

    def all(self) -> tuple[ReadableSpan, ...]:
        """All of them, in the order in which they ended."""
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of a name."""
        return [one for one in self.all() if one.name == name]

    def one(self, name: str) -> ReadableSpan:
        """The only one of a name."""
        (found,) = self.named(name)
        return found

    def forget(self) -> None:
        """Begin anew."""
        self.exporter.clear()


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """The spans of a test; only this test has an SDK."""
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(traces, "_TRACER", provider.get_tracer("snaptide"))
    yield Spans(provider, exporter)
    provider.shutdown()


def context_of(span: ReadableSpan) -> SpanContext:
    """What others know of a span."""
    found = span.get_span_context()
    assert found is not None
    return found


def trace_of(span: ReadableSpan) -> int:
    """The number of a span's trace."""
    return context_of(span).trace_id


def is_below(span: ReadableSpan, above: ReadableSpan) -> bool:
    """Whether a span is a child of another."""
    parent = span.parent
    return parent is not None and parent.span_id == context_of(above).span_id


def linked(span: ReadableSpan) -> list[int]:
    """The numbers of the traces that a span is linked to."""
    return [link.context.trace_id for link in span.links]


def facts(span: ReadableSpan) -> dict[str, object]:
    """What a span tells, without the prefix."""
    return {k.removeprefix("snaptide."): v for k, v in (span.attributes or {}).items()}
