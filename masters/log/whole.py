"""Making a log record all parts of its table again.

A partition or inheritance child that came after the log has none of its triggers, and
ALTER TABLE ... DISABLE TRIGGER or ENABLE TRIGGER ALL changes those that are there.
Until then statements on the part itself are in no log.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from psycopg import errors as pg
from sqlalchemy import func, update

from masters.catalog import snapshot_log
from masters.errors import PartUnrecorded
from masters.log.catalog import find_log
from masters.log.log_function import EVENTS
from sites import QualifiedName, Site
from sites.capture import triggers
from sites.capture.triggers import Lacking
from sites.tables import locks
from sites.tables.table import Table, describe


def make(
    site: Site, name: QualifiedName, joined: Sequence[Collection[QualifiedName]]
) -> None:
    """Create the triggers of a log that are missing, and switch on those that are off.

    The log counts as a new one then, because nobody knows what was changed meanwhile:
    each snapshot is compared in full once. It does not if only parts have none of the
    triggers that every snapshot is still to see: all of their rows are compared anyway.

    Parameters:
        site: the master.
        joined: for each snapshot of the table in this refresh, the parts that it has
            not seen yet.

    Raises:
        PartUnrecorded: our user does not own a part.
        RecordedAlready: a part has the triggers of another table's log.
        psycopg.errors.LockNotAvailable: users write to a part.
        psycopg.errors.WrongObjectType: a part is a foreign table.
    """
    with site.transaction() as connection:
        locks.briefly(connection)
        log = find_log(connection, name)
        if log is None:
            return
        table = describe(connection, name)
        missing = triggers.lacking(
            connection, table, log.log_table, events=EVENTS, subscribed=True
        )
        try:
            triggers.attach(
                connection, table, log.log_table, events=EVENTS, subscribed=True
            )
        except pg.InsufficientPrivilege as error:
            raise _unrecorded(table, missing) from error
        if not all(one.is_new and _in_all(one.table, joined) for one in missing):
            connection.execute(
                update(snapshot_log)
                .where(snapshot_log.c.id == log.id)
                .values(created_xid=func.pg_current_xact_id())
            )


def _unrecorded(table: Table, missing: Sequence[Lacking]) -> PartUnrecorded:
    parts = [str(one.table) for one in missing]
    todo = "; ".join(s.as_string() for one in missing for s in one.statements())
    return PartUnrecorded(
        f"Not all changes of {', '.join(parts)} are recorded in the snapshot log of "
        f"{table.qualified}. As the owner, run: {todo}",
        table=str(table.qualified),
        parts=parts,
    )


def _in_all(part: QualifiedName, joined: Sequence[Collection[QualifiedName]]) -> bool:
    return bool(joined) and all(part in one for one in joined)
