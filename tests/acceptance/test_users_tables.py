"""What users' tables are made of does not get in the way: triggers, domains, growth."""

import pytest

import deferred
import masters
import snapshots
from sites import Directory
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh, settle

pytestmark = pytest.mark.usefixtures("spark")

#: A trigger that names its table as users do, without a schema.
AUDITED = (
    "CREATE TABLE public.audit (id int)",
    (
        "CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO audit VALUES (NEW.id); RETURN NEW; END'"
    ),
)


def test_triggers_find_what_they_name_as_users_do(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE TABLE public.t (id int PRIMARY KEY, a text)", *AUDITED)
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    run(
        hq,
        "CREATE TRIGGER note BEFORE INSERT OR UPDATE ON public.t"
        " FOR EACH ROW EXECUTE FUNCTION public.note()",
    )
    run(
        jfk,
        *AUDITED,
        'CREATE TRIGGER note BEFORE INSERT OR UPDATE ON public."snap$_t"'
        " FOR EACH ROW EXECUTE FUNCTION public.note()",
    )

    run(jfk, "INSERT INTO t VALUES (1, 'site')")
    assert deferred.push(jfk).errors == 0
    run(hq, "INSERT INTO t VALUES (2, 'hq')")
    settle(jfk)

    assert_equal_to_master(jfk)
    assert run(hq, "SELECT id FROM public.audit ORDER BY id") == [(1,), (2,)]
    assert run(jfk, "SELECT id FROM public.audit ORDER BY id") == [(1,), (2,)]


def test_domains_may_refuse_null(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    for site in (hq, jfk):
        run(
            site, "CREATE DOMAIN public.code AS varchar(5) NOT NULL CHECK (VALUE <> '')"
        )
    run(hq, "CREATE TABLE public.t (id public.code PRIMARY KEY, a public.code)")
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")

    run(jfk, "INSERT INTO public.t VALUES ('a', 'x'), ('b', 'y')")
    run(hq, "INSERT INTO public.t VALUES ('c', 'z')")
    settle(jfk)
    run(jfk, "DELETE FROM public.t WHERE id = 'a'", "UPDATE public.t SET a = 'v'")
    settle(jfk)
    run(hq, "DELETE FROM public.t WHERE id = 'b'")
    settle(jfk)

    assert run(jfk, "SELECT id, a FROM public.t") == [("c", "v")]
    assert_equal_to_master(jfk)
    run(hq, "TRUNCATE public.t")


def test_a_conflict_over_keys_of_a_domain_is_parked(sites: Directory) -> None:
    """Staged values have no domain, and records of both are not to be compared."""
    hq, jfk = sites["hq"], sites["jfk"]
    for site in (hq, jfk):
        run(site, "CREATE DOMAIN public.code AS text")
    run(
        hq,
        "CREATE TABLE public.p (id public.code PRIMARY KEY, v int)",
        "CREATE TABLE public.c (id int PRIMARY KEY,"
        " p public.code REFERENCES public.p ON UPDATE CASCADE)",
        "INSERT INTO public.p VALUES ('a', 1), ('b', 1)",
        "INSERT INTO public.c VALUES (1, 'a')",
    )
    log(hq, "p", "c")
    for name in ("p", "c"):
        snapshots.create(jfk, name, master="hq", group="g", updatable=True)
    refresh(jfk, "g")
    run(hq, "UPDATE public.p SET v = 2 WHERE id = 'b'")
    run(jfk, "UPDATE public.p SET v = 3 WHERE id = 'b'")
    assert deferred.push(jfk).errors == 1
    run(jfk, "UPDATE public.p SET id = 'z' WHERE id = 'a'")
    assert deferred.push(jfk).errors == 0
    assert run(hq, "SELECT id, p FROM public.c") == [(1, "z")]


def test_a_key_may_grow_under_its_log(sites: Directory) -> None:
    hq = sites["hq"]
    run(
        hq,
        "CREATE TABLE public.t"
        " (a int, b varchar(2), c numeric(3), PRIMARY KEY (a, b, c))",
    )
    masters.create_snapshot_log(hq, "t")
    run(
        hq,
        "ALTER TABLE public.t ALTER a TYPE bigint, ALTER b TYPE text,"
        " ALTER c TYPE numeric",
        "INSERT INTO public.t VALUES (5000000000, 'longer', 12345.678)",
        "UPDATE public.t SET a = a + 1",
    )
    assert run(
        hq, "SELECT k1, k2, k3::text FROM snaptide.\"mlog$_t\" WHERE kind = 'D'"
    ) == [(5000000000, "longer", "12345.678")]
