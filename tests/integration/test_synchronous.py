"""Synchronous propagation: one transaction at a site and its master."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.errors import ObjectNotInPrerequisiteState
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

import deferred
import synchronous
from deferred.errors import WaitsForError
from masters import rules
from sites import Directory, Site
from sites.sessions.exchange import raw
from synchronous.errors import (
    CommitFailed,
    PendingCalls,
    RefusedByMaster,
    SynchronousConflict,
    TransactionControl,
)
from synchronous.participant import Participant
from synchronous.prepared import MOST, OFTEN
from tests.coordinated import left_over, prepared, quantities
from tests.fix_worker import eventually
from tests.fix_worlds import prepared_once
from tests.linked_table import (
    application,
    calls,
    link,
    rows,
    run,
    run_everywhere,
)

TO_LON = (
    "UPDATE snaptide.route r SET destination = 'lon' FROM snaptide.queue q"
    " WHERE q.id = r.queue_id AND q.snapshot = 'parts'"
)
ROWS = (
    "INSERT INTO orders VALUES (1, 'Ann', 1, 9.90, '2026-01-01'),"
    " (2, 'Bob', 2, 1, NULL), (3, NULL, 3, NULL, NULL)"
)


@prepared_once("hq", "jfk")
def linked(sites: Directory) -> None:
    """The table `orders` at both sites, with three rows, propagated synchronously."""
    link(sites, synchronous=True)
    run_everywhere(sites, ROWS)


def change(sites: Directory, *statements: str, **options: object) -> None:
    """Run statements at jfk in a coordinated transaction."""
    with synchronous.begin(sites["jfk"], **options) as connection:  # type: ignore[arg-type]
        for statement in statements:
            connection.execute(text(statement))


def assert_same(sites: Directory) -> None:
    """Both sites hold the same rows, and nothing is left over."""
    assert rows(sites["hq"]) == rows(sites["jfk"])
    assert left_over(sites) == {}


def test_a_change_is_at_both_sites_at_once(linked: Directory) -> None:
    with synchronous.begin(linked["jfk"]) as connection:
        connection.execute(text("UPDATE orders SET qty = 7 WHERE id = 1"))
        assert quantities(linked["hq"])[1] == 1

    assert quantities(linked["hq"])[1] == 7
    assert_same(linked)


def test_a_table_whose_names_look_like_parameters(sites: Directory) -> None:
    name = '"odd %(x)s %(n"'
    link(sites, name, 'id int PRIMARY KEY, "v %(v" int', synchronous=True)
    change(sites, f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    change(
        sites,
        f"""UPDATE {name} SET "v %(v" = 7 WHERE id = 1""",
        f"DELETE FROM {name} WHERE id = 2",
        f"INSERT INTO {name} VALUES (3, NULL)",
    )
    for site in sites.values():
        assert rows(site, name) == [(1, 7), (3, None)]
    assert left_over(sites) == {}


@prepared_once("hq", "jfk")
def family(sites: Directory) -> None:
    """Parents, which are pushed, and children, which are propagated at once."""
    link(sites, "parent", "id int PRIMARY KEY, v int")
    link(
        sites,
        "child",
        "id int PRIMARY KEY, parent int REFERENCES parent (id), v int",
        synchronous=True,
    )
    run_everywhere(
        sites, "INSERT INTO parent VALUES (1)", "INSERT INTO child VALUES (9, 1, 0)"
    )
    # Of another site.
    run(sites["hq"], "INSERT INTO parent VALUES (3)")
    run(sites["jfk"], "INSERT INTO parent VALUES (3, 7)")


@pytest.mark.parametrize("pushed", [True, False])
def test_a_child_does_not_go_to_the_parent_of_another_site(
    family: Directory, *, pushed: bool
) -> None:
    """The parent that it means is parked at the master, or has not come there yet."""
    if pushed:
        deferred.push(family["jfk"])
    before = rows(family["hq"], "child")
    for statement in (
        "INSERT INTO child VALUES (10, 3, 0)",
        "UPDATE child SET parent = 3",
        "INSERT INTO child VALUES (10, 3, 0), (11, 1, 0)",
    ):
        expected = WaitsForError if pushed else PendingCalls
        with pytest.raises(expected) as caught:
            change(family, statement)
        assert caught.value.hint
    assert rows(family["hq"], "child") == before == rows(family["jfk"], "child")
    change(family, "INSERT INTO child VALUES (12, 1, 0)", "UPDATE child SET v = 1")
    assert [row[2] for row in rows(family["hq"], "child")] == [1, 1]


def test_a_change_that_is_rolled_back_is_nowhere(linked: Directory) -> None:
    with synchronous.begin(linked["jfk"]) as connection:
        connection.execute(text("UPDATE orders SET qty = 7 WHERE id = 1"))
        connection.rollback()

    assert quantities(linked["jfk"])[1] == 1
    assert_same(linked)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO orders VALUES (4, 'Dan', 4, 1.5, 'infinity')",
        "INSERT INTO orders SELECT i, 'n' || i FROM generate_series(10, 99) i",
        "UPDATE orders SET qty = qty + 1",
        "UPDATE orders SET name = upper(name)",
        "UPDATE orders SET name = 'Cid' WHERE id = 1",
        "UPDATE orders SET id = id + 100 WHERE id = 2",
        "DELETE FROM orders WHERE id = 3",
        "DELETE FROM orders",
        (
            "MERGE INTO orders o USING (VALUES (1), (9)) v (id) ON o.id = v.id"
            " WHEN MATCHED THEN UPDATE SET qty = 0"
            " WHEN NOT MATCHED THEN INSERT (id) VALUES (9)"
        ),
        "INSERT INTO orders VALUES (1) ON CONFLICT (id) DO UPDATE SET name = '100 %'",
        (
            "WITH gone AS (DELETE FROM orders WHERE id = 1 RETURNING *)"
            " UPDATE orders SET name = 'Zoe' WHERE id = 3"
        ),
        "SELECT nextval('snaptide.order_no')",
    ],
)
def test_any_statement_is_carried(linked: Directory, statement: str) -> None:
    change(linked, statement)

    assert_same(linked)


def test_a_rule_of_the_master_table_is_no_hindrance(linked: Directory) -> None:
    rule = (
        "CREATE RULE many AS ON UPDATE TO orders WHERE new.qty > 99 DO INSTEAD NOTHING"
    )
    run(linked["hq"], rule)
    change(linked, "UPDATE orders SET qty = 7 WHERE id = 1")

    assert_same(linked)


def test_rows_of_a_copy_are_sent_at_the_latest_at_commit(linked: Directory) -> None:
    into = "COPY public.orders (id) FROM STDIN"
    with (
        synchronous.begin(linked["jfk"]) as connection,
        raw(connection).cursor().copy(into) as copy,
    ):
        copy.write("50\n51\n")

    assert {50, 51} <= quantities(linked["hq"]).keys()
    assert_same(linked)


def test_rows_of_a_copy_after_a_savepoint_are_sent_too(linked: Directory) -> None:
    with synchronous.begin(linked["jfk"]) as connection:
        with connection.begin_nested():
            connection.execute(text("UPDATE orders SET qty = 7 WHERE id = 1"))
        with raw(connection).cursor().copy("COPY orders (id) FROM STDIN") as copy:
            copy.write("50\n51\n")

    assert quantities(linked["hq"]) == {1: 7, 2: 2, 3: 3, 50: None, 51: None}
    assert_same(linked)


def test_changes_past_the_coordinator_are_sent_whatever_cursor(
    linked: Directory,
) -> None:
    # Later transactions ask the site for less.
    change(linked, "UPDATE orders SET qty = 6 WHERE id = 1")
    with synchronous.begin(linked["jfk"]) as connection:
        connection.execute(text("UPDATE orders SET qty = 7 WHERE id = 1"))
        past = psycopg.ClientCursor(raw(connection))
        past.execute("UPDATE orders SET qty = %s WHERE id = %s", [8, 2])

    assert quantities(linked["hq"]) == {1: 7, 2: 8, 3: 3}
    assert_same(linked)


def test_types_of_users_travel_alone_and_in_company(sites: Directory) -> None:
    for site in sites.values():
        run(
            site,
            "CREATE TYPE mood AS ENUM ('sad', 'ok')",
            "CREATE DOMAIN small AS int CHECK (VALUE < 100)",
        )
    columns = "id int PRIMARY KEY, m mood, n small, many mood[]"
    link(sites, "days", columns, synchronous=True)

    change(
        sites,
        "INSERT INTO days VALUES (1, 'sad', 1, '{ok}')",
        "INSERT INTO days SELECT i, 'sad', i, '{ok,sad}' FROM generate_series(2, 9) i",
        "UPDATE days SET m = 'ok'",
        "UPDATE days SET m = 'sad', many = '{}' WHERE id = 1",
    )

    assert rows(sites["hq"], "days") == rows(sites["jfk"], "days")
    assert left_over(sites) == {}


def test_work_tables_go_when_nobody_uses_them(linked: Directory) -> None:
    hq = linked["hq"]
    change(linked, "UPDATE orders SET qty = qty + 1")
    with synchronous.begin(linked["jfk"]) as connection:
        connection.execute(text("UPDATE orders SET qty = qty + 1"))
        deferred.purge(hq)
        assert work_tables(hq) == 1
    deferred.purge(hq)
    assert work_tables(hq) == 0

    with synchronous.begin(
        linked["jfk"], isolation_level="REPEATABLE READ"
    ) as connection:
        connection.execute(text("UPDATE orders SET qty = qty + 1 WHERE id = 1"))
        change_by_others(linked)
        deferred.purge(hq)
        connection.execute(text("UPDATE orders SET qty = qty + 1 WHERE id > 1"))

    assert quantities(hq) == {1: 4, 2: 5, 3: 6, 7: 7, 8: 7}
    assert_same(linked)


def change_by_others(sites: Directory) -> None:
    change(sites, "INSERT INTO orders (id, qty) VALUES (7, 7), (8, 7)")


def work_tables(site: Site) -> int:
    found = (
        "SELECT count(*) FROM pg_class WHERE relname LIKE 'work$%' AND relkind = 'r'"
    )
    return int(run(site, found)[0][0])


def test_what_one_transaction_sets_is_not_the_next_ones(linked: Directory) -> None:
    change(linked, "SET search_path = pg_catalog", "RESET lock_timeout")

    change(linked, "UPDATE orders SET qty = 7 WHERE id = 1")

    assert_same(linked)


def test_a_commit_says_one_thing_to_the_site(linked: Directory) -> None:
    update = "UPDATE orders SET qty = qty + 1 WHERE id = 1"
    change(linked, update)
    with synchronous.begin(linked["jfk"]) as connection:
        connection.execute(text(update))
        driver: Any = connection.connection.driver_connection
        before = driver.used

    # The driver's commit and the pool's rollback find no transaction any more.
    assert driver.used == before + 1


def test_threads_that_begin_at_once_share_their_pools(
    linked: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two pools the one that was lost would never be closed."""
    linked.close()
    made: list[str] = []
    new_engine = Site.new_engine

    def noted(site: Site, **options: Any) -> Engine:
        if "pool_use_lifo" not in options:  # those of all sites have it
            made.append(site.name)
        return new_engine(site, **options)

    monkeypatch.setattr(Site, "new_engine", noted)
    start = threading.Barrier(8)

    def work(_: int) -> None:
        start.wait(timeout=90)
        update = "UPDATE orders SET qty = qty + 1 WHERE id = 1"
        change(linked, update, lock_timeout=80, timeout=90)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))

    assert sorted(made) == ["hq", "jfk"]
    assert quantities(linked["hq"])[1] == 9
    assert_same(linked)


@pytest.mark.parametrize("statement", ["DISCARD PLANS", "DEALLOCATE ALL"])
def test_a_session_that_forgets_what_it_prepared_goes_on(
    linked: Directory, statement: str
) -> None:
    update = "UPDATE orders SET qty = qty + 1 WHERE id = 1"
    for _ in range(3):
        change(linked, update, statement, update)

    assert quantities(linked["hq"])[1] == 7
    assert_same(linked)


def test_a_session_that_was_made_to_forget_behind_our_back_heals(
    linked: Directory,
) -> None:
    update = "UPDATE orders SET qty = qty + 1 WHERE id = 1"
    change(linked, update)
    coordinated = synchronous.begin(linked["jfk"])
    connection = coordinated.__enter__()
    connection.execute(text(update))
    raw(connection).execute("DEALLOCATE ALL")
    with pytest.raises(CommitFailed):
        coordinated.__exit__(None, None, None)
    change(linked, update)

    assert quantities(linked["hq"])[1] == 3
    assert_same(linked)


def test_a_conflict_raises_at_its_statement_with_all_three_rows(
    linked: Directory,
) -> None:
    run(linked["hq"], "UPDATE orders SET qty = 50 WHERE id = 1")

    with synchronous.begin(linked["jfk"]) as connection:
        with pytest.raises(SynchronousConflict) as caught:
            connection.execute(text("UPDATE orders SET qty = 7 WHERE id = 1"))
        connection.rollback()

    facts: dict[str, Any] = caught.value.facts
    images = [facts[side]["qty"] for side in ("old", "new", "current")]
    assert images == ["1", "7", "50"]
    assert quantities(linked["jfk"])[1] == 1
    assert left_over(linked) == {}


def test_a_transaction_in_conflict_cannot_be_committed(linked: Directory) -> None:
    run(linked["hq"], "UPDATE orders SET qty = 50 WHERE id = 1")

    def go_on() -> None:
        with synchronous.begin(linked["jfk"]) as connection:
            with pytest.raises(SynchronousConflict):
                connection.execute(text("UPDATE orders SET qty = 7 WHERE id = 1"))
            with pytest.raises(DBAPIError, match="aborted"):
                connection.execute(text("UPDATE orders SET qty = 8 WHERE id = 2"))

    with pytest.raises(CommitFailed):
        go_on()

    assert quantities(linked["jfk"]) == {1: 1, 2: 2, 3: 3}
    assert quantities(linked["hq"]) == {1: 50, 2: 2, 3: 3}
    assert left_over(linked) == {}


def test_a_rule_of_the_master_settles_a_conflict_at_once(linked: Directory) -> None:
    hq = linked["hq"]
    rules.set_column_group(hq, "orders", "amount", ["qty"])
    rules.add_update_resolution(hq, "orders", "amount", "additive")
    run(hq, "UPDATE orders SET qty = 50 WHERE id = 1")

    change(linked, "UPDATE orders SET qty = 7 WHERE id = 1")

    assert quantities(hq)[1] == 56
    assert run(hq, "SELECT count(*) FROM snaptide.resolution_record")[0][0] == 1
    assert left_over(linked) == {}


def test_savepoints_keep_step(linked: Directory) -> None:
    with synchronous.begin(linked["jfk"]) as connection:
        outer = connection.begin_nested()
        connection.execute(text("UPDATE orders SET qty = 10 WHERE id = 1"))
        inner = connection.begin_nested()
        connection.execute(text("UPDATE orders SET qty = 20 WHERE id = 2"))
        inner.rollback()
        connection.execute(text("SAVEPOINT mine"))
        connection.execute(text("UPDATE orders SET qty = 30 WHERE id IN (2, 3)"))
        connection.execute(text("ROLLBACK TO SAVEPOINT Mine"))
        connection.execute(text("UPDATE orders SET qty = 40 WHERE id = 3"))
        connection.execute(text("RELEASE mine"))
        outer.commit()

    assert quantities(linked["hq"]) == {1: 10, 2: 2, 3: 40}
    assert_same(linked)


def test_work_goes_on_after_a_conflict_that_was_rolled_back(linked: Directory) -> None:
    run(linked["hq"], "UPDATE orders SET qty = 50 WHERE id = 1")

    with synchronous.begin(linked["jfk"]) as connection:
        connection.execute(text("UPDATE orders SET qty = 9 WHERE id = 2"))
        with pytest.raises(SynchronousConflict), connection.begin_nested():
            connection.execute(text("UPDATE orders SET qty = 7 WHERE id = 1"))
        connection.execute(text("UPDATE orders SET qty = 8 WHERE id = 3"))

    assert quantities(linked["hq"]) == {1: 50, 2: 9, 3: 8}
    assert quantities(linked["jfk"]) == {1: 1, 2: 9, 3: 8}
    assert left_over(linked) == {}


@pytest.mark.parametrize("goes_on", [False, True])
def test_work_goes_on_after_a_refusal_that_was_rolled_back(
    linked: Directory, goes_on: bool
) -> None:
    """The master has set the savepoint, though the first statement in it failed."""
    run(linked["hq"], "ALTER TABLE orders ADD CONSTRAINT few CHECK (qty < 100)")

    with synchronous.begin(linked["jfk"]) as connection:
        connection.execute(text("UPDATE orders SET qty = 9 WHERE id = 2"))
        with pytest.raises(RefusedByMaster, match="few"), connection.begin_nested():
            connection.execute(text("UPDATE orders SET qty = 100 WHERE id = 1"))
        if goes_on:
            connection.execute(text("UPDATE orders SET qty = 8 WHERE id = 3"))

    assert quantities(linked["hq"]) == {1: 1, 2: 9, 3: 8 if goes_on else 3}
    assert_same(linked)
    assert left_over(linked) == {}


def test_master_that_has_given_up_cannot_prepare(
    linked: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL answers ROLLBACK then, and reports no error."""
    run(linked["hq"], "ALTER TABLE orders ADD CONSTRAINT few CHECK (qty < 100)")
    monkeypatch.setattr(Participant, "back_to", lambda *_: None)

    def work() -> None:
        with synchronous.begin(linked["jfk"]) as connection:
            connection.execute(text("UPDATE orders SET qty = 9 WHERE id = 2"))
            with pytest.raises(RefusedByMaster), connection.begin_nested():
                connection.execute(text("UPDATE orders SET qty = 100 WHERE id = 1"))

    with pytest.raises(CommitFailed, match="ROLLBACK"):
        work()
    assert_same(linked)
    assert left_over(linked) == {}


def test_all_that_was_done_was_taken_back(linked: Directory) -> None:
    with (
        synchronous.begin(linked["jfk"]) as connection,
        connection.begin_nested() as savepoint,
    ):
        connection.execute(text("UPDATE orders SET qty = 9 WHERE id = 2"))
        savepoint.rollback()

    assert run(linked["jfk"], "SELECT count(*) FROM snaptide.decision")[0][0] == 0
    assert_same(linked)


def test_a_write_outside_a_coordinated_transaction_is_refused(
    linked: Directory,
) -> None:
    with (
        application(linked["jfk"]) as session,
        pytest.raises(ObjectNotInPrerequisiteState, match="coordinated transaction"),
    ):
        session.execute("UPDATE orders SET qty = 2 WHERE id = 1")

    assert_same(linked)


def test_nobody_commits_past_the_coordinator(linked: Directory) -> None:
    with application(linked["jfk"]) as session:
        session.execute("SET snaptide.coordinated = 'site'")
        session.execute("UPDATE orders SET qty = 2 WHERE id = 1")
        with pytest.raises(ObjectNotInPrerequisiteState, match="past its coordinator"):
            session.commit()

    assert_same(linked)


@pytest.mark.parametrize(
    "statement", ["COMMIT", " rollback ", "Begin", "END;", "/* it */; -- is\n COMMIT"]
)
def test_no_statement_ends_the_transaction(linked: Directory, statement: str) -> None:
    with synchronous.begin(linked["jfk"]) as connection:
        connection.execute(text("UPDATE orders SET qty = 9 WHERE id = 2"))
        with pytest.raises(TransactionControl):
            connection.execute(text(statement))

    assert quantities(linked["hq"])[2] == 9
    assert_same(linked)


def test_constraints_may_be_checked_early(linked: Directory) -> None:
    change(
        linked,
        "UPDATE orders SET qty = 9 WHERE id = 2",
        "SET CONSTRAINTS ALL IMMEDIATE",
        "UPDATE orders SET qty = 8 WHERE id = 3",
        "SET CONSTRAINTS ALL IMMEDIATE",
    )

    assert_same(linked)


def test_what_the_master_refuses_is_nowhere(linked: Directory) -> None:
    run(linked["hq"], "ALTER TABLE orders ADD CHECK (qty < 100)")

    with synchronous.begin(linked["jfk"]) as connection:
        with pytest.raises(RefusedByMaster, match="orders_qty_check"):
            connection.execute(text("UPDATE orders SET qty = 100 WHERE id = 1"))
        connection.rollback()

    assert_same(linked)


@pytest.mark.parametrize(
    ("narrower", "statement"),
    [
        (
            "ALTER name TYPE varchar(5)",
            "UPDATE orders SET name = 'much too long ' || id",
        ),
        ("ALTER qty TYPE smallint", "UPDATE orders SET qty = 100000"),
        ("ALTER qty TYPE smallint", "UPDATE orders SET qty = 1, price = 100000 * id"),
    ],
)
def test_a_value_that_the_master_cannot_hold_is_nowhere(
    linked: Directory, narrower: str, statement: str
) -> None:
    before = rows(linked["jfk"])
    run(linked["hq"], f"ALTER TABLE orders {narrower}, ALTER price TYPE numeric(6,2)")
    for where in ("", " WHERE id = 1"):
        with pytest.raises(RefusedByMaster, match=r"too long|out of range|overflow"):
            change(linked, statement + where)
    assert rows(linked["jfk"]) == before
    assert left_over(linked) == {}


def test_a_row_that_others_hold_is_waited_for_no_longer_than_asked(
    linked: Directory,
) -> None:
    with application(linked["hq"]) as other:
        other.execute("UPDATE orders SET qty = 2 WHERE id = 1")
        with pytest.raises(RefusedByMaster, match="lock timeout"):
            change(linked, "UPDATE orders SET qty = 7 WHERE id = 1", lock_timeout=0.1)
        other.rollback()

    assert_same(linked)


def test_a_deadlock_over_two_sites_ends_for_one_of_them(linked: Directory) -> None:
    """A user of the master holds what the site wants, and wants what it holds."""
    failed: list[Exception] = []

    with application(linked["hq"]) as other:
        other.execute("UPDATE orders SET qty = 100 WHERE id = 2")

        def want() -> None:
            try:
                other.execute("UPDATE orders SET qty = 100 WHERE id = 1")
                other.commit()
            except psycopg.Error as error:
                failed.append(error)

        with synchronous.begin(
            linked["jfk"], lock_timeout=80, timeout=90
        ) as connection:
            connection.execute(text("UPDATE orders SET qty = 7 WHERE id = 1"))
            thread = threading.Thread(target=want)
            thread.start()
            try:
                connection.execute(text("UPDATE orders SET qty = 7 WHERE id = 2"))
            except (RefusedByMaster, SynchronousConflict) as error:
                failed.append(error)
                connection.rollback()
        thread.join(timeout=180)

    assert not thread.is_alive()
    assert len(failed) == 1
    assert left_over(linked) == {}


def sites_of_two_masters(make_sites: Callable[..., Directory]) -> Directory:
    """Rows of `orders` at hq and of `parts` at lon, both at jfk and at lax."""
    sites = make_sites("hq", "lon", "jfk", "lax", "spare")
    spare = sites["spare"]
    for origin, (hq, lon) in {
        "jfk": (sites["hq"], sites["lon"]),
        "lax": (spare, spare),
    }.items():
        site = sites[origin]
        link({"hq": hq, origin: site}, "orders", origin=origin, synchronous=True)
        link({"hq": lon, origin: site}, "parts", origin=origin, synchronous=True)
        run(
            site,
            TO_LON,
        )
    for table, names in {"orders": "hq jfk lax", "parts": "lon jfk lax"}.items():
        some = {name: sites[name] for name in names.split()}
        run_everywhere(some, f"INSERT INTO {table} (id, qty) VALUES (1, 1), (2, 2)")
    return sites


def cross(
    sites: Directory, *plans: tuple[str, float, str, str]
) -> dict[str, Exception]:
    """Have sites each run a statement, and another when all have run their first.

    Parameters:
        plans: site, lock timeout in seconds, and its two statements.
    """
    both, failed = threading.Barrier(len(plans)), {}

    def work(name: str, lock_timeout: float, first: str, second: str) -> None:
        try:
            with synchronous.begin(
                sites[name], lock_timeout=lock_timeout, timeout=90
            ) as connection:
                connection.execute(text(first))
                both.wait(timeout=90)
                connection.execute(text(second))
        except Exception as error:
            failed[name] = error

    threads = [threading.Thread(target=work, args=plan) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=180)
        assert not thread.is_alive()
    return failed


def test_a_deadlock_of_two_sites_at_their_master_ends_for_one_of_them(
    make_sites: Callable[..., Directory],
) -> None:
    sites = sites_of_two_masters(make_sites)
    one, two = (f"UPDATE orders SET qty = 7 WHERE id = {n}" for n in (1, 2))

    failed = cross(sites, ("jfk", 80, one, two), ("lax", 80, two, one))

    (error,) = failed.values()
    assert isinstance(error, RefusedByMaster)
    assert "deadlock" in error.message
    (won,) = {"jfk", "lax"} - failed.keys()
    assert quantities(sites["hq"]) == quantities(sites[won]) == {1: 7, 2: 7}
    (lost,) = failed
    assert quantities(sites[lost]) == {1: 1, 2: 2}
    assert left_over(sites) == {}


def test_a_deadlock_that_no_server_sees_ends_with_the_lock_timeout(
    make_sites: Callable[..., Directory],
) -> None:
    """Each site holds a row at one master and wants the other's at the other one."""
    sites = sites_of_two_masters(make_sites)
    order, part = (f"UPDATE {t} SET qty = 7 WHERE id = 1" for t in ("orders", "parts"))

    failed = cross(sites, ("jfk", 1, order, part), ("lax", 80, part, order))

    assert isinstance(failed.pop("jfk"), RefusedByMaster)
    assert failed == {}
    assert quantities(sites["hq"])[1] == quantities(sites["lon"], "parts")[1] == 7
    assert quantities(sites["jfk"])[1] == quantities(sites["jfk"], "parts")[1] == 1
    assert left_over(sites) == {}


def test_isolation_level_and_timeouts_are_the_masters_too(linked: Directory) -> None:
    run(
        linked["hq"],
        "CREATE TABLE seen (level text, lock text, statement text)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO seen VALUES (current_setting('transaction_isolation'),"
        " current_setting('lock_timeout'), current_setting('statement_timeout'));"
        " RETURN NULL; END $$",
        "CREATE TRIGGER note AFTER UPDATE ON orders EXECUTE FUNCTION note()",
    )

    with synchronous.begin(
        linked["jfk"], isolation_level="REPEATABLE READ", lock_timeout=3
    ) as connection:
        connection.execute(text("SET LOCAL statement_timeout = '7s'"))
        connection.execute(text("UPDATE orders SET qty = 7 WHERE id = 1"))

    assert run(linked["hq"], "SELECT * FROM seen") == [("repeatable read", "3s", "7s")]
    assert_same(linked)


def cannot_prepare(master: Site, table: str = "orders") -> None:
    """Let changes of a table notify, which PREPARE TRANSACTION refuses."""
    run(
        master,
        "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_notify('x', ''); RETURN NULL; END $$",
        f"CREATE TRIGGER telling AFTER INSERT OR UPDATE ON {table}"
        " EXECUTE FUNCTION tell()",
    )


def test_a_trigger_that_notifies_is_named(linked: Directory) -> None:
    cannot_prepare(linked["hq"])

    with pytest.raises(CommitFailed, match="telling on"):
        change(linked, "UPDATE orders SET qty = 7 WHERE id = 1")

    assert_same(linked)


def test_both_logs_have_it_and_no_queue(linked: Directory) -> None:
    change(linked, "UPDATE orders SET qty = 7 WHERE id = 1")

    log = "SELECT kind, k1 FROM snaptide.\"mlog$_orders\" WHERE kind = 'U'"
    assert run(linked["hq"], log) == [("U", 1)]
    extra = 'SELECT k1, reason, master_xid IS NULL FROM snaptide."extra$_orders"'
    assert run(linked["jfk"], extra) == [(1, "synchronous", False)]
    assert calls(linked["jfk"]) == []


def test_decisions_go_with_a_later_commit(linked: Directory) -> None:
    for quantity in (7, 8, 9):
        change(linked, f"UPDATE orders SET qty = {quantity} WHERE id = 1")

    assert run(linked["jfk"], "SELECT count(*) FROM snaptide.decision")[0][0] == 1


def test_a_row_with_calls_that_wait_is_refused(sites: Directory) -> None:
    link(sites)
    run_everywhere(sites, ROWS)
    run(sites["jfk"], "UPDATE orders SET qty = 5 WHERE id = 1")

    with pytest.raises(PendingCalls, match="'id': 1"):
        change(sites, "UPDATE orders SET qty = 7 WHERE id = 1")
    with pytest.raises(PendingCalls, match="'id': 1"):
        change(sites, "UPDATE orders SET qty = 7")
    change(sites, "UPDATE orders SET qty = 7 WHERE id = 2")

    assert quantities(sites["hq"]) == {1: 1, 2: 7, 3: 3}
    assert len(calls(sites["jfk"])) == 1
    deferred.push(sites["jfk"])
    assert quantities(sites["hq"]) == {1: 5, 2: 7, 3: 3}


def test_parents_and_children_travel_together(sites: Directory) -> None:
    link(sites, "orders", synchronous=True)
    link(
        sites,
        "items",
        "id int PRIMARY KEY,"
        " order_id int REFERENCES public.orders ON DELETE CASCADE, n int",
        synchronous=True,
    )
    run_everywhere(sites, ROWS, "INSERT INTO items VALUES (1, 1, 1), (2, 1, 1)")

    change(
        sites,
        "INSERT INTO orders (id) VALUES (9)",
        "INSERT INTO items VALUES (9, 9, 9)",
        "DELETE FROM orders WHERE id = 1",
    )

    assert rows(sites["hq"], "items") == rows(sites["jfk"], "items") == [(9, 9, 9)]
    assert_same(sites)


@pytest.fixture
def two_masters(make_sites: Callable[..., Directory]) -> Directory:
    """The table `orders` of hq and the table `parts` of lon, both at jfk."""
    sites = make_sites("hq", "lon", "jfk")
    link(sites, "orders", synchronous=True)
    parts = {"hq": sites["lon"], "jfk": sites["jfk"]}
    link(parts, "parts", "id int PRIMARY KEY, qty int")
    run(sites["jfk"], TO_LON)
    run_everywhere({n: sites[n] for n in ("hq", "jfk")}, ROWS)
    return sites


def test_several_masters_take_part(two_masters: Directory) -> None:
    sites = two_masters
    change(
        sites,
        "UPDATE orders SET qty = 7 WHERE id = 1",
        "INSERT INTO parts VALUES (1, 1), (2, 2)",
        "UPDATE orders SET qty = 8 WHERE id = 2",
    )

    assert quantities(sites["hq"]) == {1: 7, 2: 8, 3: 3}
    assert quantities(sites["lon"], "parts") == {1: 1, 2: 2}
    assert left_over(sites) == {}
    masters = run(sites["jfk"], "SELECT masters FROM snaptide.decision")
    assert masters == [(["hq", "lon"],)]


@pytest.mark.parametrize(("refusing", "table"), [("hq", "orders"), ("lon", "parts")])
def test_masters_are_released_when_another_cannot_prepare(
    two_masters: Directory, refusing: str, table: str
) -> None:
    cannot_prepare(two_masters[refusing], table)

    with pytest.raises(CommitFailed, match=f"{refusing} cannot commit"):
        change(
            two_masters,
            "UPDATE orders SET qty = 7 WHERE id = 1",
            "INSERT INTO parts VALUES (1, 1)",
        )

    assert quantities(two_masters["hq"]) == {1: 1, 2: 2, 3: 3}
    assert quantities(two_masters["jfk"]) == {1: 1, 2: 2, 3: 3}
    assert left_over(two_masters) == {}
    change(two_masters, "DELETE FROM orders WHERE id = 3")
    assert quantities(two_masters["hq"]) == {1: 1, 2: 2}


def test_a_session_of_an_application_is_coordinated_by_one_line(
    linked: Directory,
) -> None:
    url = linked["jfk"].url.set(drivername="postgresql+psycopg")
    engine = create_engine(url)
    synchronous.coordinate(engine, linked["jfk"])

    with Session(engine) as session, session.begin():
        session.execute(text("UPDATE orders SET qty = 7 WHERE id = 1"))
        with session.begin_nested() as savepoint:
            session.execute(text("UPDATE orders SET qty = 7 WHERE id = 2"))
            savepoint.rollback()
    engine.dispose()

    assert quantities(linked["hq"]) == {1: 7, 2: 2, 3: 3}
    assert_same(linked)


def test_a_session_that_copies_behind_our_back_is_coordinated_all_the_same(
    linked: Directory,
) -> None:
    engine = create_engine(linked["jfk"].url.set(drivername="postgresql+psycopg"))
    synchronous.coordinate(engine, linked["jfk"])

    with engine.begin() as connection:
        with connection.begin_nested():
            connection.execute(text("UPDATE orders SET qty = 7 WHERE id = 1"))
        with raw(connection).cursor().copy("COPY orders (id) FROM STDIN") as copy:
            copy.write("50\n")
    engine.dispose()

    assert quantities(linked["hq"]) == {1: 7, 2: 2, 3: 3, 50: None}
    assert_same(linked)


def test_another_language_of_dates_changes_nothing(linked: Directory) -> None:
    change(
        linked,
        "SET LOCAL datestyle = 'German'",
        "SET LOCAL timezone = 'Asia/Tokyo'",
        "UPDATE orders SET at = at + interval '1 day 1 second' WHERE id = 1",
        "UPDATE orders SET at = at + interval '1 day 1 second', qty = 5",
    )

    assert_same(linked)


def test_a_foreign_prepared_transaction_is_no_concern(linked: Directory) -> None:
    with application(linked["hq"]) as other:
        other.execute("BEGIN")
        other.execute("UPDATE orders SET qty = 2 WHERE id = 3")
        other.execute("PREPARE TRANSACTION 'theirs'")
    change(linked, "UPDATE orders SET qty = 7 WHERE id = 1")

    synchronous.recover(linked["hq"])

    assert prepared(linked["hq"]) == ["theirs"]
    with linked["hq"].connect() as connection:
        raw(connection.execution_options(isolation_level="AUTOCOMMIT")).execute(
            "ROLLBACK PREPARED 'theirs'"
        )


def test_lines_to_masters_close_with_the_sites_connections(linked: Directory) -> None:
    before = sessions(linked["hq"])
    update = "UPDATE orders SET qty = qty + 1 WHERE id = 1"
    change(linked, update)
    line = sessions(linked["hq"]) - before
    assert len(line) == 1
    change(linked, update)
    assert sessions(linked["hq"]) - before == line

    linked["jfk"].close()

    # The server process goes a moment after its client.
    eventually(lambda: not line & sessions(linked["hq"]), what="the closed line's end")


def sessions(site: Site) -> set[int]:
    """The server processes of programs at a database."""
    found = (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND backend_type = 'client backend'"
    )
    return {pid for (pid,) in run(site, found)}


@pytest.mark.parametrize("long", [0, 3600])
def test_a_line_that_broke_while_nobody_used_it_is_opened_anew(
    linked: Directory, monkeypatch: pytest.MonkeyPatch, long: int
) -> None:
    monkeypatch.setattr("sites.sessions.connections.LONG", long)
    update = "UPDATE orders SET qty = qty + 1 WHERE id = 1"
    change(linked, update)
    run(
        linked["hq"],
        "SELECT pg_terminate_backend(pid, 90000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    change(linked, update)

    assert_same(linked)


@pytest.mark.parametrize(
    "statement", ["UPDATE orders SET qty = qty + 1", "SELECT * FROM orders"]
)
def test_a_statement_goes_on_when_its_table_has_another_column(
    linked: Directory, statement: str
) -> None:
    for _ in range(OFTEN + 2):
        change(linked, statement)
    run(linked["jfk"], "ALTER TABLE orders ADD COLUMN later int")
    for _ in range(OFTEN + 2):
        change(linked, statement)

    assert quantities(linked["jfk"]) == quantities(linked["hq"])
    assert left_over(linked) == {}


def test_an_applications_statements_are_prepared_but_not_all(linked: Directory) -> None:
    update = "UPDATE orders SET qty = qty + 1 WHERE id = 1"
    for number in range(MOST + 20):
        change(linked, *[f"{update} OR id = {number + 1000}"] * (OFTEN + 1))

    with synchronous.begin(linked["jfk"]) as connection:
        count = connection.scalar(text("SELECT count(*) FROM pg_prepared_statements"))
    assert 50 < count <= MOST + 1
    assert_same(linked)
