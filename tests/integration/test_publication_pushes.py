"""Grants with which a site pushes: only changes of its rows, by its login."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

import deferred
import masters
import snapshots
from masters.publications.errors import CannotPublish, LoginUnfit
from sites import Directory, Site
from sites.errors import NotGranted
from snaptide.embedded import PostgresServer
from tests.fix_worlds import prepared_once
from tests.granted import (
    STORE,
    as_login,
    grant_sales,
    let_in,
    login,
    publish_sales,
    sell,
    stores,
)
from tests.linked_table import parked, queued, run
from tests.rows_read import rows_read
from tests.stories import push_and_refresh, refresh

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def store(sites: Directory, server: PostgresServer) -> Iterator[str]:
    """Sales at hq, and the login of jfk, which may create temporary tables."""
    hq = sites["hq"]
    stores(hq)
    with login(server, hq) as name:
        run(hq, f'GRANT TEMPORARY ON DATABASE "{hq.url.database}" TO {name}')
        yield name


@prepared_once("hq", "jfk", needs="spark")
def sold(sites: Directory) -> None:
    sell(sites)


@pytest.fixture
def granted(sold: Directory) -> Iterator[Site]:
    """The site jfk, which may change the sales of store 3, with a snapshot of them."""
    with let_in(sold) as jfk:
        yield jfk


def test_a_site_pushes_changes_of_its_rows(sold: Directory, granted: Site) -> None:
    hq = sold["hq"]
    run(granted, "UPDATE public.sale SET what = 'sold' WHERE id = 2")
    deferred.push(granted)
    for statement in (
        "UPDATE public.sale SET what = 'sold' WHERE id = 4",
        "DELETE FROM public.sale WHERE id = 6",
        "INSERT INTO public.sale VALUES (12, 3, 'new', 1)",
        "UPDATE public.sale SET id = 14 WHERE id = 8",
    ):
        run(granted, statement)
    report = deferred.push(granted)
    assert (report.transactions, report.errors) == (4, 0)
    assert run(
        hq, "SELECT id, what FROM public.sale WHERE store_id = 3 ORDER BY 1"
    ) == [
        (2, "sold"),
        (4, "sold"),
        (10, "thing 10"),
        (12, "new"),
        (14, "thing 8"),
    ]
    assert run(hq, "SELECT count(*) FROM public.sale WHERE store_id = 4") == [(5,)]
    refresh(granted, "sale")
    assert queued(granted) == 0


def test_a_push_reads_the_rows_that_it_changes(sold: Directory, granted: Site) -> None:
    """And not all of the store, as PostgreSQL has it if a condition could leak them."""
    hq = sold["hq"]
    run(
        hq,
        "INSERT INTO public.sale SELECT i, 3 + i % 10, 'more', i"
        " FROM generate_series(1000, 50000) i",
        "CREATE INDEX ON public.sale (store_id)",
        "ANALYZE public.sale",
    )
    refresh(granted, "sale")
    granted.peer("hq").close()
    before = rows_read(hq, "sale")
    run(granted, "UPDATE public.sale SET what = 'sold' WHERE id IN (2, 2000)")
    run(granted, "INSERT INTO public.sale VALUES (12, 3, 'new', 1)")
    assert deferred.push(granted).errors == 0
    granted.peer("hq").close()
    assert rows_read(hq, "sale") - before < 100


def test_what_leaves_the_grant_is_parked_whole(sold: Directory, granted: Site) -> None:
    hq = sold["hq"]
    run(
        granted,
        "UPDATE public.sale SET what = 'sold' WHERE id = 2",
        "UPDATE public.sale SET store_id = 4 WHERE id = 4",
    )
    run(granted, "INSERT INTO public.sale VALUES (20, 4, 'not mine', 1)")
    run(granted, "UPDATE public.sale SET what = 'sold' WHERE id = 6")
    report = deferred.push(granted)
    assert (report.transactions, report.errors) == (3, 2)
    assert run(hq, "SELECT id FROM public.sale WHERE what = 'sold'") == [(6,)]
    assert run(hq, "SELECT count(*) FROM public.sale WHERE store_id = 4") == [(5,)]
    assert [one for one in _why(hq) if "does not grant to this site" not in one] == []
    # An operator retries by mistake what the site may not do.
    reports = deferred.retry_errors(hq)
    assert [one.applied for one in reports] == [False, False]
    assert "not granted to jfk" in reports[0].reason
    assert run(hq, "SELECT count(*) FROM public.sale WHERE store_id = 4") == [(5,)]
    grant_sales(hq, STORE, "4")
    [first, second] = deferred.retry_errors(hq)
    assert (first.applied, second.applied) == (False, True)


def _why(hq: Site) -> list[str]:
    asked = "SELECT error_message FROM snaptide.error_transaction"
    return [str(row[0]) for row in run(hq, asked)]


def test_a_conflict_is_parked_and_retried(sold: Directory, granted: Site) -> None:
    hq = sold["hq"]
    run(hq, "UPDATE public.sale SET what = 'theirs' WHERE id = 2")
    run(granted, "UPDATE public.sale SET what = 'mine' WHERE id = 2")
    run(granted, "UPDATE public.sale SET what = 'again' WHERE id = 2")
    assert deferred.push(granted).errors == 2
    assert [one[1] for one in parked(hq)] == ["conflict", "dependant"]
    refresh(granted, "sale")
    run(hq, "UPDATE public.sale SET what = 'thing 2' WHERE id = 2")
    assert [one.applied for one in deferred.retry_errors(hq)] == [True, True]
    assert run(hq, "SELECT what FROM public.sale WHERE id = 2") == [("again",)]


def test_rules_settle_conflicts(sold: Directory, granted: Site) -> None:
    hq = sold["hq"]
    masters.set_column_group(hq, "sale", "what", ["what"])
    masters.add_update_resolution(hq, "sale", "what", "overwrite")
    run(hq, "UPDATE public.sale SET what = 'theirs' WHERE id = 2")
    run(granted, "UPDATE public.sale SET what = 'mine' WHERE id = 2")
    assert deferred.push(granted).conflicts_resolved == 1
    assert run(hq, "SELECT what FROM public.sale WHERE id = 2") == [("mine",)]
    assert run(hq, "SELECT origin FROM snaptide.resolution_record") == [("jfk",)]


def test_values_that_do_not_fit_are_parked(sold: Directory, granted: Site) -> None:
    hq = sold["hq"]
    run(hq, "ALTER TABLE public.sale ALTER what TYPE varchar(8)")
    run(granted, "UPDATE public.sale SET what = 'much too long' WHERE id = 2")
    run(granted, "UPDATE public.sale SET what = 'short' WHERE id = 4")
    report = deferred.push(granted)
    assert (report.transactions, report.errors) == (2, 1)
    [call] = deferred.show_error(hq, report.error_ids[0]).calls
    assert (call.new or {})["what"] == "much too long"
    assert run(hq, "SELECT what FROM public.sale WHERE id = 4") == [("short",)]


def test_a_site_that_may_see_some_columns_pushes_these(
    sites: Directory, store: str
) -> None:
    hq, columns = sites["hq"], ["id", "store_id", "what"]
    masters.create_publication(
        hq,
        "sales",
        ["sale"],
        where={"sale": "store_id = :store"},
        columns={"sale": columns},
    )
    grant_sales(hq, store)
    with as_login(sites, store) as directory:
        jfk = directory["jfk"]
        snapshots.create(jfk, "sale", master="hq", updatable=True, columns=columns)
        refresh(jfk, "sale")
        run(hq, "UPDATE public.sale SET what = 'theirs' WHERE id = 8")
        for statement in (
            "UPDATE public.sale SET what = 'sold' WHERE id = 2",
            "UPDATE public.sale SET what = 'mine' WHERE id = 8",
            "DELETE FROM public.sale WHERE id IN (4, 6)",
            "INSERT INTO public.sale VALUES (12, 3, 'new'), (14, 3, 'new')",
        ):
            run(jfk, statement)
        report = deferred.push(jfk)
        assert (report.transactions, report.errors) == (4, 1)
    left = "SELECT id, what, cost FROM public.sale WHERE store_id = 3 ORDER BY id"
    assert run(hq, left) == [
        (2, "sold", 2),
        (8, "theirs", 8),
        (10, "thing 10", 10),
        (12, "new", None),
        (14, "new", None),
    ]


def test_many_rows_are_pushed_at_once(sold: Directory, granted: Site) -> None:
    hq = sold["hq"]
    run(
        granted,
        "INSERT INTO public.sale"
        " SELECT i, 3, 'many', 0 FROM generate_series(100, 2999) i",
    )
    deferred.push(granted)
    run(granted, "UPDATE public.sale SET cost = 1 WHERE id >= 100")
    assert deferred.push(granted).errors == 0
    assert run(hq, "SELECT count(*) FROM public.sale WHERE cost = 1") == [(2901,)]
    run(granted, "UPDATE public.sale SET store_id = 4 WHERE id = 100 OR id = 101")
    run(granted, "UPDATE public.sale SET cost = 2 WHERE id >= 102")
    assert deferred.push(granted).errors == 1
    assert run(hq, "SELECT count(*) FROM public.sale WHERE cost = 2") == [(2899,)]


def test_a_call_of_a_procedure_is_parked(sold: Directory, granted: Site) -> None:
    """Nothing binds what it does to the rows of the site; what comes later goes on."""
    hq = sold["hq"]
    run(hq, "CREATE PROCEDURE empty() LANGUAGE sql AS 'DELETE FROM sale'")
    deferred.allow_procedure(hq, "empty")
    with granted.begin() as connection:
        deferred.call(connection, "empty", [])
    run(granted, "UPDATE public.sale SET what = 'sold' WHERE id = 2")
    report = deferred.push(granted)
    assert (report.transactions, report.errors) == (2, 1)
    [error] = deferred.list_errors(hq)
    assert "empty is not allowed to run here" in error.error_message
    [retried] = deferred.retry_errors(hq)
    assert not retried.applied
    assert "procedures, which are granted to no site" in retried.reason
    assert run(hq, "SELECT what FROM sale WHERE id = 2") == [("sold",)]
    assert run(hq, "SELECT count(*) FROM sale") == [(10,)]


#: How an earlier version has bound parked calls and allowed procedures.
BEFORE = (
    'ALTER POLICY "snaptide$site" ON snaptide.error_procedure WITH CHECK (true)',
    'COMMENT ON POLICY "snaptide$site" ON snaptide.error_procedure IS NULL',
    'DROP POLICY "snaptide$site" ON snaptide.allowed_procedure',
    "ALTER TABLE snaptide.allowed_procedure DISABLE ROW LEVEL SECURITY",
    'DROP POLICY "snaptide$others" ON snaptide.allowed_procedure',
)


@pytest.mark.parametrize("before", [BEFORE, BEFORE[:2], BEFORE[2:]])
def test_policies_of_before_become_those_of_now_with_the_next_grant(
    sold: Directory, granted: Site, before: Sequence[str]
) -> None:
    hq = sold["hq"]
    run(hq, *before)
    grant_sales(hq, STORE)
    found = run(
        hq,
        "SELECT polrelid::regclass::text, pg_get_expr(polwithcheck, polrelid)"
        " FROM pg_policy WHERE polname = 'snaptide$site' AND polrelid IN"
        " ('snaptide.error_procedure'::regclass,"
        " 'snaptide.allowed_procedure'::regclass) ORDER BY 1",
    )
    [(_, allowed), (_, parked_calls)] = found
    assert allowed == "false"
    assert "parked_at >= now()" in str(parked_calls)


def test_values_of_a_dropped_column_are_parked(sold: Directory, granted: Site) -> None:
    hq = sold["hq"]
    run(granted, "UPDATE public.sale SET cost = 5 WHERE id = 2")
    run(hq, "ALTER TABLE public.sale DROP cost")
    report = deferred.push(granted)
    assert (report.transactions, report.errors) == (1, 1)
    shown = deferred.show_error(hq, report.error_ids[0])
    assert shown.reason == "column gone"
    assert (shown.calls[0].new or {})["cost (gone)"] == "5"


def test_a_key_of_another_store_is_a_conflict(sold: Directory, granted: Site) -> None:
    hq = sold["hq"]
    run(granted, "INSERT INTO public.sale VALUES (3, 3, 'mine', 1)")
    assert deferred.push(granted).errors == 1
    assert run(hq, "SELECT store_id, what FROM public.sale WHERE id = 3") == [
        (4, "thing 3")
    ]


def test_nothing_is_pushed_without_a_grant_to_change(
    sold: Directory, granted: Site
) -> None:
    hq = sold["hq"]
    run(granted, "UPDATE public.sale SET what = 'sold' WHERE id = 2")
    database = hq.url.database
    run(hq, f'REVOKE TEMPORARY ON DATABASE "{database}" FROM {STORE}')
    grant_sales(hq, STORE, updatable=False)
    with pytest.raises(NotGranted, match="nothing that it may change"):
        deferred.push(granted)
    with pytest.raises(NotGranted):
        push_and_refresh(granted, "sale")
    # What waits is no hindrance.
    refresh(granted, "sale")
    masters.revoke(hq, "sales", "jfk")
    with pytest.raises(NotGranted):
        deferred.push(granted)
    assert queued(granted) == 1
    run(hq, f'GRANT TEMPORARY ON DATABASE "{database}" TO {STORE}')
    grant_sales(hq, STORE)
    assert deferred.push(granted).transactions == 1
    assert run(hq, "SELECT what FROM public.sale WHERE id = 2") == [("sold",)]


def test_the_login_of_another_site_is_named(sold: Directory, granted: Site) -> None:
    hq = sold["hq"]
    masters.revoke(hq, "sales", "jfk")
    run(granted, "UPDATE public.sale SET what = 'sold' WHERE id = 2")
    masters.grant(
        hq, "sales", "lga", login=STORE, parameters={"store": "3"}, updatable=True
    )
    with pytest.raises(NotGranted, match="login of site lga, but this site"):
        deferred.push(granted)
    with pytest.raises(NotGranted, match="login of site lga, but this site"):
        refresh(granted, "sale")
    # Before a first contact, too.
    run(granted, "DELETE FROM snaptide.peer")
    with pytest.raises(NotGranted, match="login of site lga, but this site"):
        refresh(granted, "sale")


def test_a_login_leases_no_numbers(sites: Directory, store: str) -> None:
    hq = sites["hq"]
    run(hq, "ALTER TABLE public.sale ALTER id ADD GENERATED BY DEFAULT AS IDENTITY")
    publish_sales(hq)
    grant_sales(hq, store)
    with as_login(sites, store) as directory:
        jfk = directory["jfk"]
        with pytest.raises(masters.CannotLease, match="is the login of a grant"):
            snapshots.create(
                jfk, "sale", master="hq", updatable=True, numbers={"id": "lease"}
            )
        snapshots.create(jfk, "sale", master="hq", updatable=True)
        refresh(jfk, "sale")
        run(jfk, "INSERT INTO public.sale VALUES (12, 3, 'new', 1)")
        assert deferred.push(jfk).errors == 0


_NOTED = (
    "CREATE FUNCTION public.noted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER"
    " AS 'BEGIN RETURN NULL; END'"
)
_NOT_FOR_ALL = "REVOKE EXECUTE ON FUNCTION public.noted() FROM PUBLIC"

REACHING = {
    "foreign key": [
        "CREATE TABLE public.line (id int, sale int REFERENCES sale ON DELETE CASCADE)"
    ],
    "runs with the rights of its owner": [
        _NOTED,
        _NOT_FOR_ALL,
        "CREATE TRIGGER n AFTER INSERT ON public.sale EXECUTE FUNCTION public.noted()",
    ],
    "which a default, check or index calls": [
        "CREATE SCHEMA hidden",
        (
            "CREATE FUNCTION hidden.noted() RETURNS text LANGUAGE sql SECURITY DEFINER"
            " AS 'SELECT NULL::text'"
        ),
        "ALTER TABLE public.sale ALTER what SET DEFAULT hidden.noted()",
    ],
    "check": [
        "CREATE SCHEMA hidden",
        (
            "CREATE FUNCTION hidden.fits(text) RETURNS boolean LANGUAGE sql"
            " SECURITY DEFINER AS 'SELECT true'"
        ),
        "ALTER TABLE public.sale ADD CHECK (hidden.fits(what))",
    ],
    "rule": [
        "CREATE RULE r AS ON DELETE TO sale DO ALSO UPDATE public.salary SET pays = 0"
    ],
}


@pytest.mark.parametrize("why", REACHING)
def test_changes_that_reach_further_are_not_granted(
    sites: Directory, store: str, why: str
) -> None:
    hq = sites["hq"]
    run(hq, *REACHING[why])
    publish_sales(hq)
    with pytest.raises(CannotPublish, match=why):
        grant_sales(hq, store)
    run(hq, f'REVOKE TEMPORARY ON DATABASE "{hq.url.database}" FROM {store}')
    grant_sales(hq, store, updatable=False)


def test_logins_that_push_make_temporary_tables_and_no_triggers(
    sites: Directory, store: str
) -> None:
    hq = sites["hq"]
    masters.create_publication(hq, "sales", ["sale"], where={"sale": "id = :id"})
    run(hq, _NOTED)
    with pytest.raises(LoginUnfit, match=r"rights of their owners: public.noted\(\)"):
        masters.grant(
            hq, "sales", "jfk", login=store, parameters={"id": "3"}, updatable=True
        )
    run(hq, _NOT_FOR_ALL)
    run(hq, f'REVOKE TEMPORARY ON DATABASE "{hq.url.database}" FROM {store}')
    with pytest.raises(LoginUnfit, match="may not create temporary tables"):
        masters.grant(
            hq, "sales", "jfk", login=store, parameters={"id": "3"}, updatable=True
        )
