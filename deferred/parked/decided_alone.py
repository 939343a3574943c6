"""Listing rows of a group about which this master decides alone.

A rule that does not converge may settle a change of another master in another way than
its rule does, and what foreign keys do in answer to such a change is not sent on.
A change that begins here is another matter: what rules and foreign keys make of it goes
to the other masters as this master's change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Connection, Subquery, func, select

from deferred.batches.relay import of_groups
from deferred.parked import differing
from masters.analysis import convergence
from masters.analysis.convergence import Topology
from masters.apply.reference_record import Cause
from masters.catalog import group_schema, registered_snapshot
from sites import QualifiedName


class _Place(NamedTuple):
    """A table of a group, and where else it is."""

    group_id: UUID
    #: the master at which the change began
    began_at: str
    topology: Topology


@dataclass(slots=True, kw_only=True)
class DecidedAlone:
    """Lists rows of a transaction that has come to this master from another one."""

    connection: Connection
    #: by id of a group, the master at which the transaction began
    sources: Mapping[str, str]
    _known: dict[QualifiedName, _Place | None] = field(default_factory=dict)

    def __call__(
        self, table: QualifiedName, keys: Callable[[], Subquery], cause: Cause | None
    ) -> None:
        place = self._place(table)
        if place is None:
            return
        if cause is None:
            why = (
                f"a foreign key acted on rows that a change of {place.began_at} reached"
            )
        elif self._diverges(cause, place):
            why = (
                f"rule {cause.rule.method} settled a change of {place.began_at} in "
                "another way than other masters may"
            )
        else:
            return
        differing.note_keys(self.connection, place.group_id, table, keys(), why)

    def _diverges(self, cause: Cause, place: _Place) -> bool:
        where = (self._place(cause.rules.table) or place).topology
        if cause.made.origin not in (None, place.began_at):
            # A snapshot of that master made it.
            where = Topology(masters=where.masters, snapshots=where.snapshots + 1)
        reason = convergence.of_rule(cause.rule, cause.rules.rules, where)
        return reason is not None

    def _place(self, table: QualifiedName) -> _Place | None:
        """Where a table is, if the change has come to its group from another master."""
        if table not in self._known:
            self._known[table] = self._read(table)
        return self._known[table]

    def _read(self, table: QualifiedName) -> _Place | None:
        snapshot, at = registered_snapshot.c, group_schema.c
        updatable = select(func.count()).where(
            snapshot.updatable,
            snapshot.table_schema == table.schema,
            snapshot.table_name == table.name,
        )
        row = self.connection.execute(
            select(at.group_id, updatable.scalar_subquery().label("snapshots")).where(
                at.table_schema == table.schema, at.table_name == table.name
            )
        ).one_or_none()
        if row is None or not (began_at := self.sources.get(str(row.group_id))):
            return None
        masters = of_groups().masters(self.connection, row.group_id)
        return _Place(
            group_id=row.group_id,
            began_at=began_at,
            topology=Topology(masters=masters, snapshots=row.snapshots),
        )
