"""A refresh that finds nothing to do writes nothing that anyone has to remember."""

import re
from collections.abc import Sequence
from contextlib import ExitStack

import psycopg
import pytest
from sqlalchemy import text

import deferred
import masters
import snapshots
from sites import Directory, Site
from sites.sessions import exchange, identity
from sites.sessions.site import autocommit
from snapshots import keys
from snapshots.differences import difference
from snapshots.refreshing import idle
from tests.fix_moments import Moments
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import application, run
from tests.stories import assert_equal_to_master, refresh, user

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk")
def pair(sites: Directory) -> None:
    """Two updatable snapshots of one master, in groups of their own."""
    hq, jfk = sites["hq"], sites["jfk"]
    for table in ("a", "b"):
        run(
            hq,
            f"CREATE TABLE public.{table} (id int PRIMARY KEY, v text)",
            f"INSERT INTO public.{table} VALUES (1, 'one')",
        )
        log(hq, table)
        snapshots.create(jfk, table, master="hq", group=f"of_{table}", updatable=True)
        refresh(jfk, table)


def moved(site: Site) -> list[tuple[object, ...]]:
    """What a refresh writes where it has moved something."""
    positions = "SELECT position::text FROM snaptide.refresh_group ORDER BY name"
    return run(site, positions) + run(site, "SELECT token FROM snaptide.peer")


def test_nothing_moves(pair: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    hq, jfk = pair["hq"], pair["jfk"]
    refreshed = "SELECT refreshed_at FROM snaptide.refresh_group WHERE name = 'of_a'"
    before, at = (moved(hq), moved(jfk)), run(jfk, refreshed)
    monkeypatch.setattr(difference, "session", lambda: pytest.fail("a Spark job"))
    done = refresh(jfk, "a")["a"]
    assert (done.method, done.window_keys) == ("fast", 0)
    assert (moved(hq), moved(jfk)) == before
    assert run(jfk, refreshed) > at


def test_rows_that_a_log_keeps_for_others_are_not_read(
    pair: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hq, jfk = pair["hq"], pair["jfk"]
    more = "INSERT INTO public.a SELECT g, 'old' FROM generate_series(2, 20000) g"
    run(hq, more, 'ANALYZE snaptide."mlog$_a"')
    refresh(jfk, "a")
    run(hq, "UPDATE public.a SET v = 'new' WHERE id % 4 = 0")
    plans: list[str] = []
    start = exchange._start

    def explain(
        driver: exchange.Driver, asked: Sequence[exchange.Later], *, apart: bool
    ) -> None:
        for one in (each.statement for each in asked):
            if one.text.endswith(b"LIMIT %d" % (keys.FEW + 1)):
                continue  # a quarter of the log: reading all of it is right here
            if b"mlog$_a" in one.text and b"pg_current_snapshot()" in one.text:
                explained = b"EXPLAIN (ANALYZE, TIMING OFF) " + one.text
                lines = psycopg.RawCursor(driver).execute(explained, one.values)
                plans.extend(line for (line,) in lines)
        start(driver, asked, apart=apart)

    monkeypatch.setattr(exchange, "_start", explain)
    assert refresh(jfk, "a")["a"].updated == 5_000
    skipped = [int(n) for n in re.findall(r"Removed by Filter: (\d+)", str(plans))]
    assert plans
    assert sum(skipped) < 1_000


def test_a_transaction_that_commits_late_is_not_overlooked(pair: Directory) -> None:
    """Its rows are neither the last of the log, nor in the last of its partitions."""
    hq, jfk = pair["hq"], pair["jfk"]
    each = "PERFORM pg_current_xact_id(); COMMIT"
    burn = f"BEGIN FOR n IN 1..33000 LOOP {each}; END LOOP"
    with user(hq) as first, user(hq) as second:
        first.execute("INSERT INTO public.a VALUES (10, 'first')")
        with application(hq) as other:
            other.autocommit = True
            other.execute("SET synchronous_commit = off")
            other.execute(f"DO $$ {burn}; END $$")
        second.execute("INSERT INTO public.a VALUES (11, 'second')")
        run(hq, "INSERT INTO public.a VALUES (12, 'third')")
        for late in (second, first):
            assert refresh(jfk, "a")["a"].inserted == 1
            masters.purge_snapshot_logs(hq)
            assert refresh(jfk, "a")["a"].window_keys == 0
            late.commit()
        assert refresh(jfk, "a")["a"].inserted == 1
    slots = 'SELECT count(DISTINCT slot) FROM snaptide."mlog$_a" WHERE k1 > 9'
    assert run(hq, slots) == [(2,)]
    assert_equal_to_master(jfk)


def test_log_that_could_let_rows_go_is_told(pair: Directory) -> None:
    hq, jfk = pair["hq"], pair["jfk"]
    with user(hq) as writer:
        writer.execute("SELECT pg_current_xact_id()")
        run(hq, "UPDATE public.a SET v = 'two'")
        assert refresh(jfk, "a")["a"].updated == 1
        refresh(jfk, "a")
        masters.purge_snapshot_logs(hq)
        logged = 'SELECT count(*) FROM snaptide."mlog$_a"'
        assert run(hq, logged) == [(1,)]
    before = moved(jfk)
    assert refresh(jfk, "a")["a"].window_keys == 0
    assert moved(jfk) != before
    masters.purge_snapshot_logs(hq)
    assert run(hq, logged) == [(0,)]
    before = moved(jfk)
    refresh(jfk, "a")
    assert moved(jfk) == before


def test_queue_is_told_of_an_answer_to_another(pair: Directory) -> None:
    jfk = pair["jfk"]
    run(jfk, "UPDATE public.b SET v = 'mine'")
    deferred.push(jfk)
    covered = "SELECT covered_batch FROM snaptide.queue WHERE snapshot = 'a'"
    assert run(jfk, covered) == [(0,)]
    assert refresh(jfk, "a")["a"].window_keys == 0
    assert run(jfk, covered) == [(1,)]


def test_master_hears_of_a_quiet_snapshot_each_day(pair: Directory) -> None:
    hq, jfk = pair["hq"], pair["jfk"]
    run(
        hq,
        "UPDATE snaptide.registered_snapshot"
        " SET refreshed_at = now() - interval '25 hours'",
    )
    refresh(jfk, "a")
    late = (
        "SELECT snapshot FROM snaptide.registered_snapshot"
        " WHERE refreshed_at < now() - interval '1 hour'"
    )
    assert run(hq, late) == [("b",)]


def test_master_is_told_what_a_refresh_before_did_not_tell(pair: Directory) -> None:
    """It was killed after its commit: to the master, the site is older than it is."""
    hq, jfk = pair["hq"], pair["jfk"]
    known = (
        "SELECT position::text FROM snaptide.registered_snapshot WHERE snapshot = 'a'"
    )
    [(before,)] = run(hq, known)
    run(hq, "UPDATE public.a SET v = 'two'")
    refresh(jfk, "a")
    run(
        hq,
        f"UPDATE snaptide.registered_snapshot SET position = '{before}'"
        " WHERE snapshot = 'a'",
    )
    refresh(jfk, "a")
    shown = "SELECT position::text FROM snaptide.refresh_group WHERE name = 'of_a'"
    assert run(hq, known) == run(jfk, shown)


def test_error_of_before_goes(pair: Directory) -> None:
    jfk = pair["jfk"]
    run(jfk, "UPDATE snaptide.refresh_group SET last_error = 'was away'")
    refresh(jfk, "a")
    kept = "SELECT name FROM snaptide.refresh_group WHERE last_error IS NOT NULL"
    assert run(jfk, kept) == [("of_b",)]


def test_its_statements_are_built_once(pair: Directory) -> None:
    hq, jfk = pair["hq"], pair["jfk"]
    built = idle._question, idle._noting
    refresh(jfk, "a")
    before = [one.cache_info().misses for one in built]
    run(hq, "UPDATE public.a SET v = 'two'")
    assert refresh(jfk, "a")["a"].updated == 1
    assert refresh(jfk, "a")["a"].window_keys == 0
    assert [one.cache_info().misses for one in built] == before


def test_questions_are_planned_once(pair: Directory) -> None:
    hq, jfk = pair["hq"], pair["jfk"]
    for _ in range(8):  # one after the other takes each connection of the pool
        refresh(jfk, "a")
    before = planned(hq), planned(jfk)
    refresh(jfk, "a")
    assert min(map(len, before)) > 1
    assert (planned(hq), planned(jfk)) == before


def planned(site: Site) -> set[tuple[object, ...]]:
    """What the sessions of a pool have prepared, and when."""
    asked = text(
        "SELECT pg_backend_pid(), name, prepare_time FROM pg_prepared_statements"
    )
    found: set[tuple[object, ...]] = set()
    with ExitStack() as all_of_them:
        for _ in range(site.engine.pool.checkedin()):  # type: ignore[attr-defined]
            connection = all_of_them.enter_context(site.session())
            all_of_them.enter_context(autocommit(connection))
            found.update(map(tuple, connection.execute(asked)))
    return found


def test_spark_starts_before_the_moment_that_is_compared(
    pair: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its start takes seconds, in which nobody's rows or tables are held."""
    hq, jfk = pair["hq"], pair["jfk"]
    run(hq, "UPDATE public.a SET v = 'before'")
    held = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL"
    )
    real, seen = difference.session, []

    def start() -> object:
        seen.append((run(hq, held), run(jfk, held)))
        if len(seen) == 1:
            run(hq, "UPDATE public.a SET v = 'while it started'")
        return real()

    monkeypatch.setattr(difference, "is_warm", lambda: bool(seen))
    monkeypatch.setattr(difference, "session", start)
    assert refresh(jfk, "a")["a"].updated == 1
    assert seen[0] == ([(0,)], [(0,)])
    assert run(jfk, "SELECT v FROM public.a") == [("while it started",)]


def test_a_master_that_is_repaired_when_a_refresh_has_begun(
    pair: Directory, moments: Moments
) -> None:
    """The refresh shows, and notes, the master as it is in the moment that is read."""
    hq, jfk = pair["hq"], pair["jfk"]

    def repaired() -> None:
        with hq.transaction() as connection:
            identity.renew(connection, "hq")

    run(hq, "UPDATE public.a SET v = 'two'")
    moments.at("refresh.after_register", repaired)
    assert refresh(jfk, "a")["a"].method == "complete"
    noted = "SELECT incarnation FROM snaptide.refresh_group WHERE name = 'of_a'"
    assert run(jfk, noted) == run(hq, "SELECT incarnation FROM snaptide.site_identity")
