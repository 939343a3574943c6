"""A process keeps sessions open at the sites that it used last, as its files allow."""

from __future__ import annotations

import resource
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from sqlalchemy import text

from sites import Directory, Site
from sites.sessions import connections


def session(site: Site) -> int:
    """The session that the pool gives."""
    with site.session() as connection:
        return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


def test_the_sites_that_were_used_last_keep_their_sessions(
    make_sites: Callable[..., Directory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_ALL", connections.OfAllSites())
    monkeypatch.setattr(connections, "most", lambda: 2)
    jfk, lax, sfo = make_sites("jfk", "lax", "sfo").values()
    first = {site.name: session(site) for site in (jfk, lax)}
    with jfk.session() as in_use:
        # The last of three is opened: that of lax, which is idle, is closed.
        third = session(sfo)
        session(jfk)
        assert session(sfo) == third
        assert session(lax) != first["lax"]
        # A session in use is left alone, and stays open when it is returned.
        pid = in_use.execute(text("SELECT pg_backend_pid()")).scalar_one()
        assert pid == first["jfk"]


def test_half_of_the_files_of_a_process_are_for_other_things() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert connections.most() == soft // 2


def test_sessions_beyond_a_few_are_closed_when_the_work_is_done(hq: Site) -> None:
    def at_once(count: int) -> set[int]:
        with ExitStack() as opened:
            each = [opened.enter_context(hq.session()) for _ in range(count)]
            return {one.scalar(text("SELECT pg_backend_pid()")) for one in each}

    many = at_once(8)
    hq.keep_few(60)
    assert at_once(8) == many
    hq.keep_few()
    assert len(at_once(8) & many) == connections.KEPT
