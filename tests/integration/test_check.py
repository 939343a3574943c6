"""A check finds what was planted, and explains all that work under way does."""

from collections import Counter
from typing import Any

import pytest

import deferred
import snapshots
from sites import Directory, Site
from sites.errors import SnaptideError
from sites.names import quoted
from snapshots import CheckReport, Kind, Reason
from snapshots.check import compare
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.integration.test_followed_parents import make_shop
from tests.linked_table import as_refresh, run
from tests.stories import column_groups, refresh, settle, user
from tests.three_masters import ODD

pytestmark = pytest.mark.usefixtures("spark")

T = """
CREATE TABLE public.t (
    id int PRIMARY KEY, n numeric, f float8, note text, blob bytea, at timestamptz,
    js json, twice int GENERATED ALWAYS AS (id * 2) STORED
)
"""
ROWS = """
INSERT INTO public.t SELECT g, g + 0.50, g, 'note ' || g, '\\x00ff', now(), '{"a": 1}'
FROM generate_series(1, 200) g
"""


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    make_rows(sites)


def make_rows(sites: Directory) -> None:
    """A snapshot of many types, and those of `make_shop`."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, T, ROWS)
    log(hq, "t")
    column_groups(hq, "t", {"n": "", "note": ""})
    snapshots.create(jfk, "t", master="hq", updatable=True)
    make_shop(sites)
    refresh(jfk, "t")


def found(site: Site, *names: str, **options: Any) -> dict[tuple[str, str], int]:
    """How many rows differ, by kind and reason."""
    report = snapshots.check(site, names, **options)
    counts: Counter[tuple[str, str]] = Counter()
    for one in report.snapshots:
        for count in one.counts:
            counts[count.kind.value, count.reason.value] += count.rows
    return dict(counts)


def unseen(site: Site, table: str, *statements: str) -> None:
    """Change a table while nothing captures it."""
    names = f"SELECT tgname FROM pg_trigger WHERE tgrelid = '{table}'::regclass"
    triggers = [name for (name,) in run(site, f"{names} AND NOT tgisinternal")]
    off = [f'ALTER TABLE {table} DISABLE TRIGGER "{name}"' for name in triggers]
    run(site, *off, *statements, *(on_again(table, name) for name in triggers))


def on_again(table: str, trigger: str) -> str:
    """The statement that switches a trigger of ours on, as it was."""
    how = "REPLICA" if trigger.endswith("_replica") else "ALWAYS"
    return f'ALTER TABLE {table} ENABLE {how} TRIGGER "{trigger}"'


def planted(site: Site, statement: str) -> CheckReport:
    """Change a base table unseen by capture, and check."""
    as_refresh(site, statement)
    return snapshots.check(site, "t")


CORRUPTIONS = [
    ("DELETE FROM public.{} WHERE id = 7", Kind.MISSING, ()),
    ("INSERT INTO public.{} (id) VALUES (777)", Kind.EXTRA, ()),
    ("UPDATE public.{} SET note = 'x' WHERE id = 7", Kind.DIFFERS, ("note",)),
    ("UPDATE public.{} SET note = NULL WHERE id = 7", Kind.DIFFERS, ("note",)),
    ("UPDATE public.{} SET n = 7.500 WHERE id = 7", Kind.DIFFERS, ("n",)),
    ("UPDATE public.{} SET f = '-0.0' WHERE id = 7", Kind.DIFFERS, ("f",)),
    ("UPDATE public.{} SET f = 'NaN' WHERE id = 7", Kind.DIFFERS, ("f",)),
    (
        "UPDATE public.{} SET at = at + interval '1 microsecond' WHERE id = 7",
        Kind.DIFFERS,
        ("at",),
    ),
    (r"UPDATE public.{} SET blob = '\x00fe' WHERE id = 7", Kind.DIFFERS, ("blob",)),
    ("UPDATE public.{} SET js = '{{\"a\":1}}' WHERE id = 7", Kind.DIFFERS, ("js",)),
    (
        "UPDATE public.{} SET note = 'no\u0301te', n = 1 WHERE id = 7",
        Kind.DIFFERS,
        ("n", "note"),
    ),
]


@pytest.mark.parametrize(("statement", "kind", "columns"), CORRUPTIONS)
def test_what_was_planted_at_the_site_is_found(jfk, statement, kind, columns):
    report = planted(jfk, statement.format('"snap$_t"'))
    (one,) = report.snapshots
    (difference,) = one.differences
    assert (difference.kind, difference.columns) == (kind, columns)
    assert difference.reason is Reason.UNEXPLAINED
    assert difference.key == {"id": "777" if kind is Kind.EXTRA else "7"}
    assert (report.unexplained, report.equal, one.unproven) == (1, False, None)


def test_a_generated_column_that_the_site_computes_otherwise(jfk):
    run(jfk, 'ALTER TABLE public."snap$_t" ALTER COLUMN twice DROP EXPRESSION')
    report = planted(jfk, 'UPDATE public."snap$_t" SET twice = 15 WHERE id = 7')
    [difference] = report.snapshots[0].differences
    assert (difference.reason, difference.columns) == (Reason.UNEXPLAINED, ("twice",))
    assert (difference.master, difference.here) == ({"twice": "14"}, {"twice": "15"})
    assert found(jfk, "t", columns=["n"]) == {}


def test_a_generated_column_that_the_master_computes_otherwise(hq, jfk):
    run(hq, "ALTER TABLE public.t ALTER COLUMN twice DROP EXPRESSION")
    with pytest.raises(snapshots.ColumnChanged, match="The master now generates"):
        snapshots.check(jfk, "t")


def test_rows_that_a_unique_key_would_have_kept_out(jfk):
    """A row is there twice: it is neither lost in the sums nor paired with itself."""
    run(jfk, 'ALTER TABLE public."snap$_t" DROP CONSTRAINT "snap$_t_pkey"')
    again = 'SELECT id, n, f, note, blob, at, js FROM public."snap$_t" WHERE id = 7'
    report = planted(jfk, f'INSERT INTO public."snap$_t" {again}')
    [difference] = report.snapshots[0].differences
    assert (difference.kind, difference.reason) == (Kind.EXTRA, Reason.UNEXPLAINED)
    assert difference.key == {"id": "7"}


def test_equal_sides_are_equal(jfk):
    report = snapshots.check(jfk)
    assert report.equal
    assert [(one.name, one.rows_here) for one in report.snapshots] == [
        ("customer", 3),
        ("payment", 36),
        ("rental", 12),
        ("t", 200),
    ]


def test_values_of_two_rows_that_were_swapped(jfk):
    swap = "UPDATE public.\"snap$_t\" SET note = 'note ' || 15 - id WHERE id IN (7, 8)"
    (one,) = planted(jfk, swap).snapshots
    assert [row.key for row in one.differences] == [{"id": "7"}, {"id": "8"}]
    assert one.differences[0].master == {"note": "note 7"}
    assert one.differences[0].here == {"note": "note 8"}


def test_what_was_planted_at_the_master_is_found(hq, jfk):
    unseen(
        hq,
        "public.t",
        "UPDATE public.t SET note = 'unseen' WHERE id = 1",
        "DELETE FROM public.t WHERE id = 2",
        "INSERT INTO public.t (id) VALUES (500)",
    )
    assert found(jfk, "t") == {
        (k, "unexplained"): 1 for k in ("differs", "extra", "missing")
    }
    # And it stays, whatever is captured of other rows.
    run(hq, "UPDATE public.t SET note = 'seen' WHERE id = 3")
    counts = found(jfk, "t")
    assert counts.pop(("differs", "in flight")) == 1
    refresh(jfk, "t")
    assert found(jfk, "t") == counts
    refresh(jfk, "t", method="c")
    assert found(jfk, "t") == {}


def test_work_under_way_explains(hq, jfk):
    run(hq, "UPDATE public.t SET note = 'hq' WHERE id IN (1, 2)")
    run(hq, "DELETE FROM public.t WHERE id = 3", "INSERT INTO public.t VALUES (300)")
    assert found(jfk, "t") == {
        ("differs", "in flight"): 2,
        ("extra", "in flight"): 1,
        ("missing", "in flight"): 1,
    }
    run(jfk, "UPDATE public.t SET note = 'jfk' WHERE id IN (2, 4)")
    run(jfk, "DELETE FROM public.t WHERE id = 5", "INSERT INTO public.t VALUES (400)")
    report = snapshots.check(jfk, "t")
    pending = [
        (row.kind.value, row.key["id"])
        for row in report.snapshots[0].differences
        if row.reason is Reason.PENDING
    ]
    assert sorted(pending) == [
        ("differs", "2"),
        ("differs", "4"),
        ("extra", "400"),
        ("missing", "5"),
    ]
    assert all(
        row.transaction and row.since
        for row in report.snapshots[0].differences
        if row.reason is Reason.PENDING
    )
    assert deferred.push(jfk, "hq").errors == 1
    counts = snapshots.check(jfk, "t").snapshots[0]
    assert counts.rows(Reason.PARKED) == 2  # both rows of that transaction
    assert counts.rows(Reason.UNEXPLAINED) == counts.rows(Reason.PENDING) == 0
    (number,) = {
        row.detail for row in counts.differences if row.reason is Reason.PARKED
    }
    assert number == f"error {deferred.list_errors(hq)[0].id}"
    refresh(jfk, "t")
    assert snapshots.check(jfk, "t").equal


def test_rows_that_a_refresh_left_alone(hq, jfk):
    run(hq, "UPDATE public.t SET note = 'hq' WHERE id IN (1, 2)")
    run(jfk, "ALTER TABLE public.\"snap$_t\" ADD CHECK (id <> 2 OR note <> 'hq')")
    with user(jfk) as someone:
        someone.execute("SELECT FROM public.t WHERE id = 1 FOR UPDATE")
        refresh(jfk, "t")
        held, refused = snapshots.check(jfk, "t").snapshots[0].differences
    assert (held.key, held.reason) == ({"id": "1"}, Reason.HELD_BACK)
    assert held.detail == "locked"
    assert (refused.key, refused.reason) == ({"id": "2"}, Reason.REFUSED)
    assert "check constraint" in str(refused.detail)
    # An earlier version did not note what held a row.
    run(jfk, "UPDATE snaptide.extra$_t SET reason = 'held' WHERE k1 = 1")
    held, _ = snapshots.check(jfk, "t").snapshots[0].differences
    assert (held.reason, held.detail) == (Reason.HELD_BACK, None)


def test_a_child_that_was_left_alone_with_its_parent(hq, jfk):
    run(hq, "INSERT INTO public.customer VALUES (900, 1, 'c')")
    run(hq, "INSERT INTO public.rental VALUES (999, 900)")
    run(jfk, 'ALTER TABLE public."snap$_customer" ADD CHECK (id <> 900)')
    refresh(jfk, "shop")
    [parent] = snapshots.check(jfk, "customer").snapshots[0].differences
    assert parent.reason is Reason.REFUSED
    [child] = snapshots.check(jfk, "rental").snapshots[0].differences
    assert (child.key, child.reason) == ({"id": "999"}, Reason.HELD_BACK)
    assert child.detail == "without parent in customer"


def test_rows_that_leave_with_their_parent(hq, jfk):
    run(jfk, "UPDATE public.payment SET amount = 0 WHERE id = 8")
    run(hq, "UPDATE public.customer SET store_id = 2 WHERE id = 1")
    assert found(jfk, "shop") == {
        ("extra", "outside the subset"): 1 + 4 + 11,
        ("extra", "pending"): 1,
    }
    refresh(jfk, "shop")
    # The payment holds its rental, which holds the customer.
    assert found(jfk, "shop") == {("extra", "pending"): 1, ("extra", "leaving"): 2}
    settle(jfk)
    assert snapshots.check(jfk, "shop").equal


def test_a_row_outside_the_subset_that_nobody_brought(hq, jfk):
    as_refresh(jfk, "INSERT INTO public.\"snap$_customer\" VALUES (2, 2, 'c2')")
    (difference,) = snapshots.check(jfk, "customer").snapshots[0].differences
    assert difference.reason is Reason.UNEXPLAINED
    assert difference.detail == "the master has the row, outside the subset"


def test_a_false_parent_at_the_site_does_not_make_its_children_look_false(hq, jfk):
    """A refresh takes the parent for unmoved, since both sides are the same now."""
    run(hq, "UPDATE public.customer SET store_id = 2 WHERE id = 1")
    as_refresh(jfk, 'UPDATE public."snap$_customer" SET store_id = 2 WHERE id = 1')
    counts = found(jfk, "rental", "payment")
    assert counts == {("extra", "outside the subset"): 4 + 12}


def test_nothing_is_proven_without_a_log(hq, jfk):
    run(hq, "CREATE TABLE public.u (id int PRIMARY KEY, v int)")
    run(hq, "INSERT INTO public.u SELECT g, g FROM generate_series(1, 9) g")
    log(hq, "u")
    snapshots.create(jfk, "u", master="hq")
    (one,) = snapshots.check(jfk, "u").snapshots
    assert one.unproven == "it has not been loaded yet"
    refresh(jfk, "u")
    run(hq, "TRUNCATE public.u", "INSERT INTO public.u VALUES (10, 1)")
    report = snapshots.check(jfk, "u")
    assert (report.unproven, report.unexplained) == (10, 0)
    assert "compares all rows" in str(report.snapshots[0].unproven)


def test_some_rows_and_some_columns(hq, jfk):
    as_refresh(
        jfk,
        "UPDATE public.\"snap$_t\" SET note = 'x', n = 999 WHERE id = 7",
        'DELETE FROM public."snap$_t" WHERE id = 150',
    )
    everything = {("differs", "unexplained"): 1, ("missing", "unexplained"): 1}
    assert found(jfk, "t") == everything
    assert found(jfk, "t", columns=["f"]) == {("missing", "unexplained"): 1}
    (one,) = snapshots.check(jfk, "t", columns=["note"], where="id < 100").snapshots
    assert (one.rows_master, one.rows_here) == (99, 99)
    assert [row.columns for row in one.differences] == [("note",)]
    # The row fulfils it at one side alone.
    for side in ("t.n < 10", "t.n = 999"):
        assert found(jfk, "t", where=side) == {("differs", "unexplained"): 1}
    assert found(jfk, "t", where="n BETWEEN 10 AND 11") == {}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"columns": ["nope"]}, "SNP-224"),
        ({"where": "nope = 1"}, "SNP-015"),
        ({"where": "id = 1); DROP TABLE t; --"}, "SNP-015"),
        ({"where": "at < now()"}, "SNP-016"),
        ({"where": "EXISTS (SELECT FROM customer c WHERE c.id = t.id)"}, "SNP-270"),
        ({"where": "store_id = 1"}, "SNP-015"),
    ],
)
def test_what_cannot_be_asked(jfk, options, says):
    with pytest.raises(SnaptideError) as refused:
        snapshots.check(jfk, "t", **options)
    assert refused.value.code == says


def test_unknown_names(jfk):
    with pytest.raises(snapshots.UnknownSnapshot, match="nope"):
        snapshots.check(jfk, ["t", "nope"])


def test_counts_are_exact_and_the_list_is_not_longer_than_asked(hq, jfk):
    run(hq, "UPDATE public.t SET note = repeat('long', 1000) WHERE id < 100")
    as_refresh(jfk, "UPDATE public.\"snap$_t\" SET note = 'x' WHERE id >= 100")
    (one,) = snapshots.check(jfk, "t", most=5).snapshots
    assert (one.rows(Reason.IN_FLIGHT), one.unexplained) == (99, 101)
    assert [row.reason for row in one.differences] == [Reason.UNEXPLAINED] * 5
    (one,) = snapshots.check(jfk, "t", most=150).snapshots
    cut = str((one.differences[-1].master or {})["note"])
    assert len(cut) < 250
    assert cut.endswith("long… (4000 characters)")


def test_executors_compare_what_is_large(hq, jfk, monkeypatch):
    monkeypatch.setattr("snapshots.differences.comparison.SMALL_WINDOW", 2)
    monkeypatch.setattr("snapshots.differences.comparison.ALWAYS_FEW", 1)
    monkeypatch.setattr(compare, "SLICE", 10)
    run(hq, "UPDATE public.t SET note = 'hq' WHERE id < 40")
    as_refresh(jfk, 'UPDATE public."snap$_t" SET n = 1 WHERE id > 180')
    assert found(jfk, "t") == {
        ("differs", "in flight"): 39,
        ("differs", "unexplained"): 20,
    }
    assert found(jfk, "t", where="id < 10") == {("differs", "in flight"): 9}


def make_odd(hq: Site, jfk: Site) -> tuple[str, str]:
    """A table with such names and keys; its quoted name, and its base table at jfk."""
    name = quoted(ODD)
    run(
        hq,
        f"CREATE TABLE public.{name} ({name} numeric, b bytea, c bpchar, d bool,"
        f' "1" text, PRIMARY KEY ({name}, b, c, d))',
        f"INSERT INTO public.{name} SELECT g, '\\x01', 'x  ', true, 'v'"
        " FROM generate_series(1, 9) g",
    )
    log(hq, name)
    snapshots.create(jfk, name, master="hq", updatable=True)
    refresh(jfk, name)
    base = run(jfk, "SELECT base_table FROM snaptide.snapshot ORDER BY name DESC")[0][0]
    return name, "public." + quoted(base)


def test_hostile_names_and_keys_of_all_kinds(hq, jfk):
    name, base = make_odd(hq, jfk)
    assert snapshots.check(jfk, name).equal
    unseen(
        jfk,
        base,
        f"UPDATE {base} SET \"1\" = 'w' WHERE {name} = 1",
        f"UPDATE {base} SET {name} = 2.00 WHERE {name} = 2",
    )
    run(hq, f"UPDATE public.{name} SET \"1\" = 'z' WHERE {name} = 3")
    (one,) = snapshots.check(jfk, name).snapshots
    assert {
        (row.kind.value, row.reason.value, row.key[ODD]) for row in one.differences
    } == {
        ("differs", "unexplained", "1"),
        ("missing", "unexplained", "2"),
        ("extra", "unexplained", "2.00"),
        ("differs", "in flight", "3"),
    }
    assert one.differences[-1].key == {ODD: "3", "b": "\\x01", "c": "x  ", "d": "true"}


def test_nothing_is_written(hq, jfk):
    def written() -> list[Any]:
        wal = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables"
        return [run(one, wal) for one in (hq, jfk)]

    as_refresh(jfk, 'DELETE FROM public."snap$_t" WHERE id = 1')
    run(hq, "SELECT pg_stat_force_next_flush()")
    run(jfk, "SELECT pg_stat_force_next_flush()")
    before = written()
    snapshots.check(jfk)
    assert written() == before
