"""`snaptide check`: what it prints, and what it ends with."""

import json
from pathlib import Path

import pytest

import snapshots
from sites import Directory, Site
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    run(
        sites["hq"],
        "CREATE TABLE public.t (id int PRIMARY KEY, note text)",
        "INSERT INTO public.t SELECT g, 'n' || g FROM generate_series(1, 9) g",
    )
    log(sites["hq"], "t")
    snapshots.create(sites["jfk"], "t", master="hq", updatable=True)
    refresh(sites["jfk"], "t")


def test_it_says_what_differs_and_ends_with_it(snaptide: Snaptide, jfk: Site) -> None:
    done = snaptide("check", "jfk")
    assert (done.exit_code, "Equal." in done.stdout) == (0, True)
    run(jfk, "UPDATE public.t SET note = 'mine' WHERE id = 1")
    done = snaptide("check", "jfk", "t")
    assert done.exit_code == 0
    assert "All differences are explained." in done.stdout
    as_refresh(jfk, "UPDATE public.\"snap$_t\" SET note = '[bold]x' WHERE id = 2")
    done = snaptide("check", "jfk", "t")
    assert done.exit_code == 1
    assert "note: n2" in done.stdout
    assert "note: [bold]x" in done.stdout
    assert "1 row differs without a reason." in done.stdout
    assert snaptide("check", "jfk", "--where", "id <> 2").exit_code == 0
    assert snaptide("check", "jfk", "--columns", "id").exit_code == 0
    done = snaptide("check", "jfk", "--json", "--max", "1")
    (one,) = json.loads(done.stdout)["snapshots"]
    assert [row["reason"] for row in one["differences"]] == ["unexplained"]
    assert {(c["reason"], c["rows"]) for c in one["counts"]} == {
        ("pending", 1),
        ("unexplained", 1),
    }


def test_what_cannot_be_told_ends_with_3(snaptide: Snaptide, hq: Site) -> None:
    run(hq, "TRUNCATE public.t")
    done = snaptide("check", "jfk")
    assert (done.exit_code, "cannot be told" in done.stdout) == (3, True)


def test_what_is_not_loaded_yet_is_not_called_equal(
    snaptide: Snaptide, hq: Site, jfk: Site, tmp_path: Path
) -> None:
    run(hq, "CREATE TABLE public.u (id int PRIMARY KEY)")
    log(hq, "u")
    snapshots.create(jfk, "u", master="hq")
    page = tmp_path / "check.html"
    done = snaptide("check", "jfk", "--save", "--html", str(page))
    assert (done.exit_code, "Equal. Not compared: u." in done.stdout) == (3, True)
    assert "u: it has not been loaded yet." in done.stdout
    assert "Nothing is proven: it has not been loaded yet." in page.read_text("utf-8")
    report = snapshots.show_check(jfk, 1)
    assert [(one.name, one.equal) for one in report.snapshots] == [
        ("t", True),
        ("u", False),
    ]
    assert (report.equal, report.not_compared) == (False, ("u",))
    done = snaptide("check", "jfk", "u")
    assert done.exit_code == 3
    assert "Nothing was compared. Not compared: u." in done.stdout
    # A check that has not looked at it does not count as one, once it is loaded.
    refresh(jfk, "u")
    found = json.loads(snaptide("doctor", "jfk", "--json").stdout)
    [what] = [one["what"] for one in found if one["subject"] == "u"]
    assert what.startswith("No check of all rows")
    done = snaptide("check", "hq")
    assert (done.exit_code, "Nothing was compared." in done.stdout) == (0, True)


def test_a_snapshot_that_does_not_fit_is_named_and_others_are_compared(
    snaptide: Snaptide, hq: Site, jfk: Site
) -> None:
    run(hq, "CREATE TABLE public.u (id int PRIMARY KEY, note text)")
    log(hq, "u")
    snapshots.create(jfk, "u", master="hq", group="other", updatable=True)
    snapshots.create(jfk, "v", table="u", master="hq", group="t", columns=["id"])
    refresh(jfk, "other")
    refresh(jfk, "t")
    run(hq, "ALTER TABLE public.u RENAME note TO remark")
    report = snapshots.check(jfk)
    assert {one.name: one.equal for one in report.snapshots} == {
        "t": True,
        "u": False,
        "v": True,
    }
    assert (report.equal, report.not_compared) == (False, ("u",))
    done = snaptide("check", "jfk")
    assert (done.exit_code, "Not compared: u." in done.stdout) == (3, True)
    assert "u: u no longer has the column note." in done.stdout
    # In a group with others, too.
    snapshots.create(jfk, "w", table="u", master="hq", group="other", columns=["id"])
    refresh(jfk, "other")
    assert snapshots.check(jfk, "other").not_compared == ("u",)
    assert "SNP-214" in snaptide("check", "jfk", "u").stderr


def test_equal_rows_are_proven_whatever_the_logs_name(
    snaptide: Snaptide, hq: Site, tmp_path: Path
) -> None:
    run(
        hq,
        "CREATE TABLE public.kept AS SELECT * FROM public.t",
        "TRUNCATE public.t",
        "INSERT INTO public.t SELECT * FROM public.kept",
    )
    page = tmp_path / "check.html"
    done = snaptide("check", "jfk", "--html", str(page))
    assert (done.exit_code, "cannot be told" in done.stdout) == (0, False)
    assert "Equal." in done.stdout
    assert "each row that was compared is the same" in page.read_text("utf-8")


def test_wrong_input(snaptide: Snaptide) -> None:
    for wrong, code in (
        (("nope",), "SNP-"),
        (("t", "--columns", "nope"), "SNP-224"),
        (("t", "--where", "nope ="), "SNP-015"),
    ):
        done = snaptide("check", "jfk", *wrong)
        assert (done.exit_code, code in done.stderr) == (1, True)
    assert snaptide("check", "jfk", "--max", "-1").exit_code == 2
