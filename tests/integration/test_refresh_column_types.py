"""A column of a master table gets another type, and its snapshots have the former."""

import pytest

import deferred
import snapshots
from sites import Directory
from snapshots.check.report import Reason
from snapshots.differences import comparison
from snapshots.errors import ColumnChanged
from tests.fix_sites import log
from tests.linked_table import application, run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")


def _sites(sites: Directory, kind: str, value: str) -> None:
    run(
        sites["hq"],
        f"CREATE TABLE public.t (id int PRIMARY KEY, v {kind})",
        f"INSERT INTO public.t VALUES (1, {value})",
    )
    log(sites["hq"], "t")
    snapshots.create(sites["jfk"], "t", master="hq", updatable=True)
    refresh(sites["jfk"], "t")


@pytest.mark.parametrize(
    ("kind", "other", "value"),
    [
        ("numeric(6,2)", "numeric(8,4)", "1.2345"),
        ("numeric(6,2)", "numeric", "1.2345"),
        ("numeric(6,2)[]", "numeric(8,4)[]", "'{1.2345}'"),
        ("timestamp(0)", "timestamp(3)", "'2026-01-01 10:00:00.123'"),
        ("date", "timestamp", "'2026-01-01 10:00'"),
        ("real", "float8", "0.123456789012"),
        ("int", "text", "'x'"),
    ],
)
def test_value_that_would_be_rounded_is_refused(
    sites: Directory, kind: str, other: str, value: str
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    _sites(sites, kind, "NULL")
    run(hq, f"ALTER TABLE public.t ALTER v TYPE {other}")
    run(hq, f"UPDATE public.t SET v = {value}")
    for method in "fc":
        with pytest.raises(ColumnChanged, match=r"t\.v is .* at the master"):
            refresh(jfk, "t", method=method)
    run(jfk, "DROP VIEW public.t")
    run(jfk, f'ALTER TABLE public."snap$_t" ALTER v TYPE {other}')
    refresh(jfk, "t")
    assert run(hq, "TABLE public.t") == run(jfk, 'TABLE public."snap$_t"')


@pytest.mark.parametrize(
    ("kind", "other", "value"),
    [
        ("int", "bigint", "7"),
        ("numeric", "int", "7"),
        ("varchar(3)", "text", "'abc'"),
        ("numeric", "numeric(8,4)", "1.2345"),
        ("numeric(8,4)", "numeric(6,2)", "1.23"),
    ],
)
def test_value_that_would_be_the_same_or_refused_comes(
    sites: Directory, kind: str, other: str, value: str
) -> None:
    _sites(sites, kind, "NULL")
    run(sites["hq"], f"ALTER TABLE public.t ALTER v TYPE {other}")
    run(sites["hq"], f"UPDATE public.t SET v = {value}")
    refresh(sites["jfk"], "t")
    assert_equal_to_master(sites["jfk"])


@pytest.mark.parametrize("most", [comparison.SMALL_WINDOW, 0])
def test_row_that_does_not_fit_is_held_back_and_named(
    sites: Directory, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """However many rows there are: a large window passes through tables of texts."""
    monkeypatch.setattr(comparison, "SMALL_WINDOW", most)
    hq, jfk = sites["hq"], sites["jfk"]
    _sites(sites, "varchar(3)", "'abc'")
    run(hq, "ALTER TABLE public.t ALTER v TYPE varchar(9)")
    run(hq, "UPDATE public.t SET v = 'abcdef'", "INSERT INTO public.t VALUES (2, 'b')")
    done = refresh(jfk, "t")["t"]
    assert (done.inserted, done.updated, done.held_back) == (1, 0, 1)
    why = "v: value too long for type character varying(3)"
    assert done.refused == {why: 1}
    assert run(jfk, "SELECT v FROM public.t ORDER BY id") == [("abc",), ("b",)]
    [(said,)] = run(jfk, "SELECT last_error FROM snaptide.refresh_group")
    assert why in str(said)
    run(hq, "UPDATE public.t SET v = 'abd' WHERE id = 1")
    refresh(jfk, "t")
    assert_equal_to_master(jfk)


@pytest.mark.parametrize("most", [comparison.SMALL_WINDOW, 0])
@pytest.mark.parametrize(
    ("kind", "other", "value"),
    [
        ("smallint", "int", "100000"),
        ("int", "bigint", "5000000000"),
        ("public.small", "bigint", "5000000000"),
        ("numeric(6,2)", "numeric(9,2)", "1234567.89"),
        ("numeric(3)", "int", "100000"),
        ("char(3)", "char(9)", "'abcdef'"),
        ("bit(3)", "bit(5)", "B'10101'"),
    ],
)
def test_row_whose_type_is_too_small_is_held_back_and_named(
    sites: Directory,
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    kind: str,
    other: str,
    value: str,
) -> None:
    """The other rows come, by a fast refresh and by a complete one."""
    monkeypatch.setattr(comparison, "SMALL_WINDOW", most)
    hq, jfk = sites["hq"], sites["jfk"]
    for site in (hq, jfk):
        run(site, "CREATE DOMAIN public.small AS smallint")
    _sites(sites, kind, "NULL")
    run(hq, f"ALTER TABLE public.t ALTER v TYPE {other}")
    run(
        hq,
        f"UPDATE public.t SET v = {value}",
        f"INSERT INTO public.t VALUES (2, {value}), (3, NULL)",
    )
    for method, inserted in (("f", 1), ("c", 0)):
        done = refresh(jfk, "t", method=method)["t"]
        assert (done.inserted, done.updated, done.held_back) == (inserted, 0, 2)
        [(why, rows)] = done.refused.items()
        assert why.startswith("v: ")
        assert rows == 2
    assert run(jfk, "TABLE public.t ORDER BY id") == [(1, None), (3, None)]
    report = snapshots.check(jfk, "t")
    [table] = report.snapshots
    assert {one.reason for one in table.differences} == {Reason.REFUSED}
    run(hq, "UPDATE public.t SET v = NULL")
    refresh(jfk, "t")
    assert_equal_to_master(jfk)


def _with_long_keys(sites: Directory, kind: str, other: str, key: str) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        f"CREATE TABLE public.t (id {kind} PRIMARY KEY, v int)",
        "INSERT INTO public.t VALUES ('1', 1), ('2', 2)",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    run(hq, f"ALTER TABLE public.t ALTER id TYPE {other}")
    run(
        hq,
        f"INSERT INTO public.t VALUES ('{key}', 3), ('4', 4)",
        "UPDATE public.t SET v = 7 WHERE id = '1'",
        "DELETE FROM public.t WHERE id = '2'",
    )


@pytest.mark.parametrize("most", [comparison.SMALL_WINDOW, 0])
@pytest.mark.parametrize(
    ("kind", "other", "key"),
    [
        ("int", "bigint", "5000000000"),
        ("varchar(3)", "varchar(9)", "abcdef"),
        ("numeric(3)", "numeric(9)", "123456"),
        ("char(3)", "char(9)", "abcdef"),
    ],
)
def test_key_that_does_not_fit_is_held_back_and_listed(
    sites: Directory,
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    kind: str,
    other: str,
    key: str,
) -> None:
    """The next refreshes look at it again, until it is gone."""
    monkeypatch.setattr(comparison, "SMALL_WINDOW", most)
    hq, jfk = sites["hq"], sites["jfk"]
    _with_long_keys(sites, kind, other, key)
    for method, expected in (("f", (1, 1, 1, 1)), ("f", (0, 0, 0, 1))):
        done = refresh(jfk, "t", method=method)["t"]
        counts = (done.inserted, done.updated, done.deleted, done.held_back)
        assert counts == expected
        [row] = snapshots.list_held(jfk, "t").rows
        assert (row.key[0].strip(), row.by) == (key, "refused")
        assert str(row.why).startswith("id: ")
    report = snapshots.check(jfk, "t")
    [table] = report.snapshots
    assert {one.reason for one in table.differences} == {Reason.REFUSED}
    run(jfk, "UPDATE public.t SET v = 8 WHERE id = '1'")
    assert deferred.push(jfk, "hq").errors == 0
    run(hq, f"DELETE FROM public.t WHERE id = '{key}'")
    refresh(jfk, "t")
    assert snapshots.list_held(jfk, "t").total == 0
    here, there = (run(s, "SELECT id::text, v FROM public.t") for s in (jfk, hq))
    assert sorted(here) == sorted(there) == [("1", 8), ("4", 4)]


def test_nobody_waits_until_there_is_room_for_long_keys(sites: Directory) -> None:
    """A user who has extra keys in an open transaction stops no row that fits."""
    hq, jfk = sites["hq"], sites["jfk"]
    _with_long_keys(sites, "int", "bigint", "5")
    with application(jfk) as user:
        user.execute('LOCK TABLE snaptide."extra$_t" IN ROW EXCLUSIVE MODE')
        done = refresh(jfk, "t")["t"]
        assert (done.inserted, done.updated, done.deleted) == (2, 1, 1)
    run(hq, "INSERT INTO public.t VALUES (5000000000, 5)")
    assert refresh(jfk, "t")["t"].held_back == 1
    assert snapshots.list_held(jfk, "t").rows[0].key == ("5000000000",)


def test_queue_keeps_what_became_longer(sites: Directory) -> None:
    """It was made for shorter values: they are neither rounded nor refused to users."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, n numeric(6,2), v varchar(3))",
        "INSERT INTO public.t VALUES (1, 1.23, 'abc')",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    longer = "ALTER n TYPE numeric(8,4), ALTER v TYPE varchar(9)"
    run(hq, f"ALTER TABLE public.t {longer}")
    run(jfk, "DROP VIEW public.t", f'ALTER TABLE public."snap$_t" {longer}')
    run(jfk, "UPDATE public.\"snap$_t\" SET n = 1.2345, v = 'abcdefg'")
    assert deferred.push(jfk, "hq").errors == 0
    there = run(hq, "SELECT n::text, v FROM public.t")
    assert there == [("1.2345", "abcdefg")]


def test_blanks_at_the_end_are_kept(sites: Directory) -> None:
    """By a refresh, and by the error queue, which hold values as texts."""
    hq, jfk = sites["hq"], sites["jfk"]
    _sites(sites, "bpchar", "'a'")
    run(hq, "UPDATE public.t SET v = 'a  '")
    refresh(jfk, "t")
    length = "SELECT octet_length(v) FROM public.t"
    assert run(jfk, length) == [(3,)]
    run(hq, "UPDATE public.t SET v = 'b'")
    run(jfk, "UPDATE public.t SET v = 'c '")
    assert deferred.push(jfk, "hq").errors == 1
    run(hq, "UPDATE public.t SET v = 'a  '")
    assert [one.applied for one in deferred.retry_errors(hq)] == [True]
    assert run(hq, length) == [(2,)]
