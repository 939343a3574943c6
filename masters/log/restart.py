"""Restarting the snapshot logs of a master after a repair of its database.

Earlier positions mean nothing any more: every group is compared completely once,
because the master's incarnation is another. Changes logged from now on are kept for
all registered snapshots (docs/explanation/identity.md).
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection, delete, func, select, update

from masters.catalog import registered_snapshot, snapshot_log
from masters.contract_catalog import contract, late_refresh, position_time
from masters.log import images
from sites.capture import position
from sites.catalog import SCHEMA
from sites.transfer.types import Xid8


def restart_logs(connection: Connection) -> int:
    """Start the logs anew; return how many rows of other clusters were removed.

    Images of the time before cannot be loaded any more, and are forgotten, and so are
    the times of its positions. Writes the logs, snapshot_log, image, position_time,
    registered_snapshot and late_refresh.
    """
    images.forget_all(connection)
    connection.execute(delete(position_time))
    removed = 0
    for name in connection.scalars(select(snapshot_log.c.log_table)).all():
        log = sa.table(name, sa.column("xid", Xid8()), schema=SCHEMA)
        now = func.pg_snapshot_xmax(func.pg_current_snapshot())
        removed += connection.execute(delete(log).where(log.c.xid >= now)).rowcount
    connection.execute(
        update(snapshot_log).values(
            created_xid=position.xid8(3), horizon=position.xid8(0)
        )
    )
    connection.execute(
        update(registered_snapshot)
        .where(registered_snapshot.c.position.is_not(None))
        .values(position=func.pg_current_snapshot())
    )
    connection.execute(delete(late_refresh))
    return removed


def forget_sites(connection: Connection) -> None:
    """Forget the snapshots of all sites: they are refreshed from the original."""
    connection.execute(delete(contract))
    connection.execute(delete(registered_snapshot))
