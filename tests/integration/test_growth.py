"""A week in fast forward: what is kept stays bounded, and no user's table is scanned.

`SNAPTIDE_GROWTH_CHANGES` is how many rows are changed in all, on either side in
turn; 5 % of the table's rows are hot (`make growth CHANGES=10000000`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta

import pytest

import deferred
import masters
import snapshots
from sites import Directory, Site
from snaptide.doctor import bloat
from snaptide.embedded import PostgresServer
from tests import plans
from tests.fix_sites import log
from tests.fix_worker import eventually
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import assert_equal_to_master, user

pytestmark = [pytest.mark.usefixtures("spark")]

CHANGES = int(os.environ.get("SNAPTIDE_GROWTH_CHANGES", "8000"))
#: Rows of the table, and how many of them are changed again and again.
ROWS = 20_000
HOT = ROWS // 20
ROUNDS = 6
#: Rows that one transaction changes.
PER_TRANSACTION = 50


@prepared_once("hq", "jfk")
def world(sites: Directory) -> None:
    """A table of some size at hq, with a child, and snapshots of both at jfk."""
    hq, jfk = sites["hq"], sites["jfk"]
    series = f"generate_series(1, {ROWS}) i"
    run(
        hq,
        "CREATE TABLE public.place (id int PRIMARY KEY, name text UNIQUE)",
        "CREATE TABLE public.item (id int PRIMARY KEY, code text UNIQUE, v int,"
        " place int REFERENCES public.place)",
        "CREATE INDEX ON public.item (place)",
        f"INSERT INTO public.place SELECT i, 'p' || i FROM {series}",
        f"INSERT INTO public.item SELECT i, 'c' || i, 0, i FROM {series}",
    )
    log(hq, "place", "item")
    for table in ("place", "item"):
        snapshots.create(jfk, table, master="hq", group="g", updatable=True)
    snapshots.refresh(jfk, "g")
    for site in (hq, jfk):
        run(site, "ANALYZE")


def change(site: Site, transactions: int, start: int) -> None:
    """Change hot rows, a block of them in each transaction."""
    with user(site) as session:
        for number in range(transactions):
            first = ((start + number) * PER_TRANSACTION) % HOT
            session.execute(
                "UPDATE public.item SET v = v + 1 WHERE id > %s AND id <= %s",
                [first, first + PER_TRANSACTION],
            )
            session.commit()


def sizes(site: Site) -> dict[str, int]:
    """Bytes of our schema and of the catalogs."""
    found = run(
        site,
        "SELECT n.nspname, sum(pg_total_relation_size(c.oid))::bigint"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname IN ('snaptide', 'pg_catalog') AND c.relkind = 'r'"
        " GROUP BY 1",
    )
    return {str(name): int(str(size)) for name, size in found}


def vacuum(site: Site) -> None:
    """What autovacuum does in a week."""
    with site.connect() as plain:
        connection = plain.execution_options(isolation_level="AUTOCOMMIT")
        connection.exec_driver_sql("VACUUM ANALYZE")


@pytest.mark.timeout(7200)
def test_sizes_stay_bounded(world: Directory) -> None:
    hq, jfk = world["hq"], world["jfk"]
    transactions = max(1, CHANGES // ROUNDS // PER_TRANSACTION // 2)
    seen: list[dict[str, int]] = []
    for number in range(ROUNDS):
        # In turn: at one site and then, when that is settled, at the other.
        for site in (jfk, hq):
            change(site, transactions, number * transactions)
            snapshots.refresh(jfk, "g")
        deferred.purge(jfk, retention=timedelta(0))
        masters.purge_snapshot_logs(hq)
        for site in (hq, jfk):
            vacuum(site)
        both = {(s.name, k): v for s in (hq, jfk) for k, v in sizes(s).items()}
        seen.append({f"{name} {schema}": v for (name, schema), v in both.items()})
        sys.stdout.write(f"round {number}: {seen[-1]}\n")
    assert_equal_to_master(jfk)
    for what in seen[0]:
        early = max(one[what] for one in seen[:2])
        # Bounded by what one round needs, not by how many there were.
        assert seen[-1][what] <= 1.3 * early + 2**20, f"{what}: {seen}"
    for site in (hq, jfk):
        with site.session() as connection:
            assert list(bloat.check(connection, site.name)) == []


# --- scans ---------------------------------------------------------------------


OTHERS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


def scanned(site: Site) -> dict[str, int]:
    """How many rows of each user's table sequential scans have read so far.

    The database counts them itself, whoever's statement it was: of triggers, of
    checks of foreign keys, of any plan.
    """
    site.close()  # a session that ends tells what it has counted
    eventually(lambda: not run(site, OTHERS), what="the last session to end")
    found = run(
        site,
        "SELECT relname, seq_tup_read FROM pg_stat_user_tables"
        " WHERE schemaname = 'public' ORDER BY 1",
    )
    return {str(name): int(str(read)) for name, read in found}


def users_tables(sites: Mapping[str, Site]) -> set[int]:
    """The numbers of all users' tables."""
    query = "SELECT relid::bigint FROM pg_stat_user_tables WHERE schemaname = 'public'"
    return {int(str(n)) for site in sites.values() for (n,) in run(site, query)}


@pytest.fixture
def no_scans(world: Directory) -> Iterator[None]:
    """Fail when the test has users' tables scanned."""
    before = {site.name: scanned(site) for site in world.values()}
    yield
    after = {site.name: scanned(site) for site in world.values()}
    assert after == before


@pytest.mark.usefixtures("no_scans")
def test_no_table_is_scanned(world: Directory, server: PostgresServer) -> None:
    """By what the server has counted, and by the plan of each statement."""
    with plans.logged(server.log, world) as read:
        push_and_refresh_everything(world)
    assert read.count() > 100
    assert not read.scanned() & users_tables(world)


def push_and_refresh_everything(world: Directory) -> None:
    """Updates, keys that move, inserts, deletes, children and conflicts."""
    hq, jfk = world["hq"], world["jfk"]
    for site, sign in ((jfk, 1), (hq, -1)):
        base = 100 if site is jfk else 200
        new = 2 * ROWS + base
        with user(site) as session:
            for statement in (
                f"UPDATE public.item SET v = {sign} WHERE id BETWEEN 1 AND 9",
                f"UPDATE public.item SET code = 'n' || id WHERE id = {base}",
                f"UPDATE public.item SET id = {ROWS + base} WHERE id = {base + 1}",
                f"DELETE FROM public.item WHERE id = {base + 2}",
                f"DELETE FROM public.place WHERE id = {base + 2}",
                f"INSERT INTO public.place VALUES ({new}, 'new{base}')",
                f"INSERT INTO public.item VALUES ({new}, 'x{base}', 0, {new})",
            ):
                session.execute(statement)
                session.commit()
    report = deferred.push(jfk)
    assert report.errors == 1
    for _ in range(2):
        snapshots.refresh(jfk, "g", method="ff")
    deferred.retry_errors(hq)
    deferred.delete_errors(hq)
    deferred.purge(jfk, retention=timedelta(0))
    masters.purge_snapshot_logs(hq)


def test_scan_is_seen(world: Directory, server: PostgresServer) -> None:
    """The test above can fail."""
    hq = world["hq"]
    for statement in (
        "SELECT count(*) FROM public.item WHERE v = 1",
        "SELECT 1 WHERE EXISTS (SELECT FROM public.item WHERE v = -2)",
        "DO 'BEGIN UPDATE public.item SET v = 2 WHERE v = -1; END'",
    ):
        before = scanned(hq)
        with plans.logged(server.log, {"hq": hq}) as read:
            run(hq, statement)
        assert scanned(hq)["item"] > before["item"]
        assert read.scanned() & users_tables({"hq": hq})
    with plans.logged(server.log, {"hq": hq}) as read:
        run(
            hq, "SET LOCAL enable_seqscan = off; SELECT id FROM public.item ORDER BY id"
        )
    # No counter tells an index that is read from end to end.
    assert read.scanned() & users_tables({"hq": hq})
