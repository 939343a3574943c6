"""A directory and the tables of its folder: what is done, refused and left alone."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

import folders
import snapshots
from folders import (
    DirectoryBusy,
    DirectoryRefused,
    MassRemoval,
    UnknownFolder,
    tables,
)
from folders.create import CREATION
from sites import Directory, Site, faults
from sites.sessions.exchange import raw
from sites.tables import locks
from tests.fix_commands import Snaptide
from tests.fix_worker import eventually
from tests.foldered import content, left, paths, step
from tests.let_go import WAITS
from tests.linked_table import run


def test_what_no_folder_can_have_is_listed_and_left_alone(
    hq: Site, docs: Path, tmp_path: Path
) -> None:
    (docs / "link").symlink_to(tmp_path)
    (docs / "Y.txt").write_text("Y")
    (docs / "con.txt").write_text("device")
    (docs / "what?").write_text("?")
    (docs / "b").mkdir()
    (docs / "b" / ".snaptide-mine").write_text("")
    os.mkfifo(docs / "pipe")
    Path(os.fsdecode(os.fsencode(docs) + b"/\xff\xfe")).write_text("bytes")
    (docs / ("n" * 250)).write_text("long enough")
    assert left(hq, docs) == {
        "Y.txt": "another name differs only in case or accents",
        "\\xff\\xfe": "its name is not UTF-8",
        "con.txt": "its name is that of a device on Windows",
        "link": "it is a symbolic link",
        "pipe": "it is neither file nor folder",
        "what?": "its name has characters that not every system can have",
        "y.txt": "another name differs only in case or accents",
    }
    assert paths(hq) == ["a/x.txt", "b", "n" * 250, "y.txt"]
    # They are left alone, not taken for removed.
    (docs / "Y.txt").unlink()
    (docs / "link").unlink()
    assert set(left(hq, docs)) == {"\\xff\\xfe", "con.txt", "pipe", "what?"}
    assert (docs / "y.txt").read_text() == "y"


def test_paths_are_no_longer_than_an_index_can_have(hq: Site, docs: Path) -> None:
    """Of names that do not get shorter by compression."""
    deep = docs
    while len(str(deep)) - len(str(docs)) < 2500:
        deep /= secrets.token_hex(40)
    deep.mkdir(parents=True)
    (deep / "fits").write_text("fits")
    (deep / secrets.token_hex(100)).write_text("does not")
    assert [*left(hq, docs).values()] == ["its path is longer than 2600 bytes"]
    (deep / "fits").unlink()
    assert len(left(hq, docs)) == 1


def test_entries_that_lead_out_of_the_directory_are_refused(
    hq: Site, docs: Path, tmp_path: Path
) -> None:
    run(
        hq,
        "INSERT INTO docs_entry (id, path, kind, size, mtime)"
        " SELECT gen_random_uuid(), p, 'folder', 0, now()"
        " FROM unnest('{../out,/tmp/out,a/../../out,a//b}'::text[]) p",
    )
    assert set(left(hq, docs)) == {"../out", "/tmp/out", "a/../../out", "a//b"}
    assert {one.name for one in tmp_path.iterdir()} == {"docs"}

    # Neither through a link that was put where a folder was.
    outside = tmp_path / "outside"
    outside.mkdir()
    other = tmp_path / "other"
    other.mkdir()
    (other / "a").symlink_to(outside)
    assert folders.sync(hq, "docs", other).left["a"] == "it is a symbolic link"
    assert [*outside.iterdir()] == []


def test_a_file_that_both_sides_have_changed_stays_twice(
    hq: Site, docs: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    step(hq, other)
    for n in (1, 2):
        (other / "y.txt").write_text(f"other {n}")
        (docs / "y.txt").write_text(f"docs {n}")
        step(hq, other)
        name = "y (conflict hq).txt" if n == 1 else "y (conflict hq 2).txt"
        assert step(hq, docs).conflicts == [name]
        step(hq, other)
        assert content(docs)["y.txt"] == f"other {n}"
        assert content(docs)[name] == f"docs {n}"
        assert content(docs) == content(other)

    # A name that would be too long with that is cut.
    long = f"{'ä' * 120}.txt"
    for directory in (docs, other):
        (directory / long).write_text(directory.name)
    step(hq, docs)
    [name] = step(hq, other).conflicts
    assert name == f"{'ä' * 118} (conflict hq).txt"
    step(hq, docs)
    assert content(docs)[name] == content(other)[name] == "other"

    # The same on both sides is no conflict; a change beats a removal, on either side.
    (docs / "same").write_text("same")
    (other / "same").write_text("same")
    (docs / "y.txt").unlink()
    (other / "y.txt").write_text("changed")
    (docs / "a" / "x.txt").write_text("changed")
    (other / "a" / "x.txt").unlink()
    step(hq, docs)
    step(hq, other)
    step(hq, docs)
    assert content(docs) == content(other)
    assert content(docs)["y.txt"] == content(docs)["a/x.txt"] == "changed"


def test_folders_come_and_go_with_what_is_in_them(
    hq: Site, docs: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    step(hq, other)
    (docs / "a" / "x.txt").unlink()
    (docs / "a").rmdir()
    (docs / "new").mkdir()
    step(hq, docs)
    step(hq, other)
    assert content(other) == {"new": "/", "y.txt": "y"}
    assert not (other / "a").exists()

    # A folder where a file was, and a file where a folder was.
    (docs / "y.txt").unlink()
    (docs / "y.txt").mkdir()
    (docs / "y.txt" / "z").write_text("z")
    (docs / "new").rmdir()
    (docs / "new").write_text("a file now")
    step(hq, docs)
    step(hq, other)
    assert content(other) == {"new": "a file now", "y.txt/z": "z"}
    (docs / "new").unlink()
    (docs / "new").mkdir()
    step(hq, docs)
    step(hq, other)
    assert content(other) == {"new": "/", "y.txt/z": "z"}


def test_a_folder_here_that_is_a_file_there_is_left_alone(
    hq: Site, docs: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a").write_text("a file")
    (other / "y.txt").mkdir()
    (other / "y.txt" / "z").write_text("z")
    assert left(hq, other) == {
        "a": "it is a file here, and a folder there",
        "a/x.txt": "a is no folder here",
        "y.txt": "it is a folder here, and a file there",
    }
    assert paths(hq) == ["a/x.txt", "y.txt"]


def test_time_and_execution_follow_without_content(
    hq: Site, docs: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    step(hq, other)
    os.utime(docs / "y.txt", ns=(10**18, 10**18))
    (docs / "y.txt").chmod(0o755)
    (docs / "a").rename(docs / "b")
    os.utime(docs / "b" / "x.txt", ns=(2 * 10**18, 2 * 10**18))
    report = step(hq, docs)
    assert (report.sent, report.renamed, report.removed_there) == (0, 1, 0)
    report = step(hq, other)
    assert (report.fetched, report.renamed, report.removed_here) == (0, 1, 0)
    found = (other / "y.txt").stat()
    assert (found.st_mtime_ns, found.st_mode & 0o111) == (10**18, 0o111)
    assert (other / "b" / "x.txt").stat().st_mtime_ns == 2 * 10**18
    (other / "y.txt").chmod(0o644)
    step(hq, other)
    step(hq, docs)
    assert (docs / "y.txt").stat().st_mode & 0o111 == 0


def test_an_unreadable_folder_is_not_taken_for_a_removed_one(
    hq: Site, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def refused(path: Path) -> object:
        if path == docs / "a":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    assert left(hq, docs) == {"a": "it cannot be read: Permission denied"}
    assert paths(hq) == ["a/x.txt", "y.txt"]


def test_many_files_are_not_removed_by_accident(
    hq: Site, docs: Path, tmp_path: Path
) -> None:
    for n in range(40):
        (docs / f"{n}.txt").write_text(str(n))
    assert step(hq, docs).sent == 40
    for n in range(40):
        (docs / f"{n}.txt").unlink()
    with pytest.raises(MassRemoval, match="40 of 42 files would be removed from the"):
        folders.sync(hq, "docs", docs)
    assert step(hq, docs, allow_mass_delete=True).removed_there == 40
    # A directory that is empty, and knows nothing, gets everything.
    empty = tmp_path / "empty"
    assert step(hq, empty).fetched == 2


def test_a_directory_belongs_to_one_folder(
    sites: Directory, docs: Path, tmp_path: Path
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    folders.create(jfk, "docs")
    with pytest.raises(DirectoryRefused, match="synced with folder docs of site hq"):
        folders.sync(jfk, "docs", docs)
    with pytest.raises(DirectoryRefused, match="is not a directory"):
        folders.sync(hq, "docs", tmp_path / "nothing")
    with pytest.raises(UnknownFolder):
        folders.sync(hq, "other", docs)
    with (docs / ".snaptide-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DirectoryBusy):
            folders.sync(hq, "docs", docs)
    (docs / ".snaptide-folder").write_text("{")
    with pytest.raises(DirectoryRefused, match="cannot be read"):
        folders.sync(hq, "docs", docs)


@pytest.mark.parametrize(
    "point", ["folder_sync.before_commit", "folder_sync.after_fetch"]
)
def test_a_sync_that_breaks_off_is_taken_up(
    hq: Site,
    docs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    other = tmp_path / "other"
    step(hq, other)
    (docs / "y.txt").write_text("changed")
    step(hq, docs)
    (other / "new.txt").write_text("new")
    (other / "a").rename(other / "b")
    (other / ".snaptide-new-0").write_text("a piece of a file")
    monkeypatch.setenv("SNAPTIDE_FAULT", f"{point}:error")
    with pytest.raises(faults.InjectedFault):
        folders.sync(hq, "docs", other)
    monkeypatch.delenv("SNAPTIDE_FAULT")
    step(hq, other)
    step(hq, docs)
    expected = {"b/x.txt": "x", "new.txt": "new", "y.txt": "changed"}
    assert content(docs) == content(other) == expected
    assert not (other / ".snaptide-new-0").exists()


def test_commands(snaptide: Snaptide, sites: Directory, tmp_path: Path) -> None:
    made = snaptide.report("folder", "create", "hq", "sales.docs", code=1)
    assert made is None
    run(sites["hq"], "CREATE SCHEMA sales")
    made = snaptide.report("folder", "create", "hq", "sales.docs")
    assert made["chunks"] == "sales.docs_chunk"
    assert snaptide.report("folder", "create", "hq", "sales.docs") == made

    directory = tmp_path / "docs"
    directory.mkdir()
    (directory / "a.txt").write_text("abc")
    line = ("folder", "sync", "hq", "sales.docs", str(directory))
    assert snaptide.report(*line)["sent_bytes"] == 3
    (directory / "a.txt").write_text("abcd")
    (directory / "link").symlink_to("a.txt")
    said = snaptide.said(*line, code=3)
    assert "link        it is a symbolic link" in said
    [size] = snaptide.report("folder", "list", "hq")
    assert (size["name"], size["files"], size["bytes"]) == ("sales.docs", 1, 4)
    assert (size["removed"], size["removed_bytes"]) == (1, 3)
    [old] = snaptide.report("folder", "list", "hq", "sales.docs", "--removed")
    assert (old["path"], old["bytes"], bool(old["removed"])) == ("a.txt", 3, True)
    assert "a.txt" in snaptide.said("folder", "list", "hq", "sales.docs")
    cleaning = ("folder", "clean", "hq", "sales.docs")
    assert snaptide.report(*cleaning)["entries"] == 0
    assert snaptide.report(*cleaning, "--older-than", "0s")["bytes"] == 3
    assert "SNP-600" in snaptide.said("folder", "clean", "jfk", "docs", code=1)
    assert "SNP-005" in snaptide.said("folder", "create", "hq", "n" * 50, code=1)


def test_snapshots_that_show_nothing_yet_are_refused(
    sites: Directory, docs: Path, tmp_path: Path
) -> None:
    for name in ("docs_entry", "docs_chunk"):
        snapshots.create(sites["jfk"], name, master="hq", group="docs", updatable=True)
    with pytest.raises(UnknownFolder, match="has no folder docs"):
        folders.sync(sites["jfk"], "docs", tmp_path)
    with pytest.raises(UnknownFolder, match="has no folder docs"):
        folders.application(sites["jfk"], "docs")


def test_a_directory_is_watched(hq: Site, docs: Path) -> None:
    with closing(folders.watch(hq, "docs", docs, every=timedelta(hours=1))) as reports:
        assert next(reports).sent == 0
        (docs / "new.txt").write_text("new")
        report = next(reports)
        assert (report.sent, report.left) == (1, {})
        (docs / "new.txt").unlink()
        assert next(reports).removed_there == 1
    with closing(folders.watch(hq, "docs", docs, every=timedelta(0))) as reports:
        next(reports)
        run(hq, "UPDATE docs_entry SET path = 'b.txt' WHERE path = 'y.txt'")
        assert next(reports).renamed == 1
    assert (docs / "b.txt").read_text() == "y"


def test_a_watch_waits_for_another_sync(hq: Site, docs: Path) -> None:
    soon = timedelta(seconds=0.1)
    with (
        closing(folders.watch(hq, "docs", docs, every=soon)) as reports,
        ThreadPoolExecutor(1) as beside,
    ):
        with (docs / ".snaptide-lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            coming = beside.submit(next, reports)
            with pytest.raises(TimeoutError):
                coming.result(1)
        assert coming.result(60).left == {}


def test_a_table_of_that_name_is_left_alone(hq: Site) -> None:
    run(hq, "CREATE TABLE docs_entry (id int)")
    with pytest.raises(folders.NoFolderTable, match="lacks"):
        folders.create(hq, "docs")
    run(
        hq,
        "ALTER TABLE docs_entry ADD removed_at timestamptz",
        "CREATE TABLE docs_chunk (id int)",
    )
    folders.create(hq, "others")
    assert [one.name for one in folders.list_folders(hq)] == ["others"]


def test_a_folder_is_created_twice_at_once(hq: Site) -> None:
    """The second waits until the first is there, and finds it."""
    made = tables.named("docs")
    with ThreadPoolExecutor(1) as pool:
        with hq.transaction() as connection:
            locks.wait_turn(connection, CREATION, str(made.folder))
            for statement in tables.definitions(made):
                raw(connection).execute(statement)
            other = pool.submit(folders.create, hq, "docs")
            eventually(lambda: run(hq, WAITS), what="the other one: to wait")
        assert other.result(timeout=60).name == "docs"


def test_creating_that_breaks_off_is_taken_up(
    hq: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for point in ("before_commit:error", "after_log:error", "after_log:error:2"):
        monkeypatch.setenv("SNAPTIDE_FAULT", f"folder_create.{point}")
        with pytest.raises(faults.InjectedFault):
            folders.create(hq, "docs")
    monkeypatch.delenv("SNAPTIDE_FAULT")
    assert json.dumps(folders.create(hq, "docs").name) == '"docs"'
    assert [one.name for one in folders.list_folders(hq)] == ["docs"]
