"""Explains rows that differ between masters, by what is queued, parked and listed.

Each reason is decided by a fact, in the order of `CheckReason`; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from sqlalchemy import select

from deferred.error_catalog import error_procedure
from deferred.parked import differing, parked_rows
from groups.check import away, queued
from groups.check.moments import Held
from groups.check.report import CheckReason
from groups.check.rows import Rows
from sites.transfer.types import NativeType
from snapshots.definitions.snapshot import key_types
from snapshots.keys import as_rows, numbered

if TYPE_CHECKING:
    import pyarrow as pa

    from snapshots.keys import Keys

#: A key as texts.
Key = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Explained:
    """Why a row differs, with what is known besides."""

    reason: CheckReason
    detail: str | None = None
    transaction: str | None = None
    since: datetime | None = None
    #: of a row that was decided about, why a change of it may be on its way besides
    doubt: str | None = None

    @property
    def is_settled(self) -> bool:
        """Whether nothing that is on its way, or parked, will make the row equal."""
        decided = self.reason is CheckReason.DECIDED and self.doubt is None
        return decided or self.reason is CheckReason.UNEXPLAINED


class Reasons:
    """What is known of the rows of one table; read when it is asked for."""

    def __init__(self, held: Held, rows: Rows) -> None:
        self._held = held
        self._rows = rows

    def explain(self, found: pa.Table) -> list[Explained]:
        """Say of each row that differs why it does.

        Parameters:
            found: as `spark.diff.apart` tells them.
        """
        if not found.num_rows:
            return []
        wanted = found.select(self._rows.key_names)
        kinds = key_types(self._rows.table, self._rows.table.key)
        asked = numbered(wanted, kinds)
        name = self._rows.table.qualified
        flying = queued.on_the_way(self._held, name, asked)
        hidden = away.sent_on_by(self._held, name, asked)
        keys: list[Key] = [*zip(*(c.to_pylist() for c in wanted.columns), strict=True)]
        parked = self._parked(wanted)
        return [
            (flying.get(number) and _in_flight(flying[number]))
            or parked.get(key)
            or self._by_decision(key, hidden.get(number))
            or self._unproven(hidden.get(number))
            or Explained(CheckReason.UNEXPLAINED)
            for number, key in enumerate(keys)
        ]

    def _by_decision(self, key: Key, hidden: str | None) -> Explained | None:
        why = self._decided.get(key) or self._decided.get(None)
        if why is None:
            return None
        return Explained(CheckReason.DECIDED, why, doubt=hidden or self._unknown)

    def _unproven(self, why: str | None) -> Explained | None:
        why = why or self._unknown
        return None if why is None else Explained(CheckReason.UNPROVEN, why)

    def _parked(self, wanted: Keys) -> Mapping[Key, Explained]:
        """Those that are in an error queue: of either moment, see `groups.check`.

        An error queue may hold more rows than this process.
        """
        table = self._rows.table
        among = as_rows(wanted, [NativeType("text")] * len(table.key))
        found: dict[Key, Explained] = {}
        for one in self._held.masters:
            for connection in (one.later, one.at):
                for row in parked_rows.of_table(
                    connection, table.qualified, table.key, among=among
                ):
                    found[row.key] = Explained(
                        CheckReason.PARKED,
                        f"error {row.error_id} at {one.name}",
                        f"{row.transaction} of {row.origin}",
                    )
        return found

    @cached_property
    def _decided(self) -> Mapping[Key | None, str]:
        """The rows that are listed; all rows of the table under None."""
        table = self._rows.table
        found: dict[Key | None, str] = {}
        for one in self._held.masters:
            for connection in (one.later, one.at):
                for row in differing.listed(connection, self._held.group.id):
                    if row.table == table.qualified:
                        listed = row.key
                        key = listed and tuple(listed.get(n) for n in table.key)
                        found[key or None] = f"{row.why}, at {one.name}"
        return found

    @cached_property
    def _unknown(self) -> str | None:
        """Why changes may be on their way whose rows cannot be known."""
        return next(self._unknowns(), None)

    def _unknowns(self) -> Iterator[str]:
        yield from self._held.doubts.values()
        yield from queued.procedures(self._held)
        for one in self._held.masters:
            for connection in (one.later, one.at):
                call = connection.execute(
                    select(error_procedure.c.error_id, error_procedure.c.name).limit(1)
                ).one_or_none()
                if call is not None:
                    yield (
                        f"error {call.error_id} at {one.name} calls {call.name}, "
                        "which may change any row"
                    )
        yield from away.brought(self._held)


def _in_flight(call: queued.Call) -> Explained:
    return Explained(CheckReason.IN_FLIGHT, call.where, call.transaction, call.began)
