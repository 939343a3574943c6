"""What a batch carries may be anything that somebody has written there."""

import pytest
from opentelemetry import trace

from sites import traces
from tests.fix_spans import Spans, facts, is_below, linked, trace_of

OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("strange", ["", "no", "00-0-0-0", f"{OTHER}-", "x" * 10_000])
def test_strange_text_is_no_trace(spans: Spans, strange: str) -> None:
    with traces.span("above"):
        traces.link([strange])
        traces.mark("mark", [strange])
        with traces.span("below", carried=strange):
            pass
    assert is_below(spans.one("below"), spans.one("above"))
    assert linked(spans.one("above")) == []
    assert spans.named("mark") == []


def test_span_without_another_above_goes_on(spans: Spans) -> None:
    with traces.span("later", carried=OTHER):
        pass
    assert f"{trace_of(spans.one('later')):x}" in OTHER
    assert linked(spans.one("later")) == []


def test_each_trace_is_linked_once(spans: Spans) -> None:
    with traces.span("here"):
        traces.link([OTHER, OTHER])
    assert len(linked(spans.one("here"))) == 1


def test_mark_is_in_the_other_trace_and_linked_to_the_open_span(spans: Spans) -> None:
    with traces.span("here"):
        traces.mark("mark", [OTHER, OTHER], site="jfk")
    mark, here = spans.one("mark"), spans.one("here")
    assert f"{trace_of(mark):x}" in OTHER
    assert linked(mark) == [trace_of(here)]
    assert facts(mark) == {"site": "jfk"}


def test_mark_in_the_trace_of_the_open_span_is_below_it(spans: Spans) -> None:
    with traces.span("here"):
        own = traces.traceparent()
        assert own is not None
        with traces.span("within"):
            traces.mark("mark", [own])
    assert is_below(spans.one("mark"), spans.one("within"))
    assert linked(spans.one("mark")) == []


def test_work_without_pieces_is_no_span(spans: Spans) -> None:
    with traces.span("above"), traces.in_pieces("none"):
        pass
    assert spans.named("none") == []


def test_error_of_a_piece_is_that_of_the_work(spans: Spans) -> None:
    with (
        pytest.raises(ValueError, match="secret"),
        traces.span("above"),
        traces.in_pieces("work") as work,
        work.piece(),
    ):
        raise ValueError("secret")
    assert spans.one("work").status.description == "ValueError"


def test_work_that_made_up_for_a_piece_is_no_error(spans: Spans) -> None:
    with traces.span("above"), traces.in_pieces("work") as work:
        with pytest.raises(ValueError, match="x"), work.piece():
            raise ValueError("x")
        with work.piece():
            pass
    assert spans.one("work").status.is_unset
    assert (spans.one("work").attributes or {})["snaptide.pieces"] == 2


def test_without_an_sdk_nothing_is_recorded_or_carried() -> None:
    with traces.span("one", site="jfk") as running:
        running.note(calls=1)
        assert not traces.is_recording()
        assert traces.traceparent() is None
        with traces.in_pieces("two") as two, two.piece():
            pass
        assert two == traces.Pieces()
    assert trace.get_current_span() is trace.INVALID_SPAN
