"""What the stories share: users who write, sites that settle, and the last question."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

import snapshots
from deferred import PushReport
from masters import rules
from sites import Site, names
from sites.sessions.exchange import raw
from snapshots.reports import RefreshReport, SnapshotDescription, SnapshotReport
from tests.fix_sites import log
from tests.linked_table import application, run


@contextmanager
def user(site: Site) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A session of a user's own, open as long as the block; it commits itself."""
    with application(site) as session:
        yield session
        session.rollback()


def refresh(site: Site, what: str, **options: Any) -> dict[str, SnapshotReport]:
    """Refresh without a push, and return what became of each snapshot."""
    options.setdefault("push_deferred_rpc", False)
    report: RefreshReport = snapshots.refresh(site, what, **options)
    return {one.name: one for one in report.snapshots}


def push_and_refresh(site: Site, what: str) -> PushReport:
    """Refresh with a push before it, and return what became of the push."""
    pushed = snapshots.refresh(site, what, push_deferred_rpc=True).pushed
    assert pushed is not None
    return pushed


def settle(*sites: Site) -> None:
    """Push and refresh until nothing is left to do: twice, for all of the sites."""
    for _ in range(2):
        for site in sites:
            for group in {s.group for s in snapshots.list_snapshots(site)}:
                snapshots.refresh(site, group, allow_mass_delete=True)


def assert_equal_to_master(*sites: Site) -> None:
    """Hold every snapshot against its defining query, and see that nothing waits."""
    for site in sites:
        for one in snapshots.list_snapshots(site):
            here, there = _contents(site, one), _contents(site.peer(one.master), one)
            assert here == there, f"{site.name}:{one.name}"
            assert one.undelivered_calls == 0
            assert unsettled(site, one.name) == []


def _contents(site: Site, one: SnapshotDescription) -> list[tuple[Any, ...]]:
    """The rows of a snapshot, or of its defining query at another site."""
    table = names.parse(one.table)
    at_master = site.name == one.master
    name = table if at_master else names.parse(one.name)
    query = sql.SQL("SELECT {} FROM {} AS {} WHERE {} ORDER BY {}").format(
        sql.SQL(", ").join(sql.Identifier(c) for c in one.columns),
        sql.Identifier(name.schema, name.name),
        sql.Identifier(table.name),
        sql.SQL((at_master and one.condition) or "true"),
        sql.SQL(", ").join(sql.Identifier(c) for c in one.identity),
    )
    with site.connect() as connection:
        return raw(connection).execute(query).fetchall()


def unsettled(site: Site, snapshot: str) -> list[tuple[Any, ...]]:
    """Keys in the updatable snapshot log: what a refresh has to look at again."""
    view = names.derived("uslog$_", names.parse(snapshot))
    query = sql.SQL("SELECT * FROM snaptide.{} ORDER BY 1").format(sql.Identifier(view))
    with site.connect() as connection:
        return raw(connection).execute(query).fetchall()


def adding_up(hq: Site, jfk: Site, rows: int) -> None:
    """Numbers that add up, in an updatable snapshot: what comes twice would show."""
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, n int NOT NULL)",
        f"INSERT INTO public.t SELECT i, 0 FROM generate_series(1, {rows}) i",
    )
    log(hq, "t")
    column_groups(hq, "t", {"n": "additive"})
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")


def column_groups(master: Site, name: str, groups: Mapping[str, str]) -> None:
    """Make each column a group of its own; with a method if one is named."""
    for one, method in groups.items():
        rules.set_column_group(master, name, one, [one])
        if method:
            rules.add_update_resolution(master, name, one, method)
