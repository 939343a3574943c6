"""A check names what it could not compare: groups of a master that is away, columns."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import snapshots
from sites import Directory, Site, configured
from sites.configured import Configuration
from sites.errors import SiteUnreachable
from snapshots import NotAllCompared, RowsDiffer, tasks
from snaptide.cli import app
from tests.fix_sites import log
from tests.fix_worker import WriteSettings
from tests.fix_worlds import prepared_once
from tests.grouped import without
from tests.linked_table import as_refresh, run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "bos", "jfk")
def sites(sites: Directory) -> None:
    """Snapshots of two masters; that of hq has two columns less."""
    for name, table in (("hq", "t"), ("bos", "u")):
        run(
            sites[name],
            f"CREATE TABLE public.{table} (pin int, id int PRIMARY KEY, note text,"
            ' "sec""ret" int)',
            f"INSERT INTO public.{table} (id, note)"
            " SELECT g, 'n' || g FROM generate_series(1, 9) g",
        )
        log(sites[name], table)
    jfk = sites["jfk"]
    snapshots.create(jfk, "t", master="hq", columns=["id", "note"])
    snapshots.create(jfk, "u", master="bos")
    for group in ("t", "u"):
        refresh(jfk, group)


def test_columns_that_a_snapshot_leaves_out_are_named(
    jfk: Site, write_settings: WriteSettings, sites: Directory, tmp_path: Path
) -> None:
    report = snapshots.check(jfk, save=True)
    carried = {one.name: one.not_carried for one in report.snapshots}
    assert carried == {"t": ("pin", 'sec"ret'), "u": ()}
    assert report.equal
    assert snapshots.show_check(jfk, report.run or 0) == report
    [one] = snapshots.check(jfk, "t", columns=["note"]).snapshots
    assert one.not_carried == ("pin", 'sec"ret')
    page = tmp_path / "check.html"
    config = str(write_settings(sites))
    done = CliRunner().invoke(
        app, ["--config", config, "check", "jfk", "--html", str(page)]
    )
    assert (done.exit_code, 't does not have pin, sec"ret' in done.stdout) == (0, True)
    assert "u does not have" not in done.stdout
    assert 'pin, sec"ret' in page.read_text()


def test_the_others_are_checked_if_a_master_is_away(
    sites: Directory, write_settings: WriteSettings, tmp_path: Path
) -> None:
    page = tmp_path / "check.html"
    with without(sites, "bos") as left:
        jfk, config = left["jfk"], str(write_settings(left))
        report = snapshots.check(jfk, save=True)
        assert [one.name for one in report.snapshots] == ["t"]
        assert [*report.away] == ["u"]
        assert "Site bos" in report.away["u"]
        assert (report.equal, report.differing) == (False, 0)
        assert snapshots.show_check(jfk, report.run or 0) == report
        for command in (
            ("check", "jfk", "--html", str(page)),
            ("check", "show", "jfk"),
        ):
            more = ("1",) if "show" in command else ()
            done = CliRunner().invoke(app, ["--config", config, *command, *more])
            assert done.exit_code == 4
            assert "u not compared: Site bos" in done.stdout
            assert "Equal. Not compared: u." in done.stdout
        assert "Site bos" in page.read_text()
        as_refresh(jfk, 'DELETE FROM public."snap$_t" WHERE id = 1')
        done = CliRunner().invoke(app, ["--config", config, "check", "jfk"])
        assert done.exit_code == 1
        assert "1 row differs without a reason. Not compared: u." in done.stdout
        # Nothing is mended if not all can be planned.
        done = CliRunner().invoke(app, ["--config", config, "rectify", "jfk"])
        assert (done.exit_code, "Site bos" in done.stderr) == (4, True)
        assert snapshots.check(jfk, "t").unexplained == 1
        done = CliRunner().invoke(app, ["--config", config, "rectify", "jfk", "t"])
        assert (done.exit_code, "1 row mended." in done.stdout) == (0, True)


def test_nothing_can_be_compared_if_all_masters_are_away(sites: Directory) -> None:
    with without(sites, "bos") as left, pytest.raises(SiteUnreachable, match="bos"):
        snapshots.check(left["jfk"], "u")
    with without(sites, "jfk") as left, pytest.raises(SiteUnreachable, match="jfk"):
        snapshots.check(left["jfk"])


def test_a_schedule_fails_if_a_master_is_away_and_keeps_the_rest(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with without(sites, "bos") as left:
        monkeypatch.setattr(configured, "_current", Configuration(directory=left))
        with pytest.raises(NotAllCompared, match="Group u was not compared: Site bos"):
            tasks.check("jfk")
        [report] = snapshots.list_checks(left["jfk"])
        assert ([one.name for one in report.snapshots], [*report.away]) == (
            ["t"],
            ["u"],
        )
        # What is proven is more than what is not known.
        as_refresh(left["jfk"], 'DELETE FROM public."snap$_t" WHERE id = 1')
        with pytest.raises(RowsDiffer):
            tasks.check("jfk")
