"""What a sync must not lose, overwrite or show: files, and their changes."""

from __future__ import annotations

import json
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import folders
from folders import DirectoryRefused, entries, here
from folders.entries import Entry
from sites import Site, faults
from sites.sessions import identity
from tests.foldered import content, left, step
from tests.linked_table import run


def test_a_file_written_before_its_time_is_set_is_not_taken_for_the_old_one(
    hq: Site, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    step(hq, other)
    os.utime(docs / "y.txt", ns=(10**18, 10**18))
    step(hq, docs)
    read = entries.read

    def after_a_write(*given: Any) -> list[Entry]:
        (other / "y.txt").write_text("written after the scan")
        return read(*given)

    with monkeypatch.context() as patch:
        patch.setattr(entries, "read", after_a_write)
        assert set(left(hq, other)) == {"y.txt"}
    _later(other)
    assert step(hq, other).sent == 1
    step(hq, docs)
    assert content(docs)["y.txt"] == "written after the scan"


def test_a_change_that_shows_in_nothing_but_content_is_not_forgotten(
    hq: Site, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = (docs / "y.txt").stat().st_mtime_ns
    (docs / "y.txt").write_text("z")
    os.utime(docs / "y.txt", ns=(written, written))
    with monkeypatch.context() as patch:
        patch.setattr(faults, "_hits", Counter())
        patch.setenv("SNAPTIDE_FAULT", "folder_sync.after_fetch:error")
        with pytest.raises(faults.InjectedFault):
            folders.sync(hq, "docs", docs)
    _later(docs)
    assert step(hq, docs).sent == 1
    step(hq, tmp_path / "other")
    assert content(tmp_path / "other")["y.txt"] == "z"


def test_a_file_whose_time_was_set_back_is_sent(
    hq: Site, docs: Path, tmp_path: Path
) -> None:
    """As containers of encrypted files are: their size and time are always the same."""
    other = tmp_path / "other"
    step(hq, docs)
    step(hq, other)
    _later(docs)
    _write_at_the_same_time(docs / "y.txt", "z")
    assert step(hq, docs).sent == 1
    step(hq, other)
    assert content(other)["y.txt"] == "z"


def test_a_file_whose_time_was_set_back_is_not_overwritten(
    hq: Site, docs: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    step(hq, docs)
    step(hq, other)
    _later(docs)
    (other / "y.txt").write_text("theirs")
    step(hq, other)
    _write_at_the_same_time(docs / "y.txt", "z")
    assert step(hq, docs).conflicts == ["y (conflict hq).txt"]
    assert content(docs)["y (conflict hq).txt"] == "z"
    assert content(docs)["y.txt"] == "theirs"


def test_a_file_that_takes_the_place_of_one_just_fetched_is_sent(
    hq: Site, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As programs put it there that unpack, or move, with the time that it had."""
    other, theirs = tmp_path / "other", tmp_path / "theirs"
    other.mkdir()
    theirs.write_text("theirs")
    os.utime(theirs, ns=(10**18, 10**18))

    def put(name: str) -> None:
        if name == "folder_sync.after_replace" and (other / "y.txt").exists():
            with suppress(FileNotFoundError):
                theirs.rename(other / "y.txt")

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", put)
        step(hq, other)
    assert content(other)["y.txt"] == "theirs"
    _later(other)
    assert step(hq, other).sent == 1
    step(hq, docs)
    assert content(docs)["y.txt"] == "theirs"


def test_a_file_written_just_before_its_time_is_set_is_sent(
    hq: Site, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, touch = tmp_path / "other", here.touch
    step(hq, other)
    os.utime(docs / "y.txt", ns=(10**18, 10**18))
    step(hq, docs)

    def after_a_write(directory: Path, path: str, entry: Entry) -> None:
        (directory / path).write_text("z")
        touch(directory, path, entry)

    with monkeypatch.context() as patch:
        patch.setattr(here, "touch", after_a_write)
        step(hq, other)
    _later(other)
    assert step(hq, other).sent == 1
    step(hq, docs)
    assert content(docs)["y.txt"] == "z"


def _write_at_the_same_time(file: Path, text: str) -> None:
    before = file.stat()
    file.write_text(text)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert len(text) == before.st_size


def test_a_file_that_is_replaced_stays_private(
    hq: Site, docs: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    step(hq, other)
    (other / "y.txt").chmod(0o600)
    (docs / "y.txt").write_text("changed")
    (docs / "y.txt").chmod(0o755)
    step(hq, docs)
    step(hq, other)
    assert (other / "y.txt").stat().st_mode & 0o777 == 0o700
    (docs / "y.txt").write_text("changed again")
    (docs / "y.txt").chmod(0o644)
    step(hq, docs)
    step(hq, other)
    assert (other / "y.txt").stat().st_mode & 0o777 == 0o600


def test_a_file_whose_content_is_damaged_is_left_alone(
    hq: Site, docs: Path, tmp_path: Path
) -> None:
    run(hq, "UPDATE docs_chunk SET data = 'z' WHERE data = 'y'")
    other = tmp_path / "other"
    other.mkdir()
    said = "its content has not arrived yet, or is damaged"
    assert left(hq, other) == {"y.txt": said}
    assert content(other) == {"a/x.txt": "x"}


def test_content_that_is_not_fetched_leaves_that_of_other_files_whole(
    hq: Site, docs: Path, tmp_path: Path
) -> None:
    large = os.urandom(2_500_000)
    for name in ("a/w.bin", "z.bin"):
        (docs / name).write_bytes(large)
    (docs / "b.txt").write_text("")
    (docs / "c.txt").write_text("c")
    step(hq, docs)
    run(hq, "DELETE FROM docs_chunk WHERE data = 'c'")
    other = tmp_path / "other"
    other.mkdir()
    (other / "a").write_text("a file")
    found = left(hq, other)
    assert found.pop("c.txt") == "its content has not arrived yet, or is damaged"
    assert set(found) == {"a", "a/w.bin", "a/x.txt"}
    (other / "a").unlink()
    assert (other / "z.bin").read_bytes() == large
    (other / "z.bin").unlink()
    assert content(other) == {"b.txt": "", "y.txt": "y"}


def test_links_in_the_place_of_what_a_sync_writes_are_not_followed(
    hq: Site, docs: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("of others")
    (docs / ".snaptide-folder.new").symlink_to(outside)
    step(hq, docs)
    (docs / ".snaptide-lock").unlink()
    (docs / ".snaptide-lock").symlink_to(outside)
    with pytest.raises(DirectoryRefused, match="symbolic link"):
        folders.sync(hq, "docs", docs)
    assert outside.read_text() == "of others"


def test_no_folder_is_made_behind_a_link(
    hq: Site, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside, other = tmp_path / "outside", tmp_path / "other"
    outside.mkdir()
    step(hq, other)
    (docs / "a" / "b").mkdir()
    (docs / "a" / "b" / "z.txt").write_text("z")
    step(hq, docs)
    read = entries.read

    def after_a_swap(*given: Any) -> list[Entry]:
        (other / "a").rename(tmp_path / "away")
        (other / "a").symlink_to(outside)
        return read(*given)

    with monkeypatch.context() as patch:
        patch.setattr(entries, "read", after_a_swap)
        assert set(left(hq, other)) == {"a/b/z.txt"}
    assert [*outside.iterdir()] == []


def _later(directory: Path) -> None:
    """As if the last sync had been long after the last write."""
    file = directory / ".snaptide-folder"
    noted = json.loads(file.read_text())
    noted["scanned_ns"] += 60 * 10**9
    file.write_text(json.dumps(noted))


def test_files_that_a_restored_database_has_lost_are_not_removed(
    hq: Site, docs: Path
) -> None:
    run(hq, "DELETE FROM docs_entry WHERE path = 'y.txt'")
    with hq.begin() as connection:
        identity.renew(connection, "hq")
    with pytest.raises(DirectoryRefused, match="hq was repaired since the last sync"):
        folders.sync(hq, "docs", docs)
    (docs / ".snaptide-folder").unlink()
    assert step(hq, docs).sent == 1
    assert content(docs) == {"a/x.txt": "x", "y.txt": "y"}
