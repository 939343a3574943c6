"""Masters that snapshots were refreshed from before, until they have been told.

A master keeps its log for every snapshot that it knows. One that was away when the
snapshot was switched to another master is told when it is back.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, func, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError

from masters.log import registration
from sites import faults, identity
from sites.errors import SnaptideError
from sites.site import Site
from snapshots.catalog import former_master

#: One that is away is not tried more often: who waits for a line waits long.
PAUSE = timedelta(minutes=10)


def remember(
    connection: Connection, master: str, master_id: uuid.UUID, snapshots: Sequence[str]
) -> None:
    """Note that a master has to be told that these are its snapshots no more."""
    for name in snapshots:
        connection.execute(
            insert(former_master)
            .values(master_id=master_id, snapshot=name, master=master)
            .on_conflict_do_nothing()
        )


def forget(
    connection: Connection, master_id: uuid.UUID, snapshots: Sequence[str]
) -> None:
    """Tell a master nothing: it has been told, or is their master again."""
    connection.execute(
        sa.delete(former_master).where(
            former_master.c.master_id == master_id,
            former_master.c.snapshot.in_(snapshots),
        )
    )


@contextmanager
def untold(site: Site, master: str) -> Iterator[None]:
    """Have a master not be told while snapshots come to it, perhaps back.

    They are registered there before the site forgets that they left.
    """
    with site.connect() as connection:
        turn = _turn(master)
        connection.execute(select(func.pg_advisory_lock_shared(*turn)))
        connection.commit()
        try:
            yield
        finally:
            if not connection.invalidated:
                connection.rollback()
                connection.execute(select(func.pg_advisory_unlock_shared(*turn)))
                connection.commit()


def tell(site: Site, *, pause: timedelta = PAUSE) -> list[str]:
    """Take snapshots from the registers of masters that they have left; commits.

    Parameters:
        pause: one that did not answer is left in peace for so long.

    Returns:
        The masters that could not be told.
    """
    tried = former_master.c.tried_at
    old = func.clock_timestamp() - sa.cast(pause, sa.Interval)
    with site.begin() as connection:
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
        _tell_one(site, me.site_id, master, master_id, names)
    with site.begin() as connection:
        left = select(former_master.c.master).distinct().order_by("master")
        return list(connection.scalars(left))


def _tell_one(
    site: Site, site_id: uuid.UUID, master: str, master_id: uuid.UUID, names: list[str]
) -> None:
    with site.begin() as here:
        turn = func.pg_try_advisory_xact_lock(*_turn(master))
        if not here.scalar(select(turn)):
            return  # some of them may come back just now
        names = _still_left(here, master_id, names)
        try:
            with site.peer(master).begin() as connection:
                # Another database of that name has registered nothing of the kind.
                if identity.read(connection).site_id == master_id:
                    registration.unregister(connection, site_id, names)
        except (SnaptideError, SQLAlchemyError):
            return  # next time
        forget(here, master_id, names)


def _still_left(
    connection: Connection, master_id: uuid.UUID, names: Sequence[str]
) -> list[str]:
    """Those of the snapshots whose master it has not become again meanwhile."""
    found = select(former_master.c.snapshot).where(
        former_master.c.master_id == master_id, former_master.c.snapshot.in_(names)
    )
    return list(connection.scalars(found))


def _turn(master: str) -> tuple[ColumnElement[int], ColumnElement[int]]:
    return func.hashtext("snaptide.former"), func.hashtext(master)
