"""Checks that a snapshot can hold each value of its master unchanged.

If a type refuses a value (a text too long, a number out of range), the refresh says so.
If a type rounds or cuts it, the site would silently hold another value.
"""

from __future__ import annotations

from sites.tables import lossy
from sites.tables.table import Table
from snapshots.definitions.snapshot import Snapshot
from snapshots.errors import ColumnChanged


def refuse_lossy(snapshot: Snapshot, table: Table, base: Table) -> None:
    """Make sure that no value of the master would be changed on its way.

    Parameters:
        table, base: the master table, and the snapshot's own.

    Raises:
        ColumnChanged: a column has another type now, which might change a value.
    """
    for name in snapshot.columns:
        there, here = table.column(name), base.column(name)
        if there.type != here.type and not lossy.holds(here.recorded, there.recorded):
            raise ColumnChanged(
                f"{snapshot.master}.{name} is {there.type} at the master, but "
                f"{here.type} in {snapshot.key}.",
                snapshot=snapshot.key,
                column=name,
            )
