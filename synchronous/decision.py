"""Asks the deciding site, which alone knows how a coordinated transaction ended."""

from __future__ import annotations

from enum import Enum

import sqlalchemy as sa
from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from deferred.catalog import decision
from sites.sessions import identity
from synchronous.gid import Gid


class Answer(Enum):
    """An answer of the deciding site."""

    COMMITTED = "commit"
    ROLLED_BACK = "rollback"
    #: the coordinator may be alive, and may still decide
    IN_PROGRESS = "in progress"
    #: it is no longer the database that the name speaks of
    ANOTHER_SITE = "another site"


def ask(connection: Connection, gid: Gid) -> Answer:
    """Ask the deciding site, in a READ COMMITTED transaction.

    It asks first whether the transaction is over; only then, in a later snapshot, for
    the decision: in the other order, it could be written in between.

    Raises:
        SiteNotInitialised.
    """
    known = identity.read(connection, partner=True)
    if not gid.decided_by(known) or identity.differences(connection, partner=True):
        return Answer.ANOTHER_SITE
    if _in_progress(connection, gid.xid):
        return Answer.IN_PROGRESS
    found = connection.scalar(
        select(sa.exists().where(decision.c.gid == gid.transaction))
    )
    return Answer.COMMITTED if found else Answer.ROLLED_BACK


def _in_progress(connection: Connection, xid: int) -> bool:
    """Whether a transaction is still open; one that a crash undid is not."""
    state = sa.func.pg_xact_status(sa.literal_column(f"'{xid}'::xid8"))
    try:
        with connection.begin_nested():
            return connection.scalar(select(state)) == "in progress"
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != "22023":
            raise
        # "in the future": the id has not been given again since the crash.
        return False
