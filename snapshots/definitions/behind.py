"""Snapshots that the last refresh of their group left behind, at their own moment.

One cannot be refreshed, or depends on one that cannot. It keeps its rows and the
position that they belong to, here and in its registration at the master: so the logs
keep what it needs, and the refresh that takes it along again follows from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snapshots.definitions.snapshot import Snapshot

#: The catalog's values for a snapshot that shows the moment of its group.
NOT_BEHIND: Mapping[str, None] = {"behind": None, "position": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """Why a snapshot stays behind its group."""

    code: str
    why: str
    hint: str
    #: the snapshot that cannot be refreshed, if this one only depends on it
    depends_on: str | None = None

    def __str__(self) -> str:
        """In one line, without the hint."""
        if self.depends_on is None:
            return f"{self.code} {self.why}"
        return f"it depends on {self.depends_on}: {self.code} {self.why}"


def of(noted: Mapping[str, Any] | None) -> Behind | None:
    """What the catalog notes of a snapshot."""
    return None if noted is None else Behind(**noted)


def summary(left: Sequence[tuple[Snapshot, Behind]]) -> str | None:
    """One line on the snapshots that a refresh leaves behind; None if there are none.

    Those that only depend on others come last.
    """
    if not left:
        return None
    told = [f"{one.key}: {why}" for one, why in left if why.depends_on is None]
    others = [one.key for one, why in left if why.depends_on is not None]
    if others:
        told.append(f"with what depends on it: {', '.join(others)}")
    return f"Stays behind; {'; '.join(told)}"
