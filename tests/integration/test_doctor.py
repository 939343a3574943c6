"""Doctor says nothing about a healthy site, and names each thing that is wrong."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import text

import deferred
import masters
import snapshots
from deferred import runs, schedules
from deferred.queues.backlog import set_disabled
from sites import Directory, Site
from snaptide import doctor
from snaptide.doctor import Finding, bloat, connections, stopped
from tests.fix_db import MakeDatabase
from tests.fix_sites import unarmed
from tests.fix_worlds import prepared_once
from tests.linked_table import run


def examine(site: Site) -> list[Finding]:
    """The findings; the servers of tests run with fsync off, which is one."""
    return [found for found in doctor.examine(site) if found.subject != "fsync"]


def only(site: Site) -> Finding:
    found = examine(site)
    assert len(found) == 1, found
    assert found[0].todo
    return found[0]


@prepared_once("hq", "jfk", needs="spark")
def pair(sites: Directory) -> None:
    """A partitioned master table at hq, and an updatable snapshot of it at jfk."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.seats (id int PRIMARY KEY, free int)"
        " PARTITION BY RANGE (id)",
        "CREATE TABLE public.seats_low PARTITION OF public.seats"
        " FOR VALUES FROM (0) TO (100)",
        "INSERT INTO public.seats SELECT i, 100 FROM generate_series(1, 9) i",
    )
    masters.create_snapshot_log(hq, "seats")
    snapshots.create(jfk, "seats", master="hq", updatable=True)
    snapshots.refresh(jfk, "seats", push_deferred_rpc=False)


def test_nothing_is_wrong(pair: Directory) -> None:
    assert examine(pair["hq"]) == []
    assert examine(pair["jfk"]) == []


def test_no_schema(make_database: MakeDatabase) -> None:
    site = Directory({"bare": make_database()})["bare"]
    found = only(site)
    assert (found.severity, found.subject) == ("fatal", "schema")
    assert found.todo == "snaptide site init bare"
    site.close()


def test_schema_not_at_head(sites: Directory) -> None:
    jfk = sites["jfk"]
    run(jfk, "UPDATE snaptide.alembic_version SET version_num = '0001'")
    assert "is at 0001" in only(jfk).what
    run(jfk, "UPDATE snaptide.alembic_version SET version_num = '9999'")
    assert "newer Snaptide" in only(jfk).todo


def test_another_database(sites: Directory) -> None:
    jfk = sites["jfk"]
    run(jfk, "UPDATE snaptide.site_identity SET database_oid = 1, timeline = 99")
    found = examine(jfk)
    assert [f.subject for f in found] == ["identity", "identity"]
    run(jfk, "UPDATE snaptide.site_identity SET name = 'lga'")
    assert "says that it is site lga" in examine(jfk)[0].what


def test_a_partition_that_came_later(pair: Directory) -> None:
    unarmed(pair["hq"])
    [told] = [
        f for f in doctor.examine(pair["hq"], informed=True) if "event" in f.subject
    ]
    assert (told.severity, "log repair hq --print" in told.todo) == ("info", True)
    run(
        pair["hq"],
        "CREATE TABLE public.seats_high PARTITION OF public.seats"
        " FOR VALUES FROM (100) TO (200)",
    )
    found = only(pair["hq"])
    assert (found.severity, found.subject) == ("error", "seats_high")
    assert "snaptide_mlog_insert" in found.what
    commands, _, _ = found.todo.partition("; then ")
    run(pair["hq"], *commands.split("; "))
    assert examine(pair["hq"]) == []


def test_a_trigger_that_is_off(pair: Directory) -> None:
    run(
        pair["hq"],
        "ALTER TABLE public.seats_low DISABLE TRIGGER snaptide_mlog_update",
        "ALTER TABLE public.seats ENABLE TRIGGER snaptide_mlog_delete",
    )
    what = [found.what for found in examine(pair["hq"])]
    assert len(what) == 2
    assert "snaptide_mlog_delete is not always on" in what[0]
    assert "snaptide_mlog_update is disabled" in what[1]


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("ALTER TABLE public.seats ENABLE TRIGGER {}", "not on for native replication"),
        ("ALTER TABLE public.seats DISABLE TRIGGER {}", "is disabled"),
        ("DROP TRIGGER {} ON public.seats", "lacks snaptide_mlog_replica"),
    ],
    ids=["on for users", "off", "dropped"],
)
def test_a_trigger_for_native_replication_that_is_off(
    pair: Directory, how: str, told: str
) -> None:
    """As after DISABLE TRIGGER ALL and ENABLE TRIGGER ALL."""
    run(pair["hq"], how.format("snaptide_mlog_replica"))
    found = examine(pair["hq"])
    assert {one.subject for one in found} >= {"seats"}
    assert all(told in one.what for one in found)
    commands, _, _ = found[0].todo.partition("; then ")
    run(pair["hq"], *commands.split("; "))
    assert examine(pair["hq"]) == []


def test_a_queue_that_is_off(pair: Directory) -> None:
    run(
        pair["jfk"],
        'ALTER TABLE public."snap$_seats" DISABLE TRIGGER snaptide_def_insert',
        "ALTER TABLE snaptide.deferred_transaction DISABLE TRIGGER snaptide_order_last",
    )
    assert [found.subject for found in examine(pair["jfk"])] == [
        "snap$_seats",
        "snaptide.deferred_transaction",
    ]


def test_a_guard_that_is_off(pair: Directory) -> None:
    hq, jfk = pair["hq"], pair["jfk"]
    run(
        hq,
        "CREATE TABLE public.fares (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE public.fares_low PARTITION OF public.fares"
        " FOR VALUES FROM (0) TO (100)",
    )
    masters.create_snapshot_log(hq, "fares")
    snapshots.create(jfk, "fares", master="hq")
    snapshots.refresh(jfk, "fares")
    assert examine(jfk) == []
    run(
        jfk,
        'ALTER TABLE public."snap$_fares" DISABLE TRIGGER ALL',
        'ALTER TABLE public."snap$_fares" ENABLE TRIGGER ALL',
    )
    found = examine(jfk)
    assert {one.subject for one in found} == {"snap$_fares"}
    assert "snaptide_guard is not always on" in found[0].what
    for one in found:
        command, _, _ = one.todo.partition("; then ")
        run(jfk, *command.split("; "))
    assert examine(jfk) == []
    run(
        jfk,
        'CREATE TABLE public.late () INHERITS (public."snap$_fares")',
    )
    found = [one for one in examine(jfk) if one.subject == "late"]
    assert "snaptide_guard is missing" in found[0].what
    for one in found:
        command, _, _ = one.todo.partition("; then ")
        run(jfk, *command.split("; "))
    assert [one for one in examine(jfk) if one.subject == "late"] == []


@pytest.mark.usefixtures("spark")
@pytest.mark.usefixtures("spark")
def test_a_foreign_key_that_changes_a_read_only_snapshot(sites: Directory) -> None:
    """A refresh of the parents runs it, and the children's own sees nothing of that."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.line (id int PRIMARY KEY, flies bool)",
        "CREATE TABLE public.stop (id int PRIMARY KEY, line int)",
        "INSERT INTO public.line VALUES (1, true)",
        "INSERT INTO public.stop VALUES (10, 1)",
    )
    for table, where in (("line", "flies"), ("stop", None)):
        masters.create_snapshot_log(hq, table)
        snapshots.create(jfk, table, master="hq", where=where)
        snapshots.refresh(jfk, table)
    add = (
        'ALTER TABLE public."snap$_stop" ADD CONSTRAINT own FOREIGN KEY (line)'
        ' REFERENCES public."snap$_line"'
    )
    run(jfk, add)
    assert examine(jfk) == []
    run(jfk, 'ALTER TABLE public."snap$_stop" DROP CONSTRAINT own')
    run(jfk, f"{add} ON DELETE CASCADE")
    found = only(jfk)
    assert (found.severity, found.subject) == ("warning", "stop")
    assert "own" in found.what

    run(hq, "UPDATE line SET flies = false")
    for table in ("line", "stop"):
        snapshots.refresh(jfk, table)
    assert run(jfk, "SELECT * FROM stop") == []
    run(jfk, 'ALTER TABLE public."snap$_stop" DROP CONSTRAINT own')
    assert found.todo.endswith("snaptide refresh jfk stop --method c")
    snapshots.refresh(jfk, "stop", method="c")
    assert run(jfk, "SELECT * FROM stop") == [(10, 1)]


def test_columns_with_a_length(sites: Directory) -> None:
    """Images are recorded without one: that is no change of the column's type."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.sized (code varchar(5) PRIMARY KEY, name varchar(40),"
        " kind char(3), bits bit(4), more varbit(8), price numeric(6, 2),"
        " at timestamp(3), day timestamptz(0), pause interval hour to minute,"
        " tags varchar(10)[])",
    )
    masters.create_snapshot_log(hq, "sized")
    snapshots.create(jfk, "sized", master="hq", updatable=True)
    snapshots.refresh(jfk, "sized")
    assert [f for f in examine(hq) + examine(jfk) if "Column" in f.what] == []


def test_columns_that_changed(pair: Directory) -> None:
    run(pair["hq"], "ALTER TABLE public.seats ADD COLUMN colour text")
    assert not examine(pair["hq"])
    run(pair["hq"], "ALTER TABLE public.seats RENAME COLUMN id TO number")
    assert any("users can still write" in found.what for found in examine(pair["hq"]))


def test_a_snapshot_that_nobody_refreshes(pair: Directory) -> None:
    run(
        pair["hq"],
        "UPDATE snaptide.registered_snapshot"
        " SET refreshed_at = now() - interval '30 days'",
    )
    found = only(pair["hq"])
    assert found.subject == "jfk:seats"
    assert "snaptide log unregister hq jfk seats" in found.todo


def test_a_registration_that_nobody_knows(pair: Directory) -> None:
    run(
        pair["jfk"],
        "UPDATE snaptide.snapshot SET name = 'other'",
        "ALTER VIEW public.seats RENAME TO other",
    )
    assert "no such snapshot" in only(pair["hq"]).what
    assert "not registered at hq" in only(pair["jfk"]).what


def test_a_snapshot_without_its_log(pair: Directory) -> None:
    masters.drop_snapshot_log(pair["hq"], "seats", force=True)
    assert "no snapshot log of seats" in only(pair["jfk"]).what

    masters.create_snapshot_log(pair["hq"], "seats")
    assert not examine(pair["jfk"])
    assert masters.show_snapshot_log(pair["hq"], "seats").snapshots == ("jfk:seats",)


def test_a_master_that_is_away(pair: Directory) -> None:
    jfk = pair["jfk"]
    apart = Directory({"jfk": jfk.url, "hq": pair["hq"].url.set(port=1)})["jfk"]
    found = only(apart)
    assert found.subject == "master hq"
    assert str(jfk.url.password) not in found.what
    apart.close()


def test_what_stopped(pair: Directory) -> None:
    jfk = pair["jfk"]
    schedules.schedule(jfk, "push", "hq", every="1h")
    set_disabled(jfk, "hq", disabled=True)
    run(
        jfk,
        "UPDATE snaptide.schedule SET last_error = 'no'",
        "UPDATE snaptide.refresh_group SET last_error = 'no'",
        'CREATE UNLOGGED TABLE snaptide."stage$_1" (a int)',
    )
    assert [found.subject for found in examine(jfk)] == [
        "snaptide.stage$_1",
        "destination hq",
        "schedule push hq",
        "beat",
        "refresh group seats",
    ]


def test_nobody_listens(pair: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    jfk = pair["jfk"]
    run(jfk, "UPDATE public.seats SET free = 7 WHERE id = 1")
    for counting in (stopped, runs):
        monkeypatch.setattr(counting, "GRACE", timedelta(0))
    assert examine(jfk) == []  # beat has never looked: people push by hand
    with jfk.transaction() as connection:
        runs.note_look(connection)
    assert only(jfk).todo == "snaptide worker --site jfk"
    with psycopg.connect(jfk.libpq_uri(), application_name="snaptide-listener"):
        assert examine(jfk) == []
    schedules.schedule(jfk, "push", every="1h")
    assert [found.subject for found in examine(jfk)] == ["beat"]


def test_parked_errors(pair: Directory) -> None:
    run(pair["jfk"], "UPDATE public.seats SET free = 7 WHERE id = 1")
    run(pair["hq"], "DELETE FROM public.seats WHERE id = 1")
    deferred.push(pair["jfk"], "hq")
    assert only(pair["hq"]).subject == "error queue"


def test_rules_of_a_table_that_is_gone(sites: Directory) -> None:
    hq = sites["hq"]
    run(hq, "CREATE TABLE public.gone (id int PRIMARY KEY)")
    masters.add_delete_resolution(hq, "gone", "ignore")
    assert examine(hq) == []
    run(hq, "DROP TABLE public.gone")
    assert only(hq).subject == "rules of gone"


def test_bloat(sites: Directory) -> None:
    """A table that keeps the room of rows that are gone, and calls nobody purges."""
    jfk = sites["jfk"]
    run(
        jfk,
        "CREATE TABLE snaptide.much (id int, v text)",
        "INSERT INTO snaptide.much"
        " SELECT i, repeat('x', 100) FROM generate_series(1, 9000) i",
        "INSERT INTO snaptide.deferred_transaction (xid, origin_user)"
        " VALUES (pg_current_xact_id(), 'clerk')",
        "INSERT INTO snaptide.delivery_row (xid, destination, batch, order_no, calls)"
        " SELECT xid, 'hq', 1, 1, 1 FROM snaptide.deferred_transaction",
        "INSERT INTO snaptide.destination (name, window_end)"
        " VALUES ('hq', pg_current_snapshot())",
        "INSERT INTO snaptide.batch VALUES ('hq', 1, 1, now() - interval '4 days')",
    )
    assert _bloated(jfk) == ["queue"]
    run(jfk, "DELETE FROM snaptide.much WHERE id > 9")
    found = _bloated(jfk)
    assert found == ["snaptide.much", "queue"]


def _bloated(site: Site) -> list[str]:
    with site.connect() as plain:
        connection = plain.execution_options(isolation_level="AUTOCOMMIT")
        connection.exec_driver_sql("ANALYZE snaptide.much")
        found = bloat.check(connection, site.name, least=400_000)
        # So little counts here that the catalogs of a fresh database do.
        return [f.subject for f in found if not f.subject.startswith("pg_catalog.")]


def test_workers_of_many_sites(pair: Directory) -> None:
    """Only a limit, or too few sites for it, lets users have what the server allows."""
    hq = pair["hq"]
    registered = "snaptide.registered_snapshot"
    run(
        hq,
        f"CREATE TABLE public.made AS SELECT * FROM {registered}",
        "UPDATE public.made SET site_id = gen_random_uuid()",
    )
    for number in range(8):
        run(
            hq,
            "UPDATE public.made SET site_id = gen_random_uuid(),"
            f" site_name = 's{number}'",
            f"INSERT INTO {registered} SELECT * FROM public.made",
        )
    with hq.session() as connection:
        [found] = connections.check(connection, "hq")
    assert "9 sites have snapshots of it" in found.what
    assert "can open 216 connections" in found.what
    with hq.session() as connection:
        connection.execute(text("DELETE FROM snaptide.registered_snapshot"))
        assert not [*connections.check(connection, "hq")]


def test_a_column_of_a_user_view_that_has_another_name(pair: Directory) -> None:
    jfk = pair["jfk"]
    run(jfk, "ALTER VIEW public.seats RENAME free TO vacant")
    found = only(jfk)
    assert (found.severity, found.subject) == ("warning", "seats")
    assert "no column free" in found.what
    assert "vacant instead" in found.what
    run(jfk, "ALTER VIEW public.seats RENAME vacant TO free")
    assert examine(jfk) == []


def test_a_user_view_that_is_gone(pair: Directory) -> None:
    jfk = pair["jfk"]
    run(jfk, "ALTER VIEW public.seats RENAME TO places")
    found = only(jfk)
    assert found.subject == "seats"
    assert "another name or schema" in found.what
    run(jfk, "CREATE VIEW public.seats AS SELECT * FROM public.places")
    found = only(jfk)
    assert (found.severity, "Rename" in found.todo) == ("warning", True)
    run(jfk, "DROP VIEW public.seats")
    run(jfk, "DROP VIEW public.places")
    run(jfk, only(jfk).todo.rpartition(": ")[2])
    assert examine(jfk) == []
    run(jfk, "UPDATE public.seats SET free = 7 WHERE id = 1")
    assert deferred.push(jfk, "hq").calls == 1
