"""What a directory and its folder had in common after the last sync.

Without it a file that is on one side alone could be new there, or removed at the other.
It lies in the directory itself: if the disk is not mounted, nothing is known to have
been in step, so nothing is removed.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from folders.errors import DirectoryBusy, DirectoryRefused, StateNotSaved
from folders.paths import OURS

_STATE, _LOCK = f"{OURS}folder", f"{OURS}lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One path, as both sides had it."""

    id: uuid.UUID
    kind: str
    size: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    sha256: str = ""
    executable: bool = False
    #: the time of the entry, which the directory may keep less exactly
    entry_us: int = 0


@dataclass(slots=True, kw_only=True)
class State:
    """What was in step."""

    #: the site, the id and incarnation of its database, and the folder
    of: dict[str, str]
    #: when the last scan began, in nanoseconds: what was written then may look the same
    scanned_ns: int = 0
    known: dict[str, Known] = field(default_factory=dict)


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Keep other syncs out of a directory while the block runs.

    Raises:
        DirectoryRefused: it is no directory, or cannot be written.
        DirectoryBusy.
    """
    if not directory.is_dir():
        raise DirectoryRefused(f"{directory} is not a directory.")
    try:
        lock = _opened(directory / _LOCK, 0)
    except OSError as error:
        raise DirectoryRefused(f"{directory}: {error.strerror}.") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DirectoryBusy(f"{directory} is being synced.") from None
        yield


def _opened(file: Path, flags: int) -> IO[str]:
    """Open a file of ours to be written, and follow no link out of the directory."""
    flags |= os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
    return os.fdopen(os.open(file, flags, 0o666), "w", encoding="utf-8")


def load(directory: Path, of: dict[str, str]) -> State:
    """Read what was in step; nothing, before the first sync.

    Parameters:
        of: the site, database and folder that the directory must belong to.

    Raises:
        DirectoryRefused: it belongs to another folder or site, or cannot be read.
    """
    file = directory / _STATE
    if not file.exists():
        return State(of=of)
    try:
        found: dict[str, Any] = json.loads(file.read_text("utf-8"))
        known = {
            path: Known(**{**one, "id": uuid.UUID(one["id"])})
            for path, one in found["known"].items()
        }
        state = State(of=found["of"], scanned_ns=found["scanned_ns"], known=known)
    except (OSError, ValueError, KeyError, TypeError):
        raise DirectoryRefused(
            f"{file} cannot be read. If you remove it, no file is removed on either "
            "side by the next sync, and where both sides differ, it keeps both."
        ) from None
    if state.of != of:
        if {**state.of, "incarnation": of["incarnation"]} == of:
            raise DirectoryRefused(
                f"Site {of['site']} was repaired since the last sync of {directory}, "
                "and may have lost files that are only there: they would look removed. "
                f"Remove {file}: then no file is removed on either side, and where "
                "both sides differ, both are kept."
            )
        theirs = f"folder {state.of.get('folder')} of site {state.of.get('site')}"
        raise DirectoryRefused(
            f"{directory} was synced with {theirs}, or with another database of that "
            f"name. To sync it with this one, remove {file} first: then no file is "
            "removed on either side, and where both sides differ, both are kept."
        )
    return state


def save(directory: Path, state: State, *, changed: bool = True) -> None:
    """Write down what is in step, after all that it says is on the disk.

    Parameters:
        changed: other files are in step than before. They may not be on the disk yet,
            so all files are forced there first.

    Raises:
        StateNotSaved: the directory cannot be written, or its disk is full.
    """
    known = {
        path: {name: getattr(one, name) for name in Known.__slots__}
        for path, one in state.known.items()
    }
    text = json.dumps(
        {"of": state.of, "scanned_ns": state.scanned_ns, "known": known}, default=str
    )
    try:
        _replace(directory / _STATE, text, changed=changed)
    except OSError as error:
        raise StateNotSaved(f"{directory}: {error.strerror}.") from None


def _replace(file: Path, text: str, *, changed: bool) -> None:
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    with _opened(new, os.O_EXCL) as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    if changed:
        # A file that a power failure leaves empty must not look like one written since.
        os.sync()
    new.replace(file)
