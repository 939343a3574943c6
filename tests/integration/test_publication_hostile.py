"""A site that uses the login of its grant for statements of its own, to get at more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import masters
from masters.publications import publication
from sites import Directory, Site
from sites.tables import locks
from snaptide.embedded import PostgresServer
from tests.fix_worlds import prepared_once
from tests.granted import (
    Session,
    execute,
    login,
    not_empty,
    not_refused,
    session_of,
    stores,
)
from tests.linked_table import run

#: Statements that are to read no row, column or key of another's, nor write any. Of the
#: table sale, store 3 has the rows with even ids; {other} is the login of store 4.
REFUSED = {
    "another table": "SELECT * FROM public.salary",
    "its log": 'SELECT * FROM snaptide."mlog$_salary"',
    "a column that is not granted": "SELECT cost FROM public.sale",
    "a row as a whole": "SELECT s FROM public.sale s",
    "that column by RETURNING": (
        "INSERT INTO public.sale (id, store_id) VALUES (50, 3) RETURNING cost"
    ),
    "a condition on it": "SELECT id FROM public.sale WHERE cost > 5",
    "an order by it": "SELECT id FROM public.sale ORDER BY cost",
    "COPY of it": "COPY public.sale (cost) TO STDOUT",
    "sums of it, as a check asks for them": (
        "SELECT bit_xor(hashint4extended(cost, 1)) FROM public.sale"
    ),
    "sums of whole rows": (
        "SELECT bit_xor(hash_record_extended(s, 1)) FROM public.sale s"
    ),
    "how it compares, of its own rows": "SELECT count(*) FILTER (WHERE cost > 5)"
    " FROM public.sale WHERE ctid < '(1,0)'",
    "groups of masters": "SELECT * FROM snaptide.replication_group",
    "members of groups": "SELECT * FROM snaptide.group_master",
    "checks of others": "SELECT * FROM snaptide.check_difference",
    "no row-level security": "SET row_security = off; SELECT id FROM public.sale",
    "none for one statement": (
        "SELECT set_config('row_security', 'off', false); TABLE public.sale"
    ),
    "a new row": "INSERT INTO public.sale (id, store_id) VALUES (50, 3)",
    "a new row of another": "INSERT INTO public.sale (id, store_id) VALUES (50, 4)",
    "a new row by COPY": "COPY public.sale (id) FROM STDIN",
    "another value": "UPDATE public.sale SET what = 'mine'",
    "a row less": "DELETE FROM public.sale",
    "MERGE": (
        "MERGE INTO public.sale s USING (VALUES (1)) v (id) ON s.id = v.id"
        " WHEN MATCHED THEN UPDATE SET what = 'mine'"
    ),
    "TRUNCATE": "TRUNCATE public.sale",
    "a lock of rows": "SELECT id FROM public.sale FOR UPDATE",
    "a lock that shares rows": "SELECT id FROM public.sale FOR KEY SHARE",
    "a lock of the table": "LOCK TABLE public.sale IN ACCESS EXCLUSIVE MODE",
    "a policy": "CREATE POLICY p ON public.sale USING (true)",
    "an altered policy": 'ALTER POLICY "snaptide$others" ON public.sale USING (true)',
    "no security": "ALTER TABLE public.sale DISABLE ROW LEVEL SECURITY",
    "an owner": "ALTER TABLE public.sale OWNER TO CURRENT_USER",
    "a trigger": (
        "CREATE TRIGGER t AFTER INSERT ON public.sale"
        ' EXECUTE FUNCTION snaptide."mlog$_sale"()'
    ),
    "a log's trigger on a table of its own": (
        "CREATE TEMP TABLE mine (id int); CREATE TRIGGER t AFTER INSERT ON mine"
        ' EXECUTE FUNCTION snaptide."mlog$_sale"()'
    ),
    "a table": "CREATE TABLE public.mine (id int)",
    "a temporary view": "CREATE TEMP VIEW mine AS SELECT id FROM public.sale",
    "a function": (
        "CREATE FUNCTION public.peep(int) RETURNS boolean LANGUAGE plpgsql COST 0.001"
        " AS $$ BEGIN RAISE NOTICE '%', $1;RETURN true;END $$"
    ),
    "a temporary function": (
        "CREATE FUNCTION pg_temp.p(int) RETURNS boolean LANGUAGE sql AS 'SELECT 1=1'"
    ),
    "an operator": (
        "CREATE OPERATOR public.<<< (FUNCTION = int4lt, LEFTARG = int, RIGHTARG = int)"
    ),
    "a schema": "CREATE SCHEMA mine",
    "a rule": "CREATE RULE r AS ON INSERT TO public.sale DO INSTEAD NOTHING",
    "statistics": "CREATE STATISTICS public.st ON id, cost FROM public.sale",
    "an index": "CREATE INDEX ON public.sale (cost)",
    "a foreign key": ("CREATE TEMP TABLE probe (id int REFERENCES public.sale)"),
    "other values of its parameters": (
        'UPDATE snaptide.publication_grant SET parameters = \'{{"store": "4"}}\''
    ),
    "who else there is": "SELECT * FROM snaptide.publication_grant",
    "the publications": "SELECT * FROM snaptide.publication_table",
    "parameters of another grant": "SELECT snaptide.granted(99)",
    "another's user": "SET ROLE {other}",
    "a role of all sites": "SET ROLE snaptide_site",
    "a role that policies do not bind": "SET ROLE snaptide_apply",
    "another's session": "SET SESSION AUTHORIZATION {other}",
    "a row of the log": 'DELETE FROM snaptide."mlog$_sale"',
    "a forged row of the log": (
        "INSERT INTO snaptide.\"mlog$_sale\" (kind, xid, slot) VALUES ('T', '3', 0)"
    ),
    "a part of the log": 'SELECT * FROM snaptide."mlog$_sale~0"',
    "a marker": (
        "INSERT INTO snaptide.push_marker (origin_id, origin)"
        " VALUES (gen_random_uuid(), 'jfk')"
    ),
    "another's marker": "UPDATE snaptide.push_marker SET order_no = 0",
    "a batch": (
        "INSERT INTO snaptide.push_batch (origin_id, number, id, orders, started)"
        " VALUES (gen_random_uuid(), 1, gen_random_uuid(), '{{1}}', '{{now}}')"
    ),
    "the error queue": "SELECT * FROM snaptide.error_call",
    "the record of conflicts": "SELECT * FROM snaptide.resolution_record",
    "a call": "SELECT snaptide.defer_call('p', '{{hq}}', '[]', false)",
    "a contact of another": (
        "INSERT INTO snaptide.peer (site_id, role, name, incarnation)"
        " VALUES (gen_random_uuid(), 'site', 'lga', gen_random_uuid())"
    ),
    "its own contact as another": (
        "INSERT INTO snaptide.peer (site_id, role, name, incarnation)"
        " VALUES (gen_random_uuid(), 'site', 'jfk', gen_random_uuid()); "
        "UPDATE snaptide.peer SET name = 'lga'"
    ),
    "a registration of another": (
        "INSERT INTO snaptide.registered_snapshot (site_id, snapshot, site_name,"
        " table_schema, table_name, updatable)"
        " VALUES (gen_random_uuid(), 'sale', 'lga', 'public', 'sale', false)"
    ),
    "a registration of another table": (
        "INSERT INTO snaptide.registered_snapshot (site_id, snapshot, site_name,"
        " table_schema, table_name, updatable)"
        " VALUES (gen_random_uuid(), 'salary', 'jfk', 'public', 'salary', false)"
    ),
    "who the master is": "UPDATE snaptide.site_identity SET name = 'mine'",
    "a lock of all contacts": "LOCK TABLE snaptide.peer IN EXCLUSIVE MODE",
    "a program": "COPY (SELECT 1) TO PROGRAM 'true'",
    "a file": "SELECT pg_read_file('PG_VERSION')",
    "statistics of columns": "SELECT * FROM pg_statistic",
    "statements of others": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE usename <> current_user",
    "a replication slot": (
        "SELECT pg_create_logical_replication_slot('mine', 'pgoutput')"
    ),
}

#: Statements that it may run, and all that they return.
EMPTY = {
    "rows by their key": "SELECT id FROM public.sale WHERE id IN (1, 3, 5)",
    "rows by what is not so": "SELECT id FROM public.sale WHERE id % 2 = 1",
    "pages, as a gentle check reads them": (
        "SELECT id FROM public.sale WHERE ctid >= '(0,0)' AND ctid < '(99,0)'"
        " AND id % 2 = 1"
    ),
    "one place after the other": (
        'SELECT id FROM public.sale WHERE ctid = ANY (\'{{"(0,1)","(0,3)"}}\')'
        " AND store_id <> 3"
    ),
    "a sample of pages": (
        "SELECT id FROM public.sale TABLESAMPLE SYSTEM (100) WHERE id % 2 = 1"
    ),
    "sums of rows of others": (
        "SELECT hashint4(id) & 7, bit_xor(hashint4extended(id, 1)) FROM public.sale"
        " WHERE store_id = 4 GROUP BY 1"
    ),
    "a function that tells what it is given": (
        "SELECT id FROM public.sale WHERE id % 2 = 1 AND 1 / (id - 1) > 0"
    ),
    "a cursor": (
        "DECLARE c CURSOR FOR SELECT id FROM public.sale WHERE id % 2 = 1; FETCH ALL c"
    ),
    "a setting like a parameter": (
        "SET snaptide.store = '4'; SELECT id FROM public.sale WHERE id % 2 = 1"
    ),
    "a setting of origin": (
        "SET snaptide.origin = 'lga'; SELECT id FROM public.sale WHERE id % 2 = 1"
    ),
    "a path before pg_catalog": (
        "SET search_path = public, pg_catalog; SELECT id FROM sale WHERE id % 2 = 1"
    ),
    "a prepared statement": (
        "PREPARE p AS SELECT id FROM public.sale WHERE id % 2 = 1; EXECUTE p"
    ),
    "keys of others in the log": (
        'SELECT k1 FROM snaptide."mlog$_sale" WHERE k1 % 2 = 1'
    ),
    "statistics of the table": (
        "SELECT 1 FROM pg_stats WHERE tablename IN ('sale', 'mlog$_sale', 'salary')"
    ),
    "contacts of others": "SELECT 1 FROM snaptide.peer WHERE name <> 'jfk'",
    "registrations of others": (
        "SELECT 1 FROM snaptide.registered_snapshot WHERE site_name <> 'jfk'"
    ),
    "registrations to delete": (
        "DELETE FROM snaptide.registered_snapshot WHERE site_name <> 'jfk' RETURNING 1"
    ),
    "markers of others": "SELECT 1 FROM snaptide.push_marker",
    "the ledger of others": "SELECT 1 FROM snaptide.push_batch",
    "logs of other tables": (
        "SELECT 1 FROM snaptide.snapshot_log WHERE table_name <> 'sale'"
    ),
    "other tables, asked by a function": (
        "SELECT 1 WHERE snaptide.is_granted('public', 'salary')"
    ),
}


#: What PostgreSQL says of a right that is lacking, and of COPY to such a table.
_RIGHTS = ("42501", "0A000")


@prepared_once("hq", "jfk")
def sales(sites: Directory) -> None:
    """Sales of two stores, published without their cost; one of each has changed."""
    hq = sites["hq"]
    stores(hq)
    masters.create_publication(
        hq,
        "sales",
        ["sale"],
        where={"sale": "store_id = :store"},
        columns={"sale": ["id", "store_id", "what"]},
    )
    run(hq, "ANALYZE", "UPDATE public.sale SET what = 'changed' WHERE id IN (1, 2)")
    run(
        hq,
        "INSERT INTO snaptide.push_marker (origin_id, origin)"
        " VALUES (gen_random_uuid(), 'lga')",
        "INSERT INTO snaptide.push_batch (origin_id, number, id, orders, started)"
        " VALUES (gen_random_uuid(), 1, gen_random_uuid(), '{1}', '{now}')",
        "INSERT INTO snaptide.peer (site_id, role, name, incarnation)"
        " VALUES (gen_random_uuid(), 'site', 'lga', gen_random_uuid())",
    )


@pytest.fixture
def hostile(sales: Directory, server: PostgresServer) -> Iterator[tuple[Session, str]]:
    """A session with the login of store 3, and the name of another login."""
    hq = sales["hq"]
    with login(server, hq) as name, login(server, hq) as other:
        masters.grant(hq, "sales", "jfk", login=name, parameters={"store": "3"})
        masters.grant(hq, "sales", "lga", login=other, parameters={"store": "4"})
        with session_of(hq, name) as session:
            yield session, other


def test_a_hostile_site_gets_and_changes_nothing(
    sales: Directory, hostile: tuple[Session, str]
) -> None:
    session, other = hostile
    hq = sales["hq"]
    before = _all(hq)
    done = not_refused(session, REFUSED, _RIGHTS, other)
    done += not_empty(session, EMPTY, other)
    assert done == [], "\n".join(done)
    assert execute(session, "SELECT id FROM public.sale ORDER BY 1", other) == [
        (2,),
        (4,),
        (6,),
        (8,),
        (10,),
    ]
    assert execute(session, 'SELECT k1 FROM snaptide."mlog$_sale"', other) == [(2,)]
    session.rollback()
    assert _all(hq) == before


def test_a_login_that_does_not_inherit_is_bound_too(
    sales: Directory, server: PostgresServer
) -> None:
    hq = sales["hq"]
    with login(server, hq) as name:
        run(hq, f"ALTER ROLE {name} NOINHERIT")
        masters.grant(hq, "sales", "jfk", login=name, parameters={"store": "3"})
        with session_of(hq, name) as session:
            assert execute(session, "SELECT count(*) FROM public.sale", "") == [(5,)]


def test_a_login_cannot_keep_its_rights_by_locks(
    sales: Directory,
    hostile: tuple[Session, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session, other = hostile
    hq = sales["hq"]
    ours = "snaptide.registered_snapshot"
    execute(session, f"LOCK TABLE {ours} IN ACCESS EXCLUSIVE MODE", other)
    monkeypatch.setattr(locks, "ATTEMPTS", 1)
    with pytest.raises(psycopg.errors.LockNotAvailable):
        masters.revoke(hq, "sales", "jfk")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        execute(session, "SELECT id FROM public.sale", other)
    [left] = masters.show_publication(hq, "sales").grants
    assert left.site == "lga"


def test_no_snapshot_is_registered_while_other_values_are_granted(
    sales: Directory, hostile: tuple[Session, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would show rows of the values before, and then be refreshed fast."""
    session, other = hostile
    let_read, tried = publication.let_read, []

    def and_try(*given: Any) -> None:
        let_read(*given)
        statements = (
            "SET lock_timeout = 100; "
            "INSERT INTO snaptide.registered_snapshot (site_id, snapshot, site_name,"
            " table_schema, table_name, updatable)"
            " VALUES (gen_random_uuid(), 'sale', 'jfk', 'public', 'sale', false)"
        )
        with pytest.raises(psycopg.errors.LockNotAvailable) as refused:
            execute(session, statements, other)
        tried.append(refused)

    monkeypatch.setattr(publication, "let_read", and_try)
    name = session.info.user
    masters.grant(sales["hq"], "sales", "jfk", login=name, parameters={"store": "5"})
    assert len(tried) == 1


def test_policies_leave_indexes_of_use(
    sales: Directory, hostile: tuple[Session, str]
) -> None:
    """Where policies are joined by OR, PostgreSQL reads whole tables."""
    session, other = hostile
    run(sales["hq"], "CREATE INDEX ON public.sale (store_id)")
    for asked, column in {
        "SELECT id FROM public.sale": "store_id",
        'SELECT k1 FROM snaptide."mlog$_sale"': "p$store_id",
    }.items():
        plan = execute(session, f"SET enable_seqscan = off; EXPLAIN {asked}", other)
        found = [str(line) for [line] in plan if "Index Cond" in str(line)]
        assert found, plan
        assert column in found[0]


def _all(hq: Site) -> list[object]:
    """All that a hostile site may not change."""
    tables = ("public.sale", "public.salary", 'snaptide."mlog$_sale"')
    return [run(hq, f"SELECT s::text FROM {one} s ORDER BY 1") for one in tables]
