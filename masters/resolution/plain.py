"""Methods that take no parameters and look at no column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from masters.resolution.conflict import Conflict, Decision, Kind, Resolution, undecided
from masters.resolution.method import check_names
from masters.resolution.takes import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """The common base of methods that take no parameters and look at no column."""

    name: ClassVar[str]

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        check_names(cls.name, parameters)
        return cls()

    def reads(self) -> frozenset[str]:
        return frozenset()

    def takes(self) -> Mapping[str, Takes]:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite(Plain):
    """Oracle, OVERWRITE: the site's new values replace the master's.

    Nothing is compared, so NULL and equal values are decided like any other.
    """

    name: ClassVar[str] = "overwrite"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.UPDATE})

    def __call__(self, conflict: Conflict) -> Resolution:
        return Resolution(decision=Decision.SITE_WINS, reason="the site's values apply")


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard(Plain):
    """Oracle, DISCARD: the master's values stay in the group.

    For a uniqueness conflict the incoming row is dropped as a whole. Nothing is
    compared, so NULL and equal values are decided like any other.
    """

    name: ClassVar[str] = "discard"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.UPDATE, Kind.UNIQUENESS})

    def __call__(self, conflict: Conflict) -> Resolution:
        if conflict.kind is Kind.UNIQUENESS:
            return Resolution(
                decision=Decision.IGNORE, reason="the incoming row is dropped"
            )
        return Resolution(
            decision=Decision.MASTER_WINS, reason="the master's values stay"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore(Plain):
    """Virtuoso, the default of its delete conflicts: the call is dropped.

    A row to delete stays as the master has it, a row to update stays deleted, and
    nothing is sent to other sites. A snapshot becomes equal again at its next refresh,
    which reads the rows that it pushed; another master never does.
    """

    name: ClassVar[str] = "ignore"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.DELETE})

    def __call__(self, conflict: Conflict) -> Resolution:
        return Resolution(decision=Decision.IGNORE, reason="the call is dropped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore(Plain):
    """Virtuoso, publisher wins as its manual means it for deletes: the row comes back.

    A row that the site deleted while the master changed it stays, and the master sends
    it to all snapshots, also to the origin. A row deleted on both sides is left alone.
    An update of a row that the master no longer has is undecided, because there is no
    row to give back: put ignore or another rule behind it in the sequence.
    """

    name: ClassVar[str] = "restore"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.DELETE})

    def __call__(self, conflict: Conflict) -> Resolution:
        if conflict.current is not None:
            return Resolution(
                decision=Decision.MASTER_WINS, reason="the site gets the row back"
            )
        if conflict.new is None:
            return Resolution(
                decision=Decision.IGNORE, reason="the row is deleted on both sides"
            )
        return undecided("the master has no row to give back")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade(Plain):
    """Snaptide: a change may take along rows that foreign keys of the master reach.

    For the conflict of a delete, or of a change of a key or unique value, if the row is
    referred to by rows that the site did not know or that a rule has kept. These rows
    are deleted too, or lose their reference, as ON DELETE or ON UPDATE of their foreign
    key says, and the record names them. If the row itself has changed or is gone, the
    method decides nothing.
    """

    name: ClassVar[str] = "cascade"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.DELETE})

    def __call__(self, conflict: Conflict) -> Resolution:
        if not conflict.takes_along:
            return undecided("the change affects no other row")
        what = "delete cascades" if conflict.new is None else "change reaches others"
        return Resolution(decision=Decision.SITE_WINS, reason=f"the {what}")
