"""Files of two branches and headquarters, as rows and in directories."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import deferred
import folders
from sites import Directory
from tests.foldered import captured, chunks, content, paths, publish, settle, step
from tests.linked_table import parked

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def three(make_sites: Callable[..., Directory]) -> Directory:
    sites = make_sites("hq", "jfk", "lga")
    publish(sites["hq"], sites["jfk"], sites["lga"])
    return sites


def test_files_go_round_whole_and_renamed_folders_move_no_content(
    three: Directory, tmp_path: Path
) -> None:
    hq, jfk, lga = three["hq"], three["jfk"], three["lga"]
    at_hq, at_jfk, at_lga = (tmp_path / name for name in ("hq", "jfk", "lga"))
    at_hq.mkdir()
    (at_hq / "plans" / "old").mkdir(parents=True)
    (at_hq / "empty").mkdir()
    large = os.urandom(2_500_000)
    (at_hq / "plans" / "large.bin").write_bytes(large)
    (at_hq / "plans" / "old" / "läse mich.txt").write_text("x" * 10)
    (at_hq / "run.sh").write_text("#!/bin/sh\n")
    (at_hq / "run.sh").chmod(0o755)
    os.utime(at_hq / "run.sh", ns=(10**18, 10**18))
    assert step(hq, at_hq).sent == 3
    settle(jfk, lga)

    assert step(jfk, at_jfk).fetched == 3
    assert (at_jfk / "plans" / "large.bin").read_bytes() == large
    assert (at_jfk / "empty").is_dir()
    copied = (at_jfk / "run.sh").stat()
    assert (copied.st_mode & 0o111, copied.st_mtime_ns) == (0o111, 10**18)
    report = step(jfk, at_jfk)
    assert (report.sent, report.fetched, report.renamed) == (0, 0, 0)

    (at_jfk / "plans").rename(at_jfk / "archive")
    assert step(jfk, at_jfk).renamed == 2
    assert captured(jfk) == [("docs_entry", "U", 2)]
    settle(jfk, lga)
    step(lga, at_lga)
    assert (at_lga / "archive" / "large.bin").read_bytes() == large
    assert step(hq, at_hq).renamed == 2
    assert not (at_hq / "plans").exists()
    assert content(at_lga / "archive" / "old") == {"läse mich.txt": "x" * 10}

    (at_lga / "archive" / "large.bin").unlink()
    (at_lga / "run.sh").write_text("echo 1\n")
    report = step(lga, at_lga)
    assert (report.removed_there, report.sent) == (1, 1)
    settle(lga, jfk)
    step(jfk, at_jfk)
    assert content(at_jfk) == content(at_lga)
    assert paths(hq) == ["archive/old/läse mich.txt", "empty", "run.sh"]


def test_two_branches_that_write_one_file_offline_keep_both(
    three: Directory, tmp_path: Path
) -> None:
    hq, jfk, lga = three["hq"], three["jfk"], three["lga"]
    at_jfk, at_lga = tmp_path / "jfk", tmp_path / "lga"
    at_jfk.mkdir()
    (at_jfk / "report.odt").write_text("first")
    step(jfk, at_jfk)
    settle(jfk, lga)
    step(lga, at_lga)

    (at_jfk / "report.odt").write_text("of jfk")
    (at_lga / "report.odt").write_text("of lga")
    (at_jfk / "new.txt").write_text("jfk is new")
    (at_lga / "new.txt").write_text("lga is new")
    step(jfk, at_jfk)
    step(lga, at_lga)
    settle(lga, jfk, lga)
    assert parked(hq) == []
    step(jfk, at_jfk)
    step(lga, at_lga)
    expected = {
        "new (jfk).txt": "jfk is new",
        "new.txt": "lga is new",
        "report (jfk).odt": "of jfk",
        "report.odt": "of lga",
    }
    assert content(at_jfk) == content(at_lga) == expected

    # A change beats a removal, and of two names the first one stays.
    (at_jfk / "new.txt").unlink()
    (at_lga / "new.txt").write_text("newer")
    (at_jfk / "report.odt").rename(at_jfk / "a.odt")
    (at_lga / "report.odt").rename(at_lga / "b.odt")
    step(jfk, at_jfk)
    step(lga, at_lga)
    settle(jfk, lga)
    settle(jfk, lga)
    assert parked(hq) == []
    step(jfk, at_jfk)
    step(lga, at_lga)
    assert content(at_jfk) == content(at_lga)
    assert content(at_jfk) == {
        "a.odt": "of lga",
        "new (jfk).txt": "jfk is new",
        "new.txt": "newer",
        "report (jfk).odt": "of jfk",
    }


def test_a_branch_takes_a_part_and_its_content(
    make_sites: Callable[..., Directory], tmp_path: Path
) -> None:
    sites = make_sites("hq", "jfk")
    hq, jfk = sites["hq"], sites["jfk"]
    publish(hq, jfk, where="path LIKE 'jfk/%'")
    at_hq, at_jfk = tmp_path / "hq", tmp_path / "there"
    for name in ("jfk/a", "jfk/b", "lga/a"):
        (at_hq / name).parent.mkdir(parents=True, exist_ok=True)
        (at_hq / name).write_text(name)
    step(hq, at_hq)
    settle(jfk)
    step(jfk, at_jfk)
    assert content(at_jfk) == {"jfk/a": "jfk/a", "jfk/b": "jfk/b"}
    assert (chunks(jfk), chunks(hq)) == (2, 3)
    (at_jfk / "of nobody.txt").write_text("outside")
    said = "it does not lie in the part of the folder that the site has"
    (at_jfk / "jfk" / "c").write_text("jfk/c")
    report = folders.sync(jfk, "docs", at_jfk)
    assert (report.left, report.sent) == ({"of nobody.txt": said}, 1)
    (at_jfk / "of nobody.txt").unlink()
    (at_jfk / "jfk" / "c").unlink()
    step(jfk, at_jfk)

    (at_hq / "jfk" / "a").rename(at_hq / "lga" / "b")
    step(hq, at_hq)
    settle(jfk)
    step(jfk, at_jfk)
    assert content(at_jfk) == {"jfk/b": "jfk/b"}
    # With that of the removed file, until the master is cleaned.
    assert chunks(jfk) == 2


def test_a_site_that_was_away_while_the_master_was_cleaned_loses_nothing(
    three: Directory, tmp_path: Path
) -> None:
    hq, jfk = three["hq"], three["jfk"]
    at_hq, at_jfk = tmp_path / "hq", tmp_path / "jfk"
    at_hq.mkdir()
    (at_hq / "a.txt").write_text("old")
    step(hq, at_hq)
    settle(jfk)
    step(jfk, at_jfk)
    (at_jfk / "a.txt").write_text("written while away")
    step(jfk, at_jfk)

    (at_hq / "a.txt").unlink()
    step(hq, at_hq)
    assert folders.clean(hq, "docs").entries == 0
    cleaned = folders.clean(hq, "docs", older_than=timedelta(0))
    assert (cleaned.entries, cleaned.bytes, chunks(hq)) == (1, 3, 0)

    deferred.push(jfk)
    settle(jfk)
    assert parked(hq) == []
    step(hq, at_hq)
    assert content(at_hq) == {"a.txt": "written while away"}
