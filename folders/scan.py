"""What is in a directory now."""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from folders.entries import SHA
from folders.errors import DirectoryRefused
from folders.paths import ALIKE, OURS, UNFINISHED, folded, shown, why_not
from folders.state import Known, State
from folders.tables import PIECE
from sites import Progress

#: A file written so shortly before it was read may be written again unnoticed.
_COARSE_NS = 2 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file, or an empty folder."""

    kind: str
    size: int = 0
    mtime_ns: int = 0
    #: when it was changed in any way, which no program can set
    ctime_ns: int = 0
    sha256: str = ""
    executable: bool = False


@dataclass(slots=True)
class Scan:
    """All of a directory, by path."""

    began_ns: int = field(default_factory=time.time_ns)
    found: dict[str, Found] = field(default_factory=dict)
    #: folders that have something in them
    folders: set[str] = field(default_factory=set)
    #: what a folder cannot have, and why; nothing below it is looked at
    left: dict[str, str] = field(default_factory=dict)
    #: files that a killed sync has not finished
    unfinished: list[str] = field(default_factory=list)


def scan(directory: Path, state: State, progress: Progress | None = None) -> Scan:
    """Look at a directory, and read the files that are not as they were.

    Parameters:
        state: as it was; a file of the same size and time is not read.
        progress: receives the number of files.

    Raises:
        DirectoryRefused: the directory itself cannot be read.
    """
    made = Scan()
    _look(directory, "", made)
    _leave_alike(made)
    for number, (path, one) in enumerate(sorted(made.found.items()), 1):
        if one.kind == "file":
            try:
                made.found[path] = _hashed(directory / path, path, one, state)
            except OSError as error:
                del made.found[path]
                made.left[path] = f"it cannot be read: {error.strerror}"
        if progress is not None:
            progress(number, len(made.found), "files looked at")
    return made


def is_below(path: str, left: Mapping[str, str]) -> bool:
    """Whether a path is left alone, or lies in what is."""
    return any(one in left for one in (path, *parents(path)))


def parents(path: str) -> Iterator[str]:
    """The folders that a path lies in, the nearest first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _look(directory: Path, folder: str, made: Scan) -> None:
    """Note what is in a folder, and in the folders below."""
    try:
        with os.scandir(directory / folder) as listed:
            there = list(listed)
    except OSError as error:
        if not folder:
            raise DirectoryRefused(f"{directory}: {error.strerror}.") from None
        made.left[folder] = f"it cannot be read: {error.strerror}"
        return
    made.unfinished += [one.path for one in there if one.name.startswith(UNFINISHED)]
    there = [one for one in there if not one.name.startswith(OURS)]
    if folder:
        if there:
            made.folders.add(folder)
        else:
            made.found[folder] = Found(kind="folder")
    for one in there:
        path = f"{folder}/{one.name}" if folder else one.name
        if reason := why_not(path):
            made.left[path] = reason
        elif one.is_dir(follow_symlinks=False):
            _look(directory, path, made)
        elif not one.is_file(follow_symlinks=False):
            what = "a symbolic link" if one.is_symlink() else "neither file nor folder"
            made.left[path] = f"it is {what}"
        else:
            _note(one, path, made)


def _note(one: os.DirEntry[str], path: str, made: Scan) -> None:
    try:
        made.found[path] = seen(one.stat(follow_symlinks=False))
    except OSError as error:
        made.left[path] = f"it cannot be read: {error.strerror}"


def _leave_alike(made: Scan) -> None:
    """Leave alone names that some systems would take for the same one."""
    every = [*made.found, *made.folders]
    alike = Counter(map(folded, every))
    for path in every:
        if alike[folded(path)] > 1:
            made.left[path] = ALIKE
    for path in [path for path in made.found if is_below(path, made.left)]:
        del made.found[path]


def seen(status: os.stat_result) -> Found:
    """A file as the directory shows it, without its content."""
    return Found(
        kind="file",
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
        executable=bool(status.st_mode & stat.S_IXUSR),
    )


def _hashed(file: Path, path: str, one: Found, state: State) -> Found:
    known = state.known.get(path)
    same = known is not None and is_same(known, one)
    if known and same and one.mtime_ns < state.scanned_ns - _COARSE_NS:
        sha256 = known.sha256
    else:
        digest = SHA()
        for data in pieces(file):
            digest.update(data)
        sha256 = digest.hexdigest()
    return replace(one, sha256=sha256)


def is_same(before: Found | Known, now: Found) -> bool:
    """Whether a file was not written since; some programs set the time back after it.

    What was known before `ctime_ns` was noted has none.
    """
    if (before.size, before.mtime_ns) != (now.size, now.mtime_ns):
        return False
    return before.ctime_ns in (0, now.ctime_ns)


def distrust_changed(state: State, made: Scan) -> None:
    """Have the next sync read changed files again, whatever their size and time are.

    A file that was written twice within two seconds may have changed in nothing but its
    content. If this sync leaves it alone, the next one would not read it otherwise.
    Once it is in step, `Work.note` keeps its true time again.
    """
    for path, one in made.found.items():
        known = state.known.get(path)
        if known is not None and known.sha256 != one.sha256:
            state.known[path] = replace(known, mtime_ns=-1)


def pieces(file: Path) -> Iterator[bytes]:
    """The content of a file, in the pieces in which tables have it."""
    # A pipe that was put in the place of the file would make the sync wait.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    with os.fdopen(os.open(file, flags), "rb") as source:
        while data := source.read(PIECE):
            yield data


def is_as_found(file: Path, one: Found | None) -> bool:
    """Whether a file is still as it was found.

    Parameters:
        one: None if there was none.
    """
    try:
        status = file.lstat()
    except OSError:
        return one is None
    if one is None or stat.S_ISLNK(status.st_mode):
        return False
    if one.kind == "folder":
        return stat.S_ISDIR(status.st_mode)
    return stat.S_ISREG(status.st_mode) and is_same(one, seen(status))


def listed(left: Mapping[str, str]) -> dict[str, str]:
    """What is left alone, by paths that can be printed."""
    return {shown(path): reason for path, reason in sorted(left.items())}
