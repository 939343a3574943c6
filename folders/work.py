"""One sync: what it works on, and what it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from folders.entries import Entry
from folders.here import InTheWay
from folders.plan import Plan
from folders.scan import Found
from folders.state import Known, State
from folders.tables import Tables
from sites import Site

_What = TypeVar("_What")


#: A transaction ends after so many files, or so many bytes.
_FILES, _BYTES = 256, 16 * 2**20


def batches(
    what: Mapping[str, _What], size: Callable[[_What], int]
) -> Iterator[dict[str, _What]]:
    """Divide what is to be done into what one transaction does."""
    some: dict[str, _What] = {}
    total = 0
    for path, one in what.items():
        some[path] = one
        total += size(one)
        if len(some) == _FILES or total >= _BYTES:
            yield some
            some, total = {}, 0
    yield some


@dataclass(slots=True, kw_only=True)
class SyncReport:
    """What a sync has done."""

    site: str
    folder: str
    directory: str
    #: files written to the folder, and their bytes
    sent: int = 0
    sent_bytes: int = 0
    #: files written to the directory, and their bytes
    fetched: int = 0
    fetched_bytes: int = 0
    #: files renamed in the folder, or in the directory, without their content
    renamed: int = 0
    removed_there: int = 0
    removed_here: int = 0
    #: names under which the directory's file stays where both sides had changed it
    conflicts: list[str] = field(default_factory=list)
    #: what is not in step, with the reason
    left: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One sync, and what it works on."""

    site: Site
    tables: Tables
    directory: Path
    state: State
    plan: Plan
    report: SyncReport
    #: receives how many more are done
    step: Callable[[int], None]

    def each(
        self, what: Mapping[str, _What], do: Callable[[Work, str, _What], None]
    ) -> None:
        """Do something for each path; where it cannot be done, leave the path alone."""
        for path, one in what.items():
            try:
                do(self, path, one)
            except InTheWay as error:
                self.plan.left[path] = str(error)
            except OSError as error:
                self.plan.left[path] = f"it cannot be written: {error.strerror}"
            self.step(1)

    def note(self, path: str, found: Found, entry: Entry) -> None:
        """Note that a path is in step now."""
        self.state.known[path] = Known(
            id=entry.id,
            kind=entry.kind,
            size=found.size,
            mtime_ns=found.mtime_ns,
            ctime_ns=found.ctime_ns,
            sha256=(entry.sha256 or b"").hex(),
            executable=entry.executable,
            entry_us=entry.time_us,
        )
