"""Tables are emptied or written anew while a refresh reads them.

To a moment of before they would look empty: rows would go, and nobody would look at
them again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg import OperationalError
from psycopg.errors import LockNotAvailable
from sqlalchemy import event

import snapshots
from sites import Directory, Site
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def changed(sites: Directory) -> Directory:
    """A snapshot whose master has changed and deleted a few rows since."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, v text)",
        "INSERT INTO public.t SELECT i, 'old' FROM generate_series(1, 20) i",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    run(hq, "UPDATE public.t SET v = 'new' WHERE id < 4")
    run(hq, "DELETE FROM public.t WHERE id > 18")
    return sites


@contextmanager
def _once_a_moment_is_taken(site: Site, statement: str) -> Iterator[list[Any]]:
    """Try a statement as soon as a transaction that sees one moment has begun to."""
    refused: list[Any] = []

    def alter(connection: Any, *_rest: Any) -> None:
        options = connection.get_execution_options()
        if options.get("isolation_level") == "REPEATABLE READ" and not refused:
            refused.append(None)
            with pytest.raises(OperationalError) as error:
                run(site, "SET LOCAL lock_timeout = '1ms'", statement)
            refused[0] = error.type

    event.listen(site.engine, "after_cursor_execute", alter)
    try:
        yield refused
    finally:
        event.remove(site.engine, "after_cursor_execute", alter)


@pytest.mark.parametrize("method", ["f", "c"])
@pytest.mark.parametrize(
    ("where", "statement"),
    [
        ("hq", "TRUNCATE public.t"),
        ("hq", "ALTER TABLE public.t ADD w uuid DEFAULT gen_random_uuid()"),
        ("jfk", 'ALTER TABLE public."snap$_t" ADD w uuid DEFAULT gen_random_uuid()'),
    ],
)
def test_no_row_is_missed(
    changed: Directory, where: str, statement: str, method: str
) -> None:
    jfk = changed["jfk"]
    with _once_a_moment_is_taken(changed[where], statement) as refused:
        report = refresh(jfk, "t", method=method)
    assert refused == [LockNotAvailable]
    assert (report["t"].updated, report["t"].deleted) == (3, 2)
    assert run(jfk, "SELECT count(*) FROM public.t") == [(18,)]
    assert_equal_to_master(jfk)
