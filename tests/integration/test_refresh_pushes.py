"""A refresh pushes before only if that may bring something, or be refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import deferred
import snapshots
from deferred.batches import cut
from deferred.errors import ChangesNotQueued, DestinationDisabled
from deferred.queues import backlog
from sites import Directory, Site
from sites.faults import InjectedFault
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import rows, run, scalar
from tests.stories import push_and_refresh, refresh

pytestmark = pytest.mark.usefixtures("spark")

PUSHED = "SELECT last_push_at FROM snaptide.destination"


@prepared_once("hq", "jfk")
def pair(sites: Directory) -> None:
    """An updatable snapshot that was written once, pushed and refreshed."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.a (id int PRIMARY KEY, v text)",
        "INSERT INTO public.a VALUES (1, 'one')",
    )
    log(hq, "a")
    snapshots.create(jfk, "a", master="hq", updatable=True)
    refresh(jfk, "a")
    run(jfk, "UPDATE public.a SET v = 'two'")
    push_and_refresh(jfk, "a")


def test_nothing_is_pushed_if_nothing_waits(pair: Directory) -> None:
    jfk = pair["jfk"]
    before = scalar(jfk, PUSHED)
    run(pair["hq"], "UPDATE public.a SET v = 'three'")
    pushed = push_and_refresh(jfk, "a")
    assert (pushed.destination, pushed.transactions, pushed.token) == ("hq", 0, None)
    assert scalar(jfk, PUSHED) == before
    assert rows(jfk, "a") == [(1, "three")]


def test_what_was_queued_is_pushed(pair: Directory) -> None:
    jfk = pair["jfk"]
    run(jfk, "UPDATE public.a SET v = 'four'")
    assert push_and_refresh(jfk, "a").transactions == 1
    assert rows(pair["hq"], "a") == [(1, "four")]


@pytest.mark.parametrize("point", ["push.after_cut", "push.after_commit"])
def test_batch_that_a_push_has_left_is_pushed(
    pair: Directory, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """It is in a window, and not answered; or answered, and the site does not know."""
    jfk = pair["jfk"]
    run(jfk, "UPDATE public.a SET v = 'five'")
    monkeypatch.setenv("SNAPTIDE_FAULT", f"{point}:error")
    with pytest.raises(InjectedFault):
        deferred.push(jfk)
    monkeypatch.delenv("SNAPTIDE_FAULT")
    # That a push failed is a reason, too: here it was killed before it noted that.
    run(jfk, "UPDATE snaptide.destination SET last_error = NULL")
    before = scalar(jfk, PUSHED)
    push_and_refresh(jfk, "a")
    assert scalar(jfk, PUSHED) > before
    assert rows(pair["hq"], "a") == rows(jfk, "a") == [(1, "five")]


def test_rest_of_a_window_is_pushed(
    pair: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in no batch yet, and nothing was queued since the window was opened."""
    jfk = pair["jfk"]
    monkeypatch.setattr(cut, "BATCH_CALLS", 1)
    run(jfk, "UPDATE public.a SET v = 'six'")
    run(jfk, "UPDATE public.a SET v = 'seven'")
    assert deferred.push(jfk, transaction_count=1).transactions == 1
    assert push_and_refresh(jfk, "a").transactions == 1
    assert rows(pair["hq"], "a") == [(1, "seven")]


def _close(jfk: Site) -> None:
    backlog.set_disabled(jfk, "hq", disabled=True)


def _silence(jfk: Site) -> None:
    run(jfk, 'ALTER TABLE public."snap$_a" DISABLE TRIGGER ALL')


@pytest.mark.parametrize(
    ("spoil", "refusal"),
    [(_close, DestinationDisabled), (_silence, ChangesNotQueued)],
)
def test_push_that_would_be_refused_is_tried(
    pair: Directory, spoil: Callable[[Site], None], refusal: type[Exception]
) -> None:
    jfk = pair["jfk"]
    spoil(jfk)
    with pytest.raises(refusal):
        push_and_refresh(jfk, "a")


def test_error_of_the_last_push_goes_with_the_next(pair: Directory) -> None:
    jfk = pair["jfk"]
    run(jfk, "UPDATE snaptide.destination SET last_error = 'the line was cut'")
    push_and_refresh(jfk, "a")
    assert scalar(jfk, "SELECT last_error FROM snaptide.destination") is None
