"""Sending rows that the master kept once more, to every snapshot that has them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select, union_all

from masters.apply.images import chosen
from masters.catalog import snapshot_log
from masters.log import ring
from sites.writing.staged import MOVE, Staged


def resend(
    connection: Connection, staged: Staged, unit: int, call_nos: Sequence[int]
) -> None:
    """Note the keys of staged rows in the snapshot log, as if they had changed.

    The next refresh of each snapshot reads these rows, or finds that they are gone. A
    table without a log has no snapshot that reads single rows. Writes the snapshot log.
    """
    if not call_nos:
        return
    table = staged.table
    log = connection.execute(
        select(snapshot_log.c.log_table, snapshot_log.c.identity_columns).where(
            snapshot_log.c.table_schema == table.schema,
            snapshot_log.c.table_name == table.name,
        )
    ).one_or_none()
    if log is None or not set(log.identity_columns) <= set(staged.columns):
        return
    mine = chosen(staged, unit, call_nos)
    keys = union_all(
        select(*(staged.key(name) for name in log.identity_columns)).where(mine),
        select(*(staged.new(name) for name in log.identity_columns)).where(
            mine, staged.kind(MOVE)
        ),
    )
    connection.execute(ring.noted(log.log_table, keys))
