"""What the master tells: changes of its rows, arrivals, records, the error queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import TupleRow

from tests.oracle.histories.ledger import Row

#: Of a site's transaction and a row: site, transaction, table, key.
Named = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """A change of one row of the master."""

    number: int
    transaction: str
    table: str
    old: Row | None
    new: Row | None


@dataclass(frozen=True, slots=True)
class Record:
    """What was decided about a conflict."""

    kind: str
    method: str
    decision: str
    result: dict[str, Any] | None


@dataclass(slots=True)
class Told:
    """All that the master has told of so far.

    Parameters:
        seen: a row of a table, as the judge compares it.
    """

    session: psycopg.Connection[TupleRow]
    seen: Callable[[str, Row], Row] = lambda _, row: row
    #: rows of transactions that were ever in the error queue
    parked_rows: set[Named] = field(default_factory=set)
    #: site and transaction of those that were ever there
    parked: set[tuple[str, str]] = field(default_factory=set)
    #: those of them that have waited for another one
    dependants: set[tuple[str, str]] = field(default_factory=set)
    _seen: set[int] = field(default_factory=set)

    def look(self) -> list[tuple[int, str, str]]:
        """Look at the error queue; number, site and transaction of all there."""
        found = self._all(
            "SELECT id, origin, origin_transaction, reason"
            " FROM snaptide.error_transaction ORDER BY id"
        )
        for number, origin, transaction, reason in found:
            if reason == "dependant":
                self.dependants.add((origin, transaction))
            if number not in self._seen:
                self._seen.add(number)
                self.parked.add((origin, transaction))
                self._note_rows(number, origin, transaction)
        return [(int(n), str(o), str(t)) for n, o, t, _ in found]

    def _note_rows(self, number: int, origin: str, transaction: str) -> None:
        for table, old, new in self._all(
            "SELECT target_table, old_values, new_values FROM snaptide.error_call"
            " WHERE error_id = %s",
            number,
        ):
            for image in (old, new):
                if image:
                    key = str(image.get("id"))
                    self.parked_rows.add((origin, transaction, table, key))

    def entries(self) -> list[Entry]:
        """All changes of rows, in order."""
        found = self._all("SELECT seq, xid, tab, old, new FROM audit ORDER BY seq")
        return [
            Entry(n, xid, table, *(row and self.seen(table, row) for row in images))
            for n, xid, table, *images in found
        ]

    def arrivals(self) -> list[tuple[str, str]]:
        """Receipts, and the transaction of the master that each arrived in."""
        return [(str(i), str(x)) for i, x in self._all("SELECT id, xid FROM arrival")]

    def position(self) -> int:
        """The number of the last change of a row."""
        [(number,)] = self._all("SELECT coalesce(max(seq), 0) FROM audit")
        return int(number)

    def parked_receipts(self) -> list[str]:
        """The receipts of what is in the error queue."""
        return [
            str(one)
            for (one,) in self._all(
                "SELECT new_values ->> 'id' FROM snaptide.error_call"
                " WHERE target_table = 'receipt' AND new_values IS NOT NULL"
            )
        ]

    def records(self) -> dict[Named, list[Record]]:
        """What was decided about conflicts, by the row's key; the first one first."""
        found: dict[Named, list[Record]] = defaultdict(list)
        for row in self._records():
            origin, transaction, table, kind, method, decision, key, new, result = row
            keys = {str((image or {}).get("id")) for image in (key, new, result)}
            for one in keys - {"None"}:
                found[origin, transaction, table, one].append(
                    Record(kind, method, decision, result)
                )
        return found

    def taken_along(self) -> dict[tuple[str, str], str]:
        """By site and transaction, what the rule cascade let foreign keys change."""
        found: defaultdict[tuple[str, str], str] = defaultdict(str)
        for site, transaction, reason in self._all(
            "SELECT origin, origin_transaction, reason FROM snaptide.resolution_record"
            " WHERE method = 'cascade'"
        ):
            found[site, transaction] += f"{reason} "
        return found

    def _records(self) -> Iterator[tuple[Any, ...]]:
        yield from self._all(
            "SELECT origin, origin_transaction, table_name, kind, method, decision,"
            " row_key, new_values, result_values FROM snaptide.resolution_record"
            " ORDER BY id"
        )

    def _all(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self.session.transaction():
            return self.session.execute(query, values or None).fetchall()
