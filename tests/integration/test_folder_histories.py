"""Three directories that users change at random end equal, and no content is lost."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import deferred
import folders
from sites import Directory, Site, faults
from tests.foldered import content, publish, settle
from tests.linked_table import parked, run
from tests.seeds import seed
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

_STEPS = int(os.environ.get("SNAPTIDE_FOLDER_STEPS", "25"))
_NAMES = ("a.txt", "b.txt", "d/a.txt", "d/b.txt", "d/e/c.txt", "f/a.txt")
_FAULTS = ("folder_sync.before_commit:error", "folder_sync.after_fetch:error")


class User:
    """Somebody at a site, who changes its directory without regard for syncs."""

    def __init__(self, site: Site, directory: Path, chance: random.Random) -> None:
        self.site, self.directory, self._chance = site, directory, chance
        self._written = 0
        directory.mkdir()

    def write(self) -> str:
        self._written += 1
        path = self._chance.choice([*_NAMES, *self._files()])
        file = self.directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{self.site.name} {self._written:04}")
        return f"{path} = {self._written}"

    def write_unseen(self) -> str:
        """Write a file, and give it the size and time that it had."""
        files = self._files()
        if not files:
            return "nothing"
        self._written += 1
        path = self._chance.choice(files)
        file = self.directory / path
        before = file.stat()
        text = f"{self.site.name} {self._written:04}"
        file.write_text(text.ljust(before.st_size))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        return f"{path} = {self._written}, unseen"

    def rename(self) -> str:
        files = self._files()
        if not files:
            return "nothing"
        old, new = self._chance.choice(files), self._chance.choice(_NAMES)
        target = self.directory / new
        if target.exists():
            return "nothing"
        target.parent.mkdir(parents=True, exist_ok=True)
        (self.directory / old).rename(target)
        return f"{old} -> {new}"

    def rename_folder(self) -> str:
        if not (self.directory / "d").is_dir() or (self.directory / "g").exists():
            return "nothing"
        (self.directory / "d").rename(self.directory / "g")
        return "d -> g"

    def remove(self) -> str:
        files = self._files()
        if not files:
            return "nothing"
        path = self._chance.choice(files)
        (self.directory / path).unlink()
        return f"remove {path}"

    def touch(self) -> str:
        files = self._files()
        if files:
            path = self._chance.choice(files)
            time = 10**18 + self._chance.randrange(10**9) * 1000
            os.utime(self.directory / path, ns=(time, time))
        return "set a time"

    def _files(self) -> list[str]:
        return [path for path, data in content(self.directory).items() if data != "/"]


class History:
    """What three users do, with syncs, pushes and refreshes between it."""

    def __init__(self, sites: Directory, tmp_path: Path, number: int) -> None:
        self.chance = random.Random(number)
        self.users = [
            User(sites[name], tmp_path / name, self.chance)
            for name in ("hq", "jfk", "lga")
        ]
        #: contents that a sync has found, and that have to be somewhere at the end
        self.found: set[str] = set()
        self.log = [f"SNAPTIDE_FOLDER_SEED={number}"]

    def play(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Do one thing after the other."""
        for _ in range(_STEPS):
            user = self.chance.choice(self.users)
            acts: dict[Callable[[], str], int] = {
                user.write: 6,
                user.write_unseen: 2,
                user.rename: 3,
                user.rename_folder: 1,
                user.remove: 2,
                user.touch: 2,
                lambda user=user: self.sync(user): 6,  # type: ignore[misc]
                lambda user=user: self.kill(user, monkeypatch): 2,  # type: ignore[misc]
                lambda user=user: self.carry(user.site): 5,  # type: ignore[misc]
            }
            [act] = self.chance.choices([*acts], [*acts.values()])
            self.log.append(f"{user.site.name}: {act()}")

    def sync(self, user: User) -> str:
        """Sync, and return what it did."""
        self.found |= {*content(user.directory).values()} - {"/"}
        report = folders.sync(user.site, "docs", user.directory)
        return f"sync {report}"

    def kill(self, user: User, monkeypatch: pytest.MonkeyPatch) -> str:
        """Sync, and lose what it notes at its end; sometimes, break it off before."""
        state, old = user.directory / ".snaptide-folder", user.directory / "../old"
        known = state.exists()
        if known:
            shutil.copy2(state, old)
        fault = self.chance.choice([*_FAULTS, ""])
        with monkeypatch.context() as patch:
            patch.setattr(faults, "_hits", Counter())
            patch.setenv("SNAPTIDE_FAULT", fault)
            try:
                said = self.sync(user)
            except faults.InjectedFault:
                said = fault
        if known:
            shutil.copy2(old, state)
        else:
            state.unlink(missing_ok=True)
        return f"killed {said}"

    def carry(self, site: Site) -> str:
        """Push, refresh, or both."""
        if site.name == "hq":
            return "nothing"
        act = self.chance.choice(("push", "refresh", "both"))
        if act != "refresh":
            deferred.push(site)
        if act != "push":
            refresh(site, "docs", allow_mass_delete=True)
        return act

    def end(self) -> None:
        """Go on until all is in step."""
        for _ in range(3):
            for user in self.users:
                self.log.append(f"{user.site.name} at the end: {self.sync(user)}")
            settle(*(user.site for user in self.users[1:]))


def test_directories_end_equal_and_no_content_is_lost(
    make_sites: Callable[..., Directory],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sites = make_sites("hq", "jfk", "lga")
    publish(sites["hq"], sites["jfk"], sites["lga"])
    history = History(sites, tmp_path, seed("SNAPTIDE_FOLDER_SEED"))
    history.play(monkeypatch)
    history.end()
    story = "\n".join(history.log)
    assert parked(sites["hq"]) == [], story
    at_hq, at_jfk, at_lga = (content(user.directory) for user in history.users)
    assert at_hq == at_jfk == at_lga, story
    kept = run(sites["hq"], "SELECT convert_from(data, 'UTF8') FROM docs_chunk")
    lost = history.found - {data for (data,) in kept}
    assert not lost, f"{lost}\n{story}"
    for user in history.users:
        assert folders.sync(user.site, "docs", user.directory).left == {}, story
