"""Long work shows in the site's table while it runs, and never after."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import text

from sites import Directory, Site, activity
from snaptide.status import status_of
from tests.fix_db import MakeDatabase
from tests.fix_proxy import Proxy


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
    site.engine.dispose()


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
    site.engine.dispose()
