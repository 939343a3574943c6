"""Unregisters snapshots at their former masters, as soon as these can be reached.

A master keeps its log for every snapshot that it knows. If it was away when a snapshot
was switched to another master, the snapshot is unregistered when it is back.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

import sqlalchemy as sa
from sqlalchemy import Connection, func, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError

from masters.log import registration
from sites import faults
from sites.errors import SnaptideError
from sites.sessions import identity
from sites.sessions.site import Site
from sites.tables import locks
from snapshots.catalog import former_master

#: A master that is away is not tried more often: waiting for a connection takes long.
PAUSE = timedelta(minutes=10)

_turn = partial(locks.lock_on, "snaptide.former")


def remember(
    connection: Connection, master: str, master_id: uuid.UUID, snapshots: Sequence[str]
) -> None:
    """Note that these snapshots are to be unregistered at a master they have left."""
    for name in snapshots:
        connection.execute(
            insert(former_master)
            .values(master_id=master_id, snapshot=name, master=master)
            .on_conflict_do_nothing()
        )


def forget(
    connection: Connection, master_id: uuid.UUID, snapshots: Sequence[str]
) -> None:
    """Delete the note: the master has unregistered them, or is theirs again."""
    connection.execute(
        sa.delete(former_master).where(
            former_master.c.master_id == master_id,
            former_master.c.snapshot.in_(snapshots),
        )
    )


def give_up(connection: Connection, master: str, snapshot: str) -> bool:
    """Tell a master that is lost for good no more that a snapshot has left it.

    Returns:
        Whether it was still to be told.
    """
    noted = former_master.c
    gone = sa.delete(former_master).where(
        noted.master == master, noted.snapshot == snapshot
    )
    return connection.execute(gone).rowcount > 0


@contextmanager
def defer_unregister(site: Site, master: str) -> Iterator[None]:
    """Keep `unregister_at_former` from a master to which snapshots come, perhaps back.

    They are registered there before the site deletes the note that they left.
    """
    with (
        site.session() as connection,
        locks.session_lock(connection, _turn(master), shared=True),
    ):
        yield


def unregister_at_former(site: Site, *, pause: timedelta = PAUSE) -> list[str]:
    """Unregister snapshots at masters that they have left; commits.

    Parameters:
        pause: how long a master that did not answer is left alone.

    Returns:
        The masters at which snapshots are still to be unregistered.
    """
    tried = former_master.c.tried_at
    old = func.clock_timestamp() - sa.cast(pause, sa.Interval)
    with site.transaction() as connection:
        due = connection.execute(
            sa.update(former_master)
            .where(or_(tried.is_(None), tried <= old))
            .values(tried_at=func.clock_timestamp())
            .returning(
                former_master.c.master,
                former_master.c.master_id,
                former_master.c.snapshot,
            )
        ).all()
        if not due:
            return []
        me = identity.read(connection)
    for master, master_id in dict.fromkeys((row.master, row.master_id) for row in due):
        names = [row.snapshot for row in due if row.master_id == master_id]
        faults.point("former.before_tell")
        _unregister_at(site, me.site_id, master, master_id, names)
    with site.transaction() as connection:
        left = select(former_master.c.master).distinct().order_by("master")
        return list(connection.scalars(left))


def _unregister_at(
    site: Site, site_id: uuid.UUID, master: str, master_id: uuid.UUID, names: list[str]
) -> None:
    with site.transaction() as here:
        turn = func.pg_try_advisory_xact_lock(*_turn(master))
        if not here.scalar(select(turn)):
            return  # some of them may be coming back at this moment
        names = _still_left(here, master_id, names)
        try:
            with site.peer(master).transaction() as connection:
                them = identity.confirm(connection, master, partner=True)
                if them.site_id != master_id:
                    return  # the database that keeps its log may have its name again
                registration.unregister(connection, site_id, names)
        except (SnaptideError, SQLAlchemyError):
            return  # next time
        forget(here, master_id, names)


def _still_left(
    connection: Connection, master_id: uuid.UUID, names: Sequence[str]
) -> list[str]:
    """Those of the snapshots that have not come back to the master meanwhile."""
    found = select(former_master.c.snapshot).where(
        former_master.c.master_id == master_id, former_master.c.snapshot.in_(names)
    )
    return list(connection.scalars(found))
