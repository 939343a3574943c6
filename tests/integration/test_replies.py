"""What a worker says reaches the command that waits; each notices the other's end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from psycopg import errors
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from sites import Site, replies
from sites.errors import SiteUnreachable
from sites.replies import NotBegun, NotWaitedFor, Reply, WorkerLost
from snapshots.errors import RefreshRunning
from snaptide.asking import as_told


@contextmanager
def worker(site: Site, request: str, do: Callable[[Reply], object]) -> Iterator[None]:
    """Somebody who does the work of a request, while the block runs."""

    def work() -> None:
        try:
            with replies.replying(site, request) as reply:
                do(reply)
        except (Exception, SystemExit):
            pass

    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()


def failed(site: Site, error: BaseException) -> Exception:
    """What a command gets of the error that a worker meets."""

    def fail(_: Reply) -> None:
        raise error

    with replies.requesting(site) as request, worker(site, request.name, fail):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            request.answer(None)
        return caught.value


def test_progress_and_a_long_report_come(jfk: Site) -> None:
    told: list[tuple[int, int | None, str]] = []
    report = {"refused": {"é€ '\"\\ 😀" * 2_000: 3}, "position": None}

    def do(reply: Reply) -> None:
        reply.progress(1, 2, "rows")
        reply.progress(2, 2, "rows")  # too soon after the first
        reply.say(replies.REPORT, report)

    with replies.requesting(jfk) as request, worker(jfk, request.name, do):
        assert (
            request.answer(lambda done, total, unit: told.append((done, total, unit)))
            == report
        )
    assert told == [(1, 2, "rows")]


def test_an_error_of_ours_comes_as_it_was(jfk: Site) -> None:
    error = RefreshRunning("Another refresh of group g is running.", group="g")
    error.__cause__ = ValueError("why")
    same = failed(jfk, error)
    assert isinstance(same, RefreshRunning)
    assert (same.message, same.facts) == (error.message, {"group": "g"})
    assert str(same.__cause__) == "why"


def test_errors_of_databases_and_others_read_the_same(jfk: Site) -> None:
    with jfk.session() as connection, pytest.raises(SQLAlchemyError) as caught:
        connection.execute(text("SELECT no_column"))
    refused = failed(jfk, caught.value)
    assert isinstance(refused, errors.UndefinedColumn)
    assert str(as_told(refused)) == str(as_told(caught.value))
    caught.value.connection_invalidated = True  # type: ignore[attr-defined]
    assert isinstance(as_told(failed(jfk, caught.value)), SiteUnreachable)
    unknown = KeyError("what")
    assert str(as_told(failed(jfk, unknown))) == str(as_told(unknown))


def test_a_worker_that_ends_without_a_word_is_noticed(jfk: Site) -> None:
    assert isinstance(failed(jfk, SystemExit()), WorkerLost)


def test_what_no_worker_begins_is_not_begun_later(
    jfk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "PATIENCE", 0.1)
    monkeypatch.setattr(replies, "LOOK", 0.1)
    with replies.requesting(jfk) as request:
        with pytest.raises(NotBegun):
            request.answer(None)
        with pytest.raises(NotWaitedFor), replies.replying(jfk, request.name):
            pass
    # Nor when the command has ended.
    with pytest.raises(NotWaitedFor), replies.replying(jfk, request.name):
        pass


def test_a_task_that_is_delivered_twice_runs_once(jfk: Site) -> None:
    with (
        replies.requesting(jfk) as request,
        replies.replying(jfk, request.name),
        pytest.raises(NotWaitedFor),
        replies.replying(jfk, request.name),
    ):
        pass


def test_the_refresh_goes_on_when_its_session_for_replies_is_lost(jfk: Site) -> None:
    end = text(
        "SELECT pg_terminate_backend(pid) FROM pg_locks"
        " WHERE locktype = 'advisory' AND classid = 1464816203"
    )
    done = []

    def do(reply: Reply) -> None:
        with jfk.session() as connection:
            connection.execute(end)
        reply.say(replies.REPORT, {})
        done.append(True)

    with (
        replies.requesting(jfk) as request,
        worker(jfk, request.name, do),
        pytest.raises(WorkerLost),
    ):
        request.answer(None)
    assert done
