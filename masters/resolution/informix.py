"""Four methods after the conflict rules of Informix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Self

from masters.resolution.conflict import Conflict, Decision, Kind, Resolution, undecided
from masters.resolution.method import check_names, chosen, deciding_column, value_of
from masters.resolution.numbers import Number, numbered
from masters.resolution.order import moment
from masters.resolution.plain import Plain
from masters.resolution.scope import Scope, lost
from masters.resolution.takes import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class InformixTimestamp:
    """Informix, --conflict=timestamp: the newer side wins, by whole seconds.

    For equal seconds the lower server number wins; without numbers they are undecided.
    The time of a delete is that of its transaction, at the site (`changed_at`) and at
    the master (`deleted_at`). An update inserts a row that is gone, unless that was
    deleted later; as a rule for delete conflicts, the method also drops an insert that
    was made before the master deleted that key. The time of a delete is not known if
    the master table has no snapshot log, or the delete was purged long ago: the row is
    inserted then. NULL is undecided. Give the rule to the primary key; Informix has
    none for another constraint.

    With row scope a loser is dropped and the other rows are applied. With transaction
    scope, Informix's default, the newest timestamp of the transaction is compared for
    each row, and one loser rejects all: the transaction waits in the error queue.

    Parameters:
        column: a timestamptz column of the group or row, Informix's cdrtime. (By a
            column without time zone, deletes decide nothing: their times have one.)
        servers: optional, names of sites and their numbers; the lower one wins.
        server_column: optional, the column that holds the name of the site that
            last changed the row, Informix's cdrserver; the master if not given.
        scope: row if not given, or transaction.
    """

    name: ClassVar[str] = "informix_timestamp"
    kinds: ClassVar[frozenset[Kind]] = frozenset(Kind)
    #: one version stays, and rows that refer to it stay, too
    versions_of_one_row: ClassVar[bool] = True
    #: the deciding column need not belong to the constraint
    compares_rows: ClassVar[bool] = True
    #: `Conflict.deleted_at` decides, also about inserts that come too late
    asks_when_deleted: ClassVar[bool] = True

    column: str
    servers: Mapping[str, Number]
    server_column: str | None
    scope: Scope

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        check_names(
            cls.name,
            parameters,
            required=["column"],
            optional=["servers", "server_column", "scope"],
        )
        servers = parameters.get("servers")
        by = parameters.get("server_column")
        return cls(
            column=deciding_column(cls.name, parameters["column"], columns),
            servers=({} if servers is None else numbered(cls.name, "servers", servers)),
            server_column=None
            if by is None
            else deciding_column(cls.name, by, columns),
            scope=chosen(cls.name, parameters, "scope", Scope.ROW),
        )

    def reads(self) -> frozenset[str]:
        return frozenset({self.column, self.server_column or self.column})

    def takes(self) -> Mapping[str, Takes]:
        by = {} if self.server_column is None else {self.server_column: Takes.LABEL}
        return {**by, self.column: Takes.MOMENT}

    def __call__(self, conflict: Conflict) -> Resolution:
        if conflict.kind is not Kind.DELETE:
            return self.newer_wins(conflict, self._new(conflict), self._held(conflict))
        if conflict.new is None:
            return self._delete(conflict)
        if conflict.current is not None:
            return self.newer_wins(conflict, self._new(conflict), self._held(conflict))
        if conflict.deleted_at is None:
            return Resolution(
                decision=Decision.SITE_WINS, reason="the row is gone and is inserted"
            )
        return self.newer_wins(conflict, self._new(conflict), conflict.deleted_at)

    def newer_wins(self, conflict: Conflict, new: object, held: object) -> Resolution:
        """Compare the times of the two sides; a loser is dropped."""
        if new is None or held is None:
            side = "site" if new is None else "master"
            return undecided(f"the time of the {side}'s change is not known")
        reason = f"{self.column}: {new} against {held}"
        try:
            theirs, ours = _second(new), _second(held)
            if theirs != ours:
                return self._decided(conflict, theirs > ours, reason)
        except (TypeError, OverflowError):
            return undecided(f"{self.column}: {new} and {held} cannot be compared")
        return self._lower_server_wins(conflict, f"{reason}: equal")

    def _delete(self, conflict: Conflict) -> Resolution:
        if conflict.current is None:
            return Resolution(
                decision=Decision.IGNORE, reason="the row is already gone"
            )
        return self.newer_wins(conflict, conflict.changed_at, self._held(conflict))

    def _lower_server_wins(self, conflict: Conflict, reason: str) -> Resolution:
        holder: object = conflict.master
        if self.server_column is not None and conflict.current is not None:
            holder = value_of(conflict.current, self.server_column)
        theirs = self.servers.get(conflict.origin)
        ours = self.servers.get(holder) if isinstance(holder, str) else None
        if theirs is None or ours is None or theirs == ours:
            return undecided(f"{reason}, and the server numbers do not decide")
        return self._decided(
            conflict, theirs < ours, f"{reason}, server {theirs} against {ours}"
        )

    def _new(self, conflict: Conflict) -> object:
        if self.scope is Scope.TRANSACTION and conflict.newest is not None:
            return conflict.newest
        return value_of(conflict.new, self.column)

    def _held(self, conflict: Conflict) -> object:
        return value_of(conflict.current, self.column)

    def _decided(self, conflict: Conflict, site_wins: bool, reason: str) -> Resolution:
        """The answer; a site that lost loses the group, the row or the transaction."""
        if site_wins:
            return Resolution(decision=Decision.SITE_WINS, reason=reason)
        return lost(conflict, self.scope, reason)


def _second(value: object) -> tuple[Any, ...]:
    """The rank of a timestamp without fractions of a second: Informix keeps none."""
    place = moment(value)
    if isinstance(value, datetime) and len(place) == 2:
        return place[0], place[1].replace(microsecond=0)
    return place


@dataclass(frozen=True, slots=True, kw_only=True)
class InformixDeleteWins(InformixTimestamp):
    """Informix, --conflict=deletewins: as timestamp, but a delete beats any update.

    A delete is applied however new the master's row is. An update of a row that is
    gone is undecided and never inserted (Informix writes it to a file for the
    operator). Two updates, and an insert of a row that is there, are decided as by
    informix_timestamp.

    Parameters:
        column: a date or timestamp column of the group or row, Informix's cdrtime.
        servers: optional, names of sites and their numbers; the lower one wins.
        server_column: optional, the column that holds the name of the site that
            last changed the row, Informix's cdrserver; the master if not given.
        scope: row if not given, or transaction.
    """

    name: ClassVar[str] = "informix_delete_wins"
    #: an update never brings a row back, whenever it was deleted
    asks_when_deleted: ClassVar[bool] = False

    def __call__(self, conflict: Conflict) -> Resolution:
        if conflict.kind is Kind.DELETE and conflict.current is None:
            if conflict.new is None:
                return Resolution(
                    decision=Decision.IGNORE, reason="the row is already gone"
                )
            return undecided("the row is gone, and an update does not bring it back")
        if conflict.kind is Kind.DELETE and conflict.new is None:
            return Resolution(decision=Decision.SITE_WINS, reason="the delete wins")
        return InformixTimestamp.__call__(self, conflict)


@dataclass(frozen=True, slots=True, kw_only=True)
class InformixIgnore:
    """Informix, --conflict=ignore: a call is applied if it can be, and else dropped.

    If the row is there, an update or delete is applied whatever the master changed, and
    an insert is dropped. If the row is gone, an update or delete is dropped. Give the
    rule to the primary key; Informix has none for another constraint.

    Parameters:
        scope: row if not given. With transaction, a call that would be dropped
            rejects the whole transaction, which waits in the error queue.
    """

    name: ClassVar[str] = "informix_ignore"
    kinds: ClassVar[frozenset[Kind]] = frozenset(Kind)
    #: one version stays, and rows that refer to it stay, too
    versions_of_one_row: ClassVar[bool] = True

    scope: Scope

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        check_names(cls.name, parameters, optional=["scope"])
        return cls(scope=chosen(cls.name, parameters, "scope", Scope.ROW))

    def reads(self) -> frozenset[str]:
        return frozenset()

    def takes(self) -> Mapping[str, Takes]:
        return {}

    def __call__(self, conflict: Conflict) -> Resolution:
        if conflict.kind is Kind.UNIQUENESS:
            return lost(conflict, self.scope, "the row is there")
        if conflict.kind is Kind.DELETE and conflict.current is None:
            return lost(conflict, self.scope, "the row is gone")
        return Resolution(decision=Decision.SITE_WINS, reason="the call can be applied")


@dataclass(frozen=True, slots=True, kw_only=True)
class InformixAlways(Plain):
    """Informix, --conflict=always: the master's row becomes equal to the site's.

    An insert overwrites the row that is there, an update inserts the row that is gone,
    a delete removes the row or finds it gone already. Update conflicts are decided as
    by overwrite. Give the rule to the primary key; Informix has none for another
    constraint.
    """

    name: ClassVar[str] = "informix_always"
    kinds: ClassVar[frozenset[Kind]] = frozenset(Kind)
    #: one version stays, and rows that refer to it stay, too
    versions_of_one_row: ClassVar[bool] = True

    def __call__(self, conflict: Conflict) -> Resolution:
        gone = conflict.current is None and conflict.new is None
        if conflict.kind is Kind.DELETE and gone:
            return Resolution(
                decision=Decision.IGNORE, reason="the row is already gone"
            )
        return Resolution(decision=Decision.SITE_WINS, reason="the site's row applies")
