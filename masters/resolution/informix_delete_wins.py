"""Informix's conflict rule delete wins: a delete beats any update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from masters.resolution.conflict import Conflict, Decision, Kind, Resolution, undecided
from masters.resolution.informix_timestamp import InformixTimestamp
from masters.resolution.method import check_names
from masters.resolution.takes import Takes


@dataclass(frozen=True, slots=True, kw_only=True)
class InformixDeleteWins:
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
    kinds: ClassVar[frozenset[Kind]] = frozenset(Kind)
    #: one version stays, and rows that refer to it stay, too
    versions_of_one_row: ClassVar[bool] = True
    #: the deciding column need not belong to the constraint
    compares_rows: ClassVar[bool] = True

    timestamp: InformixTimestamp

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        check_names(
            cls.name,
            parameters,
            required=["column"],
            optional=["servers", "server_column", "scope"],
        )
        return cls(timestamp=InformixTimestamp.build(parameters, columns))

    def reads(self) -> frozenset[str]:
        return self.timestamp.reads()

    def takes(self) -> Mapping[str, Takes]:
        return self.timestamp.takes()

    def __call__(self, conflict: Conflict) -> Resolution:
        if conflict.kind is Kind.DELETE and conflict.current is None:
            if conflict.new is None:
                return Resolution(
                    decision=Decision.IGNORE, reason="the row is already gone"
                )
            return undecided("the row is gone, and an update does not bring it back")
        if conflict.kind is Kind.DELETE and conflict.new is None:
            return Resolution(decision=Decision.SITE_WINS, reason="the delete wins")
        return self.timestamp(conflict)
