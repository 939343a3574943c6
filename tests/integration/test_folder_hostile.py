"""Directories that are hostile to a sync: odd names, a full disk, files that change."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import folders
from folders import StateNotSaved, entries
from folders.entries import Entry
from sites import Directory, Site
from tests.fix_worker import WriteSettings
from tests.foldered import content, left, paths, publish, settle, step
from tests.linked_table import parked

_ALIKE = "another name differs only in case or accents"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("é.txt", "e\u0301.txt"),
        ("É.txt", "e\u0301.txt"),
        ("Straße", "STRASSE"),
        # Small, it is one character with two accents; capital, there is none.
        ("\u0390", "\u03aa\u0301"),
        ("d\u00e9/a", "de\u0301/b"),
    ],
)
def test_names_that_some_systems_take_for_one_are_left_alone(
    hq: Site, docs: Path, one: str, other: str
) -> None:
    for path in (one, other):
        (docs / path).parent.mkdir(exist_ok=True)
        (docs / path).write_text(path)
    alike = {one.partition("/")[0], other.partition("/")[0]}
    found = left(hq, docs)
    assert {found[path] for path in alike} == {_ALIKE}
    assert paths(hq) == ["a/x.txt", "y.txt"]
    (docs / one).rename(docs / "renamed")
    if "/" in one:
        (docs / one).parent.rmdir()
    assert step(hq, docs).sent == 2


@pytest.mark.usefixtures("spark")
def test_alike_names_of_two_sites_stay_in_the_tables_until_one_is_renamed(
    sites: Directory, tmp_path: Path
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    publish(hq, jfk)
    at_hq, at_jfk = tmp_path / "hq", tmp_path / "jfk"
    at_hq.mkdir()
    at_jfk.mkdir()
    (at_hq / "l\u00e9").write_text("composed")
    (at_jfk / "le\u0301").write_text("two characters")
    step(hq, at_hq)
    step(jfk, at_jfk)
    settle(jfk)
    both = {"l\u00e9": _ALIKE, "le\u0301": _ALIKE}
    assert left(hq, at_hq) == left(jfk, at_jfk) == both
    assert (paths(hq), parked(hq)) == (sorted(both), [])
    (at_jfk / "le\u0301").rename(at_jfk / "bar")
    step(jfk, at_jfk)
    settle(jfk)
    step(hq, at_hq)
    expected = {"bar": "two characters", "l\u00e9": "composed"}
    assert content(at_hq) == content(at_jfk) == expected


@pytest.mark.usefixtures("spark")
def test_three_sites_that_give_odd_names_to_files_keep_all_versions(
    make_sites: Callable[..., Directory], tmp_path: Path
) -> None:
    sites = make_sites("hq", "jfk", "lga", "sfo")
    publish(sites["hq"], sites["jfk"], sites["lga"], sites["sfo"])
    names = (
        *(".profile", "a.tar.gz", "no suffix", "(jfk)", "x (jfk)", "x (lga).odt"),
        *("x.odt", f"{'ä' * 125}.txt", f"{'n' * 255}", f"a.{'s' * 80}", "a..b"),
        *("$1 %s {0}", "'; --", "d/e/f.g/.h", "\U0001f600.md", "e\u0301.txt"),
    )
    written = set()
    branches = [sites[name] for name in ("jfk", "lga", "sfo")]
    for site in branches:
        for name in names:
            file = tmp_path / site.name / name
            file.parent.mkdir(parents=True, exist_ok=True)
            written.add(f"{site.name} {name}")
            file.write_text(f"{site.name} {name}")
        step(site, tmp_path / site.name)
    settle(*branches)
    assert parked(sites["hq"]) == []
    for _ in range(2):
        for site in (sites["hq"], *branches):
            step(site, tmp_path / site.name)
    at = [content(tmp_path / site.name) for site in (sites["hq"], *branches)]
    assert at[0] == at[1] == at[2] == at[3]
    assert sorted(at[0].values()) == sorted(written)


@pytest.mark.usefixtures("spark")
def test_a_name_that_is_a_folder_at_one_site_and_a_file_at_another_keeps_both(
    sites: Directory, tmp_path: Path
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    publish(hq, jfk)
    at_hq, at_jfk, new = (tmp_path / name for name in ("hq", "jfk", "new"))
    (at_hq / "plan").mkdir(parents=True)
    (at_hq / "plan" / "a").write_text("in a folder")
    at_jfk.mkdir()
    (at_jfk / "plan").write_text("a file")
    step(hq, at_hq)
    step(jfk, at_jfk)
    settle(jfk)
    assert (paths(hq), parked(hq)) == (["plan", "plan/a"], [])
    assert left(hq, at_hq) == {"plan": "it is a folder here, and a file there"}
    assert left(jfk, at_jfk) == {"plan/a": "plan is no folder here"}
    new.mkdir()
    assert left(hq, new) == {"plan/a": "plan is no folder here"}
    assert content(at_hq) == {"plan/a": "in a folder"}
    assert content(at_jfk) == content(new) == {"plan": "a file"}
    # A change on either side is not lost, and a renaming ends it.
    (at_jfk / "plan").rename(at_jfk / "plan of jfk")
    step(jfk, at_jfk)
    settle(jfk)
    step(hq, at_hq)
    step(hq, new)
    expected = {"plan of jfk": "a file", "plan/a": "in a folder"}
    assert content(at_hq) == content(at_jfk) == content(new) == expected


@contextmanager
def _no_room(size: int) -> Iterator[None]:
    """As if the disk had room for so many bytes of a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_the_disk_has_no_room_for_is_left_for_the_next_sync(
    hq: Site, docs: Path, tmp_path: Path
) -> None:
    (docs / "large").write_bytes(os.urandom(3_000_000))
    step(hq, docs)
    other = tmp_path / "other"
    other.mkdir()
    with _no_room(2_000_000):
        assert left(hq, other) == {"large": "it cannot be written: File too large"}
    assert content(other) == {"a/x.txt": "x", "y.txt": "y"}
    assert step(hq, other).fetched == 1
    assert (other / "large").read_bytes() == (docs / "large").read_bytes()


def test_a_sync_that_cannot_note_what_it_did_says_so_and_loses_nothing(
    hq: Site, docs: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    step(hq, other)
    (docs / "y.txt").unlink()
    (docs / "new").write_text("new")
    step(hq, docs)
    (other / "mine").write_text("mine")
    (other / "a").rename(other / "b")
    before = (other / ".snaptide-folder").read_bytes()
    with _no_room(100), pytest.raises(StateNotSaved, match="File too large"):
        folders.sync(hq, "docs", other)
    assert (other / ".snaptide-folder").read_bytes() == before
    step(hq, other)
    step(hq, docs)
    expected = {"b/x.txt": "x", "mine": "mine", "new": "new"}
    assert content(docs) == content(other) == expected


def test_a_pipe_in_the_place_of_a_file_does_not_stop_a_sync(
    hq: Site, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (docs / "new").write_text("new")
    read = entries.read

    def after_a_swap(*given: Any) -> list[Entry]:
        (docs / "new").unlink()
        os.mkfifo(docs / "new")
        return read(*given)

    with monkeypatch.context() as patch:
        patch.setattr(entries, "read", after_a_swap)
        assert set(left(hq, docs)) == {"new"}
    assert left(hq, docs) == {"new": "it is neither file nor folder"}


@contextmanager
def _without_privileges(directory: Path) -> Iterator[None]:
    """Have a user own a directory who may not do everything, and be this user."""
    if os.geteuid():
        yield
        return
    nobody = 65534
    for one in (directory, *directory.rglob("*")):
        os.chown(one, nobody, -1)
    os.seteuid(nobody)
    try:
        yield
    finally:
        os.seteuid(0)


def test_files_without_permission_are_left_alone_and_not_taken_for_removed(
    hq: Site, docs: Path
) -> None:
    (docs / "b").mkdir()
    (docs / "b" / "z.txt").write_text("z")
    step(hq, docs)
    denied = "Permission denied"
    # Other users cannot enter the directories that pytest makes.
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        other = Path(place, "other")
        step(hq, other)
        (docs / "b" / "z.txt").write_text("changed")
        step(hq, docs)
        (other / "y.txt").write_text("secret")
        (other / "b" / ".snaptide-new-0").write_text("a piece of a file")
        modes = {"y.txt": 0, "a": 0, "b": 0o555}
        with _without_privileges(other):
            for name, mode in modes.items():
                (other / name).chmod(mode)
            assert left(hq, other) == {
                "a": f"it cannot be read: {denied}",
                "b/z.txt": f"it cannot be written: {denied}",
                "y.txt": f"it cannot be read: {denied}",
            }
        assert paths(hq) == ["a/x.txt", "b/z.txt", "y.txt"]
        for name in modes:
            (other / name).chmod(0o755)
        step(hq, other)
        expected = {"a/x.txt": "x", "b/z.txt": "changed", "y.txt": "secret"}
        assert content(other) == expected
        assert not (other / "b" / ".snaptide-new-0").exists()


def test_a_sync_that_is_killed_among_the_files_of_a_batch_is_taken_up(
    sites: Directory, docs: Path, tmp_path: Path, write_settings: WriteSettings
) -> None:
    """It is killed at one file after the other, until a sync gets through."""
    hq, other = sites["hq"], tmp_path / "other"
    step(hq, other)
    for n in range(4):
        (docs / f"of docs {n}").write_text(f"docs {n}")
        (other / f"of other {n}").write_text(f"other {n}")
    (docs / "y.txt").write_text("changed")
    (other / "a").rename(other / "b")
    expected = {**content(docs), **content(other), "y.txt": "changed", "b/x.txt": "x"}
    del expected["a/x.txt"]
    step(hq, docs)
    command = ["folder", "sync", "hq", "docs", str(other)]
    config = str(write_settings(sites))
    for point in (
        "before_replace:kill:3",
        "after_replace:kill:2",
        "before_commit:kill",
    ):
        done = subprocess.run(
            [sys.executable, "-m", "snaptide", "--config", config, *command],
            env={**os.environ, "SNAPTIDE_FAULT": f"folder_sync.{point}"},
            capture_output=True,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
    step(hq, other)
    step(hq, docs)
    assert content(docs) == content(other) == expected
    assert [*other.rglob(".snaptide-new-*")] == []
