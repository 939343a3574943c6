"""Changing the directory: whole files, and none that was written meanwhile."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from folders.entries import MEANWHILE, SHA, Entry
from folders.paths import UNFINISHED
from folders.scan import Found, is_as_found, parents
from masters.resolution import file_names
from sites import faults


class InTheWay(Exception):
    """The directory has something else where a file has to be; the text says what."""


def remove_unfinished(files: Iterable[str]) -> None:
    """Remove files that a killed sync has not finished; where it may not, later."""
    for file in files:
        with suppress(OSError):
            os.unlink(file)


def write(
    directory: Path, entry: Entry, before: Found | None, content: Iterable[bytes]
) -> None:
    """Write an entry to the directory, in place of what was found there.

    Parameters:
        before: what was found there; None if nothing was.

    Raises:
        InTheWay: something else is there now, or the content is not complete.
    """
    target = directory / entry.path
    _make_folders(directory, entry.path)
    if entry.kind == "folder":
        if not is_as_found(target, before):
            raise InTheWay(MEANWHILE)
        if before is not None and before.kind == "file":
            target.unlink()
        target.mkdir(exist_ok=True)
        return
    new = target.with_name(f"{UNFINISHED}{uuid.uuid4().hex}")
    try:
        _write_new(new, entry, content, _mode(target, before))
        _replace(new, target, before)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _mode(target: Path, before: Found | None) -> int:
    """The mode to make a new file with: that of the file which it replaces, if any."""
    if before is None or before.kind == "folder":
        return 0o666
    # If that is gone, `_replace` refuses; until then, only the owner may read it.
    with suppress(OSError):
        return stat.S_IMODE(target.lstat().st_mode) & 0o666
    return 0o600


def _write_new(new: Path, entry: Entry, content: Iterable[bytes], mode: int) -> None:
    digest = SHA()
    executable = (mode & 0o444) >> 2 if entry.executable else 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    opened = os.open(new, flags, mode | executable)
    with os.fdopen(opened, "wb") as file:
        for data in content:
            digest.update(data)
            file.write(data)
        if digest.digest() != entry.sha256:
            raise InTheWay("its content has not arrived yet, or is damaged")
        file.flush()
        os.utime(file.fileno(), ns=(entry.time_us * 1000,) * 2)


def _replace(new: Path, target: Path, before: Found | None) -> None:
    if not is_as_found(target, before):
        raise InTheWay(MEANWHILE)
    if before is not None and before.kind == "folder":
        target.rmdir()
    faults.point("folder_sync.before_replace")
    new.replace(target)
    faults.point("folder_sync.after_replace")


def rename(
    directory: Path, old: str, found: Found, new: str, entry: Entry | None = None
) -> None:
    """Give a file of the directory another name.

    Parameters:
        found: the file as it was found.
        entry: what the file is to look like.

    Raises:
        InTheWay: the file was written meanwhile, or something has the new name.
    """
    source, target = directory / old, directory / new
    _make_folders(directory, new)
    if not is_as_found(source, found):
        raise InTheWay(MEANWHILE)
    if not is_as_found(target, None):
        raise InTheWay(_why_taken(source, target, old))
    source.rename(target)
    if entry is not None:
        touch(directory, new, entry)


def _why_taken(source: Path, target: Path, old: str) -> str:
    """Why a file cannot get a name that is taken."""
    with suppress(OSError):
        if source.samefile(target):
            return f"this directory takes it for the same name as {old}: rename it here"
    return MEANWHILE


def delete(directory: Path, path: str, found: Found) -> None:
    """Remove a file, or an empty folder.

    Raises:
        InTheWay: it was written meanwhile.
    """
    target = directory / path
    _refuse_links(directory, path)
    if not is_as_found(target, found):
        raise InTheWay(MEANWHILE)
    if found.kind == "file":
        target.unlink()
    else:
        with suppress(OSError):  # something is in it again
            target.rmdir()


def prune(directory: Path, path: str, staying: frozenset[str]) -> None:
    """Remove the folders above a path that are empty now.

    Parameters:
        staying: folders that are to stay.
    """
    for above in parents(path):
        if above in staying:
            return
        try:
            (directory / above).rmdir()
        except OSError:  # not empty
            return


def touch(directory: Path, path: str, entry: Entry) -> None:
    """Give a file the time of its entry, and have it executable or not."""
    _refuse_links(directory, path)
    target = directory / path
    mode = target.lstat().st_mode
    if bool(mode & stat.S_IXUSR) != entry.executable:
        readers = (mode & 0o444) >> 2  # who may read it may execute it
        target.chmod(stat.S_IMODE(mode & ~0o111) | readers * entry.executable)
    _set_time(target, entry)


def _set_time(file: Path, entry: Entry) -> None:
    if file.lstat().st_mtime_ns // 1000 != entry.time_us:
        os.utime(file, ns=(entry.time_us * 1000,) * 2, follow_symlinks=False)


def free_name(directory: Path, path: str, site: str) -> str:
    """The name under which a file stays that both sides have changed."""
    stem, suffix = file_names.divide(path)
    said = f"conflict {site}"
    number = 1
    while True:
        made = file_names.append(stem, suffix, said)
        if not os.path.lexists(directory / made):
            return made
        number += 1
        said = f"conflict {site} {number}"


def _make_folders(directory: Path, path: str) -> None:
    """Make the folders that a path lies in; follow no link out of the directory."""
    for above in reversed([*parents(path)]):
        with suppress(FileExistsError):
            (directory / above).mkdir()
        _refuse_link(directory, above)


def _refuse_links(directory: Path, path: str) -> None:
    for above in parents(path):
        _refuse_link(directory, above)


def _refuse_link(directory: Path, above: str) -> None:
    if not stat.S_ISDIR((directory / above).lstat().st_mode):
        raise InTheWay(f"{above} is no folder here")
