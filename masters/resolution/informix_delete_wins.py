"""Informix's conflict rule delete wins: a delete beats any update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from masters.resolution.conflict import Conflict, Decision, Kind, Resolution, undecided
from masters.resolution.informix_timestamp import InformixTimestamp


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
