"""`snaptide rectify`: what it prints, its plan files, and what it ends with."""

import json
from pathlib import Path

import pytest

import snapshots
from sites import Directory, Site
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, run, scalar
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

#: A key that a file and a command line have to quote.
ODD = 'a "b",\n[bold]\\c\x7f'


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    run(
        sites["hq"],
        "CREATE TABLE public.t (code text PRIMARY KEY, note text)",
        "INSERT INTO public.t SELECT 'k' || g, 'n' || g FROM generate_series(1, 9) g",
    )
    log(sites["hq"], "t")
    snapshots.create(sites["jfk"], "t", master="hq", updatable=True)
    refresh(sites["jfk"], "t")


def corrupt(jfk: Site) -> None:
    odd = ODD.replace("'", "''")
    as_refresh(
        jfk,
        "UPDATE public.\"snap$_t\" SET note = NULL WHERE code = 'k1'",
        "DELETE FROM public.\"snap$_t\" WHERE code = 'k2'",
        f"INSERT INTO public.\"snap$_t\" VALUES ('{odd}', 'here')",
    )


def test_it_shows_what_it_would_do_and_does_it(snaptide: Snaptide, jfk: Site) -> None:
    corrupt(jfk)
    done = snaptide("rectify", "jfk", "--dry-run")
    assert (done.exit_code, "3 rows would be mended." in done.stdout) == (3, True)
    assert "note: NULL" in done.stdout
    assert snaptide("check", "jfk").exit_code == 1
    done = snaptide("rectify", "jfk", "t", "--extra", "keep", "--only", "k1", "--json")
    (one,) = json.loads(done.stdout)["snapshots"]
    assert (done.exit_code, one["asked"], one["still"]) == (0, 1, [])
    assert snaptide("check", "jfk", "--save").exit_code == 1
    done = snaptide("rectify", "jfk", "1", "t")
    assert (done.exit_code, "2 rows mended." in done.stdout) == (0, True)
    assert snaptide("check", "jfk").exit_code == 0
    done = snaptide("rectify", "jfk")
    assert (done.exit_code, "0 rows mended." in done.stdout) == (0, True)


def test_what_is_not_loaded_yet_is_named(
    snaptide: Snaptide, hq: Site, jfk: Site
) -> None:
    """A refresh fills it: there is nothing to be mended in it."""
    run(hq, "CREATE TABLE public.u (id int PRIMARY KEY)")
    log(hq, "u")
    snapshots.create(jfk, "u", master="hq")
    done = snaptide("rectify", "jfk", "u")
    assert (done.exit_code, "Not loaded yet: u." in done.stdout) == (3, True)
    corrupt(jfk)
    done = snaptide("rectify", "jfk")
    said = "3 rows mended. Not loaded yet: u."
    assert (done.exit_code, said in done.stdout) == (3, True)
    assert snapshots.rectify(jfk, "u", dry_run=True).not_loaded == ("u",)


def test_plan_is_written_edited_and_applied(
    snaptide: Snaptide, hq: Site, jfk: Site, tmp_path: Path
) -> None:
    corrupt(jfk)
    file = tmp_path / "plan.toml"
    done = snaptide("rectify", "jfk", "--plan", str(file))
    assert (done.exit_code, f"--apply {file}" in done.stdout) == (3, True)
    text = file.read_text("utf-8")
    assert text.count('take = "master"') == 3
    # The second row is the one that the site lacks, the third that the master lacks.
    rows = text.split("[[row]]")
    (extra,) = [row for row in rows if 'kind = "extra"' in row]
    (missing,) = [row for row in rows if 'kind = "missing"' in row]
    text = text.replace(extra, extra.replace('take = "master"', 'take = "site"'))
    text = text.replace(missing, missing.replace('"master"', '"nothing"'))
    file.write_text(text, "utf-8")
    done = snaptide("rectify", "jfk", "--apply", str(file))
    assert (done.exit_code, "2 rows mended." in done.stdout) == (0, True), done.output
    assert scalar(hq, "SELECT code FROM public.t WHERE note = 'here'") == ODD
    assert scalar(jfk, "SELECT count(*) FROM public.t WHERE code = 'k2'") == 0
    assert snaptide("rectify", "jfk", "--apply", str(file)).exit_code == 0


def test_rows_that_differ_still_for_a_reason_end_with_3(
    snaptide: Snaptide, hq: Site, jfk: Site
) -> None:
    corrupt(jfk)
    run(jfk, "ALTER TABLE public.\"snap$_t\" ADD CHECK (code <> 'k2')")
    done = snaptide("rectify", "jfk", "t", "--extra", "keep")
    assert (done.exit_code, "1 refused here" in done.stdout) == (3, True), done.output
    run(hq, "TRUNCATE public.t")
    done = snaptide("rectify", "jfk")
    assert (done.exit_code, "cannot be told" in done.stdout) == (3, True)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("site = 'lga'", "SNP-275"),
        ("site = 'jfk'\nrow = 1", "SNP-275"),
        ("site = 'jfk'\n[[row]]\nsnapshot = 't'", "SNP-275"),
        (
            "site = 'jfk'\n[[row]]\nsnapshot = 't'\nkey = {code = 'x'}\ntake = 'x'",
            "SNP-275",
        ),
        (
            "site = 'jfk'\n[[row]]\nsnapshot = 't'\nkey = {id = 'x'}\ntake = 'site'",
            "SNP-275",
        ),
        (
            "site = 'jfk'\n[[row]]\nsnapshot = 'no'\nkey = {id = 'x'}\ntake = 'site'",
            "SNP-2",
        ),
        ("=", "SNP-275"),
    ],
)
def test_wrong_plans(snaptide: Snaptide, tmp_path: Path, text: str, code: str) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(text, "utf-8")
    done = snaptide("rectify", "jfk", "--apply", str(file))
    assert (done.exit_code, code in done.stderr) == (1, True), done.output


def test_wrong_input(snaptide: Snaptide, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text("site = 'jfk'", "utf-8")
    apply = ("--apply", str(tmp_path / "plan.toml"))
    for wrong in (
        ("--reference", "x"),
        ("--apply", "nope.toml"),
        ("t", *apply),
        ("--reference", "site", *apply),
        ("--extra", "keep", *apply),
        ("--missing", "skip", *apply),
    ):
        assert snaptide("rectify", "jfk", *wrong).exit_code == 2
    # It stands in the file what to take.
    done = snaptide("rectify", "jfk", "--reference", "site", *apply)
    assert "leave --reference out" in done.stderr


@pytest.mark.parametrize("key", ['"k1', "k1\nk2"])
def test_a_key_that_is_not_quoted_as_it_should(snaptide: Snaptide, key: str) -> None:
    done = snaptide("rectify", "jfk", "t", "--only", key)
    assert (done.exit_code, "in double quotes" in done.stderr) == (2, True)


def test_a_plan_that_cannot_be_written_is_refused_before(
    snaptide: Snaptide, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "rectify", None)
    for path in (tmp_path / "missing" / "plan.toml", tmp_path):
        assert snaptide("rectify", "jfk", "--plan", str(path)).exit_code == 2
