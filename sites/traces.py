"""Traces: what pushes, refreshes and checks do, as spans of OpenTelemetry's API.

Only a program that has set up an SDK records them. Without one a span does nothing,
and nothing is carried with a batch.

A span tells names, numbers and counts, never a key, a value of a row or a URL. Of an
error it has the class and the code: its message may quote a row.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from sites.errors import SnaptideError

#: A name, number or count that a span tells; one that is None is left out.
Fact = str | int | float | None

_TRACER = trace.get_tracer("snaptide")
_FORMAT = TraceContextTextMapPropagator()
_KEY = "traceparent"


@dataclass(frozen=True, slots=True)
class Running:
    """A span that is open."""

    _span: Span

    def note(self, **facts: Fact) -> None:
        """Add what was not known when it began."""
        if self._span.is_recording():
            self._span.set_attributes(_attributes(facts))


@contextmanager
def span(name: str, *, carried: str | None = None, **facts: Fact) -> Iterator[Running]:
    """Run the block as a span, below the one that is open.

    Parameters:
        carried: the traceparent of what the block goes on with. If that is another
            trace than that of the open span, the block is part of it, and linked to
            the open span.
    """
    above, links = _begun(carried)
    with _TRACER.start_as_current_span(
        name,
        above,
        attributes=_attributes(facts),
        links=links,
        record_exception=False,
        set_status_on_exception=False,
    ) as opened:
        try:
            yield Running(opened)
        except BaseException as error:
            _fail(opened, error)
            raise


@dataclass(slots=True)
class Pieces:
    """When the pieces of some work were done, and the error that ended the last one."""

    wanted: bool = False
    _times: list[tuple[int, int]] = field(default_factory=list)
    error: BaseException | None = None

    @contextmanager
    def piece(self) -> Iterator[None]:
        """Run the block as a piece; several threads may do so at once."""
        if not self.wanted:
            yield
            return
        begin = time.time_ns()
        try:
            yield
        except BaseException as error:
            self.error = error
            raise
        finally:
            self._times.append((begin, time.time_ns()))

    def tell(self, name: str, carried: str | None, facts: dict[str, Fact]) -> None:
        """Make one span of all pieces, if there are any."""
        if not self._times:
            return
        above, links = _begun(carried)
        begins, ends = zip(*self._times, strict=True)
        took = (sum(ends) - sum(begins)) / 1e9
        whole = _TRACER.start_span(
            name,
            above,
            attributes=_attributes(
                {**facts, "pieces": len(self._times), "seconds": took}
            ),
            links=links,
            start_time=min(begins),
        )
        if self.error is not None:
            _fail(whole, self.error)
        whole.end(max(ends))


@contextmanager
def in_pieces(
    name: str, *, carried: str | None = None, **facts: Fact
) -> Iterator[Pieces]:
    """Have one span for work that is done in pieces, with other work between them.

    It lasts from the first piece to the last, and tells how many there were and how
    many seconds they took together. The other parameters are those of `span`.
    """
    pieces = Pieces(wanted=is_recording() or carried is not None)
    try:
        yield pieces
        pieces.error = None  # others have made up for that piece
    finally:
        pieces.tell(name, carried, facts)


def is_recording() -> bool:
    """Whether somebody records the open span."""
    return trace.get_current_span().is_recording()


def traceparent() -> str | None:
    """The open span, as W3C writes it down; None if nobody records it."""
    if not is_recording():
        return None
    carrier: dict[str, str] = {}
    _FORMAT.inject(carrier)
    return carrier.get(_KEY)


def link(traceparents: Iterable[str]) -> None:
    """Link the open span to others, each once."""
    here = trace.get_current_span()
    for there, _ in _others(traceparents):
        here.add_link(there)


def mark(name: str, traceparents: Iterable[str], **facts: Fact) -> None:
    """Leave a span of no length in each of these traces: what they brought came here.

    Each is linked to the open span, or is below it if both are of one trace.
    """
    for _, carried in _others(traceparents):
        with span(name, carried=carried, **facts):
            pass


def _others(traceparents: Iterable[str]) -> Iterator[tuple[SpanContext, str]]:
    """The spans that these name, each once; text that names none is left out."""
    for one in dict.fromkeys(traceparents):
        there = trace.get_current_span(_FORMAT.extract({_KEY: one}))
        if there is not trace.INVALID_SPAN:
            yield there.get_span_context(), one


def _begun(carried: str | None) -> tuple[Context | None, list[Link]]:
    """What a span is below, and its links, if it goes on with another trace."""
    if carried is None:
        return None, []
    here = trace.get_current_span().get_span_context()
    above = _FORMAT.extract({_KEY: carried}, context.get_current())
    if trace.get_current_span(above).get_span_context().trace_id == here.trace_id:
        return None, []
    return above, [Link(here)] if here.is_valid else []


def _attributes(facts: dict[str, Fact]) -> dict[str, str | int | float]:
    return {f"snaptide.{k}": v for k, v in facts.items() if v is not None}


def _fail(failed: Span, error: BaseException) -> None:
    kind = type(error).__name__
    failed.set_attribute("error.type", kind)
    code = error.code if isinstance(error, SnaptideError) else kind
    failed.set_status(Status(StatusCode.ERROR, code))
