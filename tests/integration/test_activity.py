"""Long work shows in the site's table while it runs, and never after."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.console import Console
from sqlalchemy import text

from sites import Directory, Site
from sites.sessions import activity
from snaptide.cli.status import screen
from snaptide.status import status_of
from tests.fix_db import MakeDatabase
from tests.fix_proxy import Proxy


def status_screen(site: Site) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(screen([status_of(site)]))
    return captured.get()


@pytest.fixture
def jfk(sites: Directory, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(activity, "PACE", 0.0)
    return sites["jfk"]


def test_shows_while_it_runs(jfk: Site) -> None:
    with activity.report(jfk, "refresh", "flights") as progress:
        progress(5, 10, "keys")
        (running,) = status_of(jfk).activities
        assert (running.kind, running.subject) == ("refresh", "flights")
        assert (running.done, running.total, running.unit) == (5, 10, "keys")
    assert status_of(jfk).activities == ()


def test_says_how_fast_it_goes_and_what_is_left(
    jfk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(
        "sites.sessions.activity.time.monotonic", lambda: float(next(clock))
    )
    speed = activity.Speed()  # at 0 s
    assert speed.per_second(0, "calls") is None
    assert speed.per_second(40, "calls") == 2.0
    assert speed.per_second(90, "calls") == 3.0
    # Another unit, and a table more, begin anew.
    assert speed.per_second(5, "rows") is None
    assert speed.per_second(105, "rows") == 10.0
    assert speed.per_second(3, "rows") is None
    assert speed.per_second(23, "rows") == 2.0
    monkeypatch.undo()
    monkeypatch.setattr(activity, "PACE", 0.0)
    with activity.report(jfk, "push", "hq") as progress:
        progress(400, 1000, "calls")
        (running,) = status_of(jfk).activities
        assert running.rate is not None
        assert running.rest == 600
        assert running.remaining == pytest.approx(600 / running.rate)
        assert "/s, " in status_screen(jfk)
        assert " left" in status_screen(jfk)
        progress(500, None, "calls")
        (running,) = status_of(jfk).activities
        assert (running.rest, running.remaining) == (None, None)


def test_is_gone_when_the_work_fails(jfk: Site) -> None:
    with pytest.raises(ZeroDivisionError), activity.report(jfk, "push", "hq"):
        raise ZeroDivisionError
    assert status_of(jfk).activities == ()


def test_somebody_else_is_told_too(jfk: Site) -> None:
    told: list[tuple[int, int | None, str]] = []
    with activity.report(
        jfk, "push", "hq", lambda *step: told.append(step)
    ) as progress:
        progress(1, None, "transactions")
    assert told == [(1, None, "transactions")]


def test_few_writes_a_second(jfk: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "PACE", 3600.0)
    with activity.report(jfk, "push", "hq") as progress:
        progress(1, None, "transactions")
        progress(2, None, "transactions")
        assert status_of(jfk).activities[0].done == 1


def test_work_that_died_is_not_shown_and_swept(jfk: Site) -> None:
    with jfk.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO snaptide.activity (kind, subject, pid, started_at) VALUES"
                " ('push', 'a', 999999, now()),"
                " ('push', 'b', pg_backend_pid(), now() - interval '1 year')"
            )
        )
    assert status_of(jfk).activities == ()
    with activity.report(jfk, "push", "c"), jfk.connect() as connection:
        rows = connection.scalars(text("SELECT subject FROM snaptide.activity"))
        assert list(rows) == ["c"]


def test_a_site_without_the_schema_does_not_stop_the_work(
    make_database: MakeDatabase,
) -> None:
    site = Directory({"bare": make_database()})["bare"]
    with activity.report(site, "push", "hq") as progress:
        progress(1, None, "transactions")
    site.close()


def test_a_line_that_is_cut_does_not_stop_the_work(
    jfk: Site, make_proxy: Callable[[str], Proxy]
) -> None:
    url = jfk.url.set(drivername="postgresql")
    proxy = make_proxy(url.render_as_string(hide_password=False))
    site = Directory({"jfk": proxy.url})["jfk"]
    with activity.report(site, "push", "hq") as progress:
        progress(1, None, "transactions")
        proxy.cut()
        progress(2, None, "transactions")
    site.close()
