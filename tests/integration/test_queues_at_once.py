"""Queues of one site that are made at the same time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from psycopg.errors import ObjectNotInPrerequisiteState
from sqlalchemy import Connection

import snapshots
from deferred.queues import define
from sites import Directory, Site
from sites.tables.table import describe
from snapshots.definitions import snapshot
from tests.fix_sites import log
from tests.fix_worker import eventually
from tests.let_go import WAITS
from tests.linked_table import run
from tests.stories import refresh

TABLES = ("one", "two", "three")
CAPTURED = "SELECT queue_id FROM snaptide.captured_calls(0, 10)"


def _queue(connection: Connection, name: str) -> None:
    """Queue a snapshot's changes, as its first load does."""
    made = snapshot.read(connection, name)
    define.create_queue(
        connection,
        snapshot=made.key,
        base=describe(connection, made.base),
        destination="hq",
        target=made.master,
        columns=made.columns,
        identity=made.identity_columns,
        partial=False,
        extra_table=made.extra_table,
        refuse_new_keys=False,
    )


def _at_once(site: Site, *makes: Callable[[Connection], None]) -> None:
    """Make two things, the second while the transaction of the first is open."""
    first, second = makes

    def make_second() -> None:
        with site.transaction() as connection:
            second(connection)

    with ThreadPoolExecutor(1) as pool:
        with site.transaction() as connection:
            first(connection)
            other = pool.submit(make_second)
            eventually(lambda: run(site, WAITS), what="the other one: to wait")
        other.result(timeout=60)


def test_both_go_to_a_destination_that_is_new(jfk: Site) -> None:
    know = define.know_destinations
    _at_once(jfk, lambda here: know(here, "hq", "lax"), lambda here: know(here, "lax"))
    assert run(jfk, "SELECT name FROM snaptide.destination") == [("hq",), ("lax",)]


@pytest.mark.usefixtures("spark")
def test_a_coordinator_knows_both(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    for name in TABLES:
        run(
            hq,
            f"CREATE TABLE public.{name} (id int PRIMARY KEY, n int)",
            f"INSERT INTO public.{name} VALUES (1, 0)",
        )
    log(hq, *TABLES)
    for name in TABLES:
        snapshots.create(jfk, name, master="hq", group="g", updatable=True)
    refresh(jfk, "g")
    for name in ("two", "three"):
        run(jfk, f'DROP VIEW snaptide."uslog$_{name}"')
        with jfk.transaction() as connection:
            define.drop_queue(connection, name)

    _at_once(jfk, partial(_queue, name="two"), partial(_queue, name="three"))
    changes = (f"UPDATE public.{name} SET n = 7" for name in TABLES)
    with jfk.begin() as connection:
        for statement in (*changes, CAPTURED):
            found = connection.exec_driver_sql(statement)
        assert len({row.queue_id for row in found}) == len(TABLES)
    assert len(run(jfk, "SELECT 1 FROM snaptide.defcall")) == len(TABLES)


@pytest.mark.usefixtures("spark")
def test_an_upgrade_takes_nothing_back(sites: Directory) -> None:
    """It waits for a function, and another queue is altered meanwhile."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, *(f"CREATE TABLE public.{name} (id int PRIMARY KEY)" for name in TABLES))
    log(hq, *TABLES)
    for name in TABLES:
        snapshots.create(jfk, name, master="hq", group=name, updatable=True)
        refresh(jfk, name)

    def upgrade() -> None:
        with jfk.transaction() as connection:
            define.replace_functions(connection)

    with ThreadPoolExecutor(2) as pool:
        with jfk.session() as connection:
            connection.exec_driver_sql('ALTER FUNCTION snaptide."def$_one"() COST 7')
            upgraded = pool.submit(upgrade)
            eventually(lambda: run(jfk, WAITS), what="the upgrade: to wait")
            alter = partial(snapshots.alter_propagation, jfk, "two", synchronous=True)
            altered = pool.submit(alter)
            eventually(
                lambda: altered.done() or len(run(jfk, WAITS)) > 1,
                what="the other one: to end, or to wait",
            )
            connection.rollback()
        upgraded.result(timeout=60)
        altered.result(timeout=60)
    with pytest.raises(ObjectNotInPrerequisiteState, match="synchronous"):
        run(jfk, "INSERT INTO public.two VALUES (1)")
