"""Rectify mends what a check has proven to differ, and nothing else."""

from typing import Any

import pytest

import deferred
import snapshots
from deferred.errors import BadOption
from sites import Directory, Site
from snapshots import Kind, PlannedRow, Reason, RectifyReport, Take
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.grouped import found_group, push_all
from tests.integration.test_check import make_odd, make_rows, unseen
from tests.linked_table import as_refresh, parked, queued, run, scalar
from tests.stories import column_groups, refresh, user

pytestmark = pytest.mark.usefixtures("spark")

BASE = 'public."snap$_t"'


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    make_rows(sites)


def corrupt(jfk: Site) -> None:
    """A row that differs, one that only the master has, one that only the site has."""
    as_refresh(
        jfk,
        f"UPDATE {BASE} SET note = 'here', n = 1.0 WHERE id = 1",
        f"DELETE FROM {BASE} WHERE id = 2",
        f"INSERT INTO {BASE} (id, note) VALUES (900, 'here')",
    )


def notes(site: Site) -> dict[int, str | None]:
    """The notes of the rows that `corrupt` is about."""
    return dict(run(site, "SELECT id, note FROM public.t WHERE id IN (1, 2, 900)"))


def mended(site: Site, **options: Any) -> RectifyReport:
    """Rectify, and prove with a check that it has said the truth."""
    report = snapshots.rectify(site, "t", **options)
    assert (report.unexplained, report.waiting) == (0, 0), report
    assert report.mended == report.to_mend
    return report


MASTER = {1: "note 1", 2: "note 2"}
HERE = {1: "here", 900: "here"}


@pytest.mark.parametrize(
    ("options", "there", "here"),
    [
        ({}, MASTER, MASTER),
        ({"extra": "keep"}, MASTER, MASTER | {900: "here"}),
        ({"extra": "merge"}, MASTER | {900: "here"}, MASTER | {900: "here"}),
        ({"missing": "skip"}, MASTER, {1: "note 1"}),
        ({"reference": "site"}, HERE, HERE),
        (
            {"reference": "site", "extra": "keep"},
            HERE | {2: "note 2"},
            HERE,
        ),
        (
            {"reference": "site", "extra": "merge"},
            HERE | {2: "note 2"},
            HERE | {2: "note 2"},
        ),
        (
            {"reference": "site", "missing": "skip"},
            {1: "here"},
            HERE,
        ),
    ],
)
def test_each_reference(hq, jfk, options, there, here):
    corrupt(jfk)
    report = mended(jfk, **options)
    assert (notes(hq), notes(jfk)) == (there, here)
    assert (queued(jfk), parked(hq)) == (0, [])
    check = snapshots.check(jfk, "t")
    assert check.equal == (there == here)
    again = mended(jfk, **options)
    assert again.to_mend == 0
    assert report.snapshots[0].asked + report.snapshots[0].queued == report.to_mend


def test_dry_run_writes_nothing_and_its_rows_are_a_plan(hq, jfk):
    corrupt(jfk)
    dry = snapshots.rectify(jfk, "t", extra="merge", dry_run=True)
    assert (dry.dry_run, dry.to_mend, notes(jfk)) == (True, 3, HERE)
    (one,) = dry.snapshots
    assert {(row.kind, row.take, row.key["id"]) for row in one.rows} == {
        (Kind.DIFFERS, Take.MASTER, "1"),
        (Kind.MISSING, Take.MASTER, "2"),
        (Kind.EXTRA, Take.SITE, "900"),
    }
    (row,) = [row for row in one.rows if row.kind is Kind.DIFFERS]
    assert (row.master or {})["note"] == "note 1"
    assert (row.here or {})["note"] == "here"
    assert scalar(jfk, 'SELECT count(*) FROM snaptide."uslog$_t"') == 0
    edited = [
        PlannedRow(snapshot=row.snapshot, key=row.key, take=Take.SITE)
        for row in one.rows
        if row.key["id"] != "2"
    ]
    assert mended(jfk, plan=edited).to_mend == 2
    assert notes(hq) == {1: "here", 2: "note 2", 900: "here"}
    assert notes(jfk) == HERE
    # What is equal by now is left alone, and so is what is no row at all.
    gone = PlannedRow(snapshot="t", key={"id": "12345"}, take=Take.SITE)
    assert mended(jfk, plan=[*edited, gone]).to_mend == 0
    assert mended(jfk, plan=[]).snapshots == ()


def test_only_some_rows(hq, jfk):
    corrupt(jfk)
    assert mended(jfk, only=[["01"], {"id": "900"}]).to_mend == 2
    assert notes(jfk) == {1: "note 1"}
    with pytest.raises(snapshots.BadPlan, match="has the columns id"):
        snapshots.rectify(jfk, "t", only=[["1", "2"]])
    with pytest.raises(snapshots.BadPlan, match="none of snapshot t"):
        snapshots.rectify(jfk, "t", only=[["one"]])


def test_what_takes_its_course_is_left(hq, jfk):
    corrupt(jfk)
    run(hq, "UPDATE public.t SET note = 'hq' WHERE id = 10")
    run(jfk, "UPDATE public.t SET note = 'jfk' WHERE id IN (1, 11)")
    report = snapshots.rectify(jfk, "t", dry_run=True)
    (one,) = report.snapshots
    assert {(c.kind.value, c.reason.value, c.rows) for c in one.left} == {
        ("differs", "in flight", 1),
        ("differs", "pending", 2),
    }
    assert report.to_mend == 2


def test_a_change_at_the_master_in_between_is_a_conflict(hq, jfk, monkeypatch):
    """Neither the master's new row is lost, nor what the site has sent."""
    corrupt(jfk)
    from snapshots.rectify import mend

    def change_then_refresh(*args: Any, **options: Any) -> Any:
        run(hq, "UPDATE public.t SET note = 'late' WHERE id = 1")
        return snapshots.refresh(*args, **options)

    monkeypatch.setattr(mend, "refresh", change_then_refresh)
    report = snapshots.rectify(jfk, "t", reference="site")
    assert (report.unexplained, notes(hq)[1]) == (0, "late")
    (error,) = deferred.list_errors(hq)
    assert error.origin_user == "rectify"


def test_users_of_the_site_lose_nothing(hq, jfk):
    """A row that a user has locked, or changed since the plan, is left to the user."""
    corrupt(jfk)
    plan = snapshots.rectify(jfk, "t", reference="site", dry_run=True).snapshots[0].rows
    with user(jfk) as someone:
        someone.execute("UPDATE public.t SET n = 5 WHERE id = 1")
        report = snapshots.rectify(jfk, plan=plan)
        assert report.unexplained == 1
        someone.commit()
    report = snapshots.rectify(jfk, plan=plan)
    assert report.to_mend == 0
    refresh(jfk, "t", push_deferred_rpc=True)
    # Its change began with a row that the master never had.
    assert [one.origin_user for one in deferred.list_errors(hq)] != ["rectify"]
    assert notes(hq) == {1: "note 1", 900: "here"}


def test_limit_on_deletes_leaves_nothing_behind_that_stops_refreshes(hq, jfk):
    as_refresh(
        jfk, f"INSERT INTO {BASE} (id) SELECT g FROM generate_series(1001, 1900) g"
    )
    with pytest.raises(snapshots.MassDelete):
        snapshots.rectify(jfk, "t")
    run(hq, "UPDATE public.t SET note = 'hq' WHERE id = 1")
    refresh(jfk, "t")
    assert notes(jfk)[1] == "hq"
    assert mended(jfk, allow_mass_delete=True).to_mend == 900


def test_row_that_the_master_has_outside_the_subset_is_not_overwritten(hq, jfk):
    base = 'public."snap$_customer"'
    as_refresh(jfk, f"INSERT INTO {base} VALUES (2, 2, 'here')")
    before = run(hq, "SELECT * FROM public.customer ORDER BY id")
    report = snapshots.rectify(jfk, "shop", reference="site")
    assert (report.to_mend, run(hq, "SELECT * FROM public.customer ORDER BY id")) == (
        0,
        before,
    )
    (row,) = [row for one in report.snapshots for row in one.rows]
    assert row.take is Take.NOTHING


def test_refusals(hq, jfk):
    corrupt(jfk)
    with pytest.raises(BadOption, match="master, site, newest"):
        snapshots.rectify(jfk, "t", reference="both")
    with pytest.raises(snapshots.NoCommitTimes):
        snapshots.rectify(jfk, "t", reference="newest")
    with pytest.raises(snapshots.UnknownSnapshot):
        snapshots.rectify(jfk, "nope")
    # Other snapshots have rows with this key, too.
    with pytest.raises(BadOption, match="one snapshot"):
        snapshots.rectify(jfk, only=[["1"]])
    run(hq, "CREATE TABLE public.r (id int PRIMARY KEY, v int)")
    run(hq, "INSERT INTO public.r SELECT g, g FROM generate_series(1, 9) g")
    log(hq, "r")
    snapshots.create(jfk, "r", master="hq")
    refresh(jfk, "r")
    as_refresh(jfk, 'UPDATE public."snap$_r" SET v = 0 WHERE id = 1')
    with pytest.raises(snapshots.CannotSend, match="read-only"):
        snapshots.rectify(jfk, "r", reference="site")
    # Nor is anything done for the other group, which comes first.
    with pytest.raises(snapshots.CannotSend, match="read-only"):
        snapshots.rectify(jfk, ["t", "r"], reference="site")
    assert (notes(hq), queued(jfk)) == (MASTER, 0)
    assert snapshots.rectify(jfk, "r").mended == 1


def test_subsets_that_follow_parents(hq, jfk):
    base = 'public."snap$_{}"'.format
    as_refresh(
        jfk,
        f"INSERT INTO {base('customer')} VALUES (2, 2, 'c2')",
        f"UPDATE {base('rental')} SET kind = 'x' WHERE id = 3",
        f"DELETE FROM {base('payment')} WHERE rental_id = 3",
    )
    dry = snapshots.rectify(jfk, "shop", extra="merge", dry_run=True)
    # The master has the customer, outside the subset: a merge would change it.
    assert {row.take for one in dry.snapshots for row in one.rows} == {Take.MASTER}
    report = snapshots.rectify(jfk, "shop", extra="merge")
    assert report.mended == report.to_mend >= 3
    assert snapshots.check(jfk, "shop").equal


def test_master_of_parents_and_children_gets_them_in_order(hq, jfk):
    base = 'public."snap$_{}"'.format
    as_refresh(
        jfk,
        f"INSERT INTO {base('rental')} VALUES (900, 1, 'x')",
        f"INSERT INTO {base('payment')} VALUES (901, 900, 1)",
        f"DELETE FROM {base('payment')} WHERE rental_id = 3",
        f"DELETE FROM {base('rental')} WHERE id = 3",
    )
    report = snapshots.rectify(jfk, "shop", reference="site")
    assert (report.unexplained, parked(hq)) == (0, [])
    assert snapshots.check(jfk, "shop").equal
    assert scalar(hq, "SELECT count(*) FROM public.rental WHERE id IN (3, 900)") == 1


def test_ten_thousand_rows_in_few_statements(hq, jfk, monkeypatch):
    from snapshots.rectify import mend

    run(hq, "CREATE TABLE public.big (id int PRIMARY KEY, v text)")
    run(hq, "INSERT INTO public.big SELECT g, g FROM generate_series(1, 12000) g")
    log(hq, "big")
    snapshots.create(jfk, "big", master="hq", updatable=True)
    refresh(jfk, "big")
    big = 'public."snap$_big"'
    for reference in ("master", "site"):
        monkeypatch.setattr(mend, "PART", 4000)
        as_refresh(jfk, f"UPDATE {big} SET v = v || 'x' WHERE id <= 10000")
        report = snapshots.rectify(jfk, "big", most=5, reference=reference)
        assert (report.mended, len(report.snapshots[0].rows)) == (10000, 5)
        assert snapshots.check(jfk, "big").equal


def test_hostile_names_and_keys_of_two_spellings(hq, jfk):
    name, base = make_odd(hq, jfk)
    for reference in ("master", "site"):
        unseen(
            jfk,
            base,
            f"UPDATE {base} SET \"1\" = 'w' WHERE {name} = 1",
            f"UPDATE {base} SET {name} = 2.00 WHERE {name} = 2",
            f"DELETE FROM {base} WHERE {name} = 3",
        )
        report = snapshots.rectify(jfk, name, reference=reference)
        assert report.mended == report.to_mend == 4
        assert snapshots.check(jfk, name).equal
    spelled = f"SELECT {name}::text FROM public.{name} WHERE {name} = 2"
    assert scalar(hq, spelled) == "2.00"


def test_table_without_key(hq, jfk):
    run(hq, "CREATE TABLE public.k (v int, note text)")
    run(hq, "INSERT INTO public.k SELECT g, 'n' FROM generate_series(1, 9) g")
    log(hq, "k", with_rowid=True)
    snapshots.create(jfk, "k", master="hq", updatable=True)
    refresh(jfk, "k")
    base = 'public."snap$_k"'
    for reference in ("master", "site"):
        as_refresh(
            jfk,
            f"UPDATE {base} SET note = 'x' WHERE v = 1",
            f"DELETE FROM {base} WHERE v = 2",
            f"INSERT INTO {base} (v) VALUES (100)",
        )
        report = snapshots.rectify(jfk, "k", reference=reference)
        assert report.mended == report.to_mend == 3
        assert snapshots.check(jfk, "k").equal
    assert scalar(hq, "SELECT array_agg(v ORDER BY v) FROM public.k") == [
        1, 3, 4, 5, 6, 7, 8, 9, 100,
    ]  # fmt: skip


def test_nothing_is_mended_that_cannot_be_told(hq, jfk):
    corrupt(jfk)
    run(hq, "TRUNCATE public.t")
    report = snapshots.rectify(jfk, "t")
    assert (report.to_mend, report.unproven) == (0, 200)
    assert {c.reason for c in report.snapshots[0].left} == {Reason.UNPROVEN}


def test_rows_of_a_saved_check(hq, jfk):
    corrupt(jfk)
    saved = snapshots.check(jfk, save=True, most=2)
    as_refresh(jfk, f"UPDATE {BASE} SET note = 'later' WHERE id = 20")
    report = mended(jfk, run=saved.run)
    # The check has listed two of its three rows, and has not seen the last one.
    assert report.to_mend == 2
    assert snapshots.check(jfk).unexplained == 2
    assert mended(jfk, run=saved.run).to_mend == 0
    assert snapshots.rectify(jfk, "shop", run=saved.run).snapshots == ()
    with pytest.raises(snapshots.NoSuchCheck):
        snapshots.rectify(jfk, run=999)
    with pytest.raises(BadOption):
        snapshots.rectify(jfk, run=saved.run, only=[["1"]])


def test_column_that_the_site_no_longer_computes(hq, jfk):
    run(jfk, f"ALTER TABLE {BASE} ALTER twice DROP EXPRESSION")
    as_refresh(jfk, f"UPDATE {BASE} SET twice = 0 WHERE id = 7")
    assert mended(jfk).to_mend == 1
    assert scalar(jfk, "SELECT twice FROM public.t WHERE id = 7") == 14


def test_newest(sites_with_commit_times):
    """The side whose row was written last is right, as both databases remember."""
    hq, jfk = sites_with_commit_times["hq"], sites_with_commit_times["jfk"]
    run(hq, "CREATE TABLE public.t (id int PRIMARY KEY, note text)")
    run(hq, "INSERT INTO public.t SELECT g, 'old' FROM generate_series(1, 9) g")
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    as_refresh(
        jfk,
        f"UPDATE {BASE} SET note = 'here' WHERE id IN (1, 2)",
        f"DELETE FROM {BASE} WHERE id = 3",
        f"INSERT INTO {BASE} VALUES (10, 'here')",
    )
    unseen(hq, "public.t", "UPDATE public.t SET note = 'there' WHERE id = 2")
    assert mended(jfk, reference="newest").to_mend == 4
    wanted = [(1, "here"), (2, "there"), (3, "old")]
    for site in (hq, jfk):
        few = "SELECT * FROM public.t WHERE id < 4 OR id = 10 ORDER BY id"
        assert run(site, few) == wanted
    assert snapshots.check(jfk).equal


def test_master_of_a_group_sends_it_on(make_sites):
    sites = make_sites("hq", "lax", "jfk")
    hq, lax, jfk = sites.values()
    found_group(sites, "hq", "lax")
    log(hq, "orders")
    run(hq, "INSERT INTO orders (id, qty) SELECT g, g FROM generate_series(1, 5) g")
    push_all(sites)
    snapshots.create(jfk, "orders", master="hq", updatable=True)
    refresh(jfk, "orders")
    as_refresh(
        jfk,
        'UPDATE public."snap$_orders" SET qty = 100 WHERE id = 1',
        'DELETE FROM public."snap$_orders" WHERE id = 2',
    )
    report = snapshots.rectify(jfk, reference="site")
    assert (report.mended, report.unexplained) == (2, 0)
    push_all(sites)
    wanted = [(1, 100), (3, 3), (4, 4), (5, 5)]
    for site in (hq, lax, jfk):
        assert run(site, "SELECT id, qty FROM orders ORDER BY id") == wanted


def test_rule_settles_a_conflict_with_a_late_change(hq, jfk, monkeypatch):
    """A rule decides about the master's late change as about any user's."""
    corrupt(jfk)
    column_groups(hq, "t", {"note": "overwrite"})
    from snapshots.rectify import mend

    def change_then_refresh(*args: Any, **options: Any) -> Any:
        run(hq, "UPDATE public.t SET note = 'late' WHERE id = 1")
        return snapshots.refresh(*args, **options)

    monkeypatch.setattr(mend, "refresh", change_then_refresh)
    report = mended(jfk, reference="site")
    assert (report.to_mend, notes(hq), notes(jfk)) == (3, HERE, HERE)
    assert snapshots.check(jfk, "t").equal
