"""A log is purged between a refresh's moment and its look at the log."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

import masters
import snapshots
from masters.log import registration
from sites import Directory, Site
from sites.capture import position
from sites.sessions import identity
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def restored(sites: Directory) -> Directory:
    """A site that shows less than its master believes, as after a restore."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, v text)",
        "INSERT INTO public.t SELECT i, 'old' FROM generate_series(1, 3) i",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq")
    refresh(jfk, "t")
    run(hq, "UPDATE public.t SET v = 'new'")
    with jfk.session() as connection:
        who = identity.read(connection)
    with hq.transaction() as connection:
        here = position.current(connection)
        registration.advance(connection, who.site_id, ["t"], here)
    return sites


@contextmanager
def _once_the_moment_is_taken(hq: Site) -> Iterator[list[Any]]:
    """Purge as soon as a transaction at hq that sees one moment has begun to."""
    purged: list[Any] = []

    def purge(connection: Any, _: Any, statement: str, *_rest: Any) -> None:
        options = connection.get_execution_options()
        if options.get("isolation_level") == "REPEATABLE READ" and not purged:
            purged.append(statement)
            purged.extend(masters.purge_snapshot_logs(hq))

    event.listen(hq.engine, "after_cursor_execute", purge)
    try:
        yield purged
    finally:
        event.remove(hq.engine, "after_cursor_execute", purge)


def test_log_is_held_from_before_the_moment(restored: Directory) -> None:
    hq, jfk = restored["hq"], restored["jfk"]
    with _once_the_moment_is_taken(hq) as purged:
        report = refresh(jfk, "t")
    [_, purge] = purged
    assert (purge.emptied, purge.busy) == (0, 1)
    assert report["t"].method == "fast"
    assert run(jfk, "SELECT DISTINCT v FROM public.t") == [("new",)]
    assert_equal_to_master(jfk)
