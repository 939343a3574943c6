"""The first load: straight into the empty base table, before users can see it."""

from __future__ import annotations

import uuid

from sqlalchemy import Connection, func, select

from sites import ddl, ranges, roles
from sites.activity import Progress
from sites.site import Site
from sites.transport import copy_in, literal_text
from snapshots import base_table, images, parallel_copy
from snapshots.definition import Definition
from snapshots.errors import FirstLoadByAnother
from snapshots.window import Member

#: A table is loaded by one load at a time, which is known by the table's name: what
#: a load that died has left is found by the next.
_LOADS = uuid.UUID("6f0c5d0e-5a0b-4b5e-9a43-6a6f61642424")

#: For a table that nobody but the server's own processes can hold.
LOCK_TIMEOUT = "60s"


def copy(
    site: Site,
    master: Site,
    reader: Connection,
    moment: str,
    member: Member,
    progress: Progress | None,
) -> int:
    """Fill a base table, in ranges of the master table side by side; commits.

    What an earlier attempt left is removed first.

    Parameters:
        reader: the transaction at the master that exported `moment`, kept open.

    Returns:
        How many rows were written.

    Raises:
        FirstLoadByAnother: the site's user does not own the table.
        LoadFailed: a range could not be copied.
    """
    from snapshots.spark.load import CopyJob

    load_id = uuid.uuid5(_LOADS, str(member.snapshot.base))
    with site.begin() as connection:
        _refuse_another(connection, member)
        parallel_copy.end(connection, load_id)
        ddl.truncate(connection, member.snapshot.base)
    parts = ranges.ctid_ranges(reader, member.snapshot.master)
    target = copy_in(member.base.sql(), member.carried).as_string()
    jobs = [
        CopyJob(
            select=literal_text(images.rows_of(member, part)),
            copy=target,
            into=member.base.qualified,
        )
        for part in parts
    ]
    return parallel_copy.run(master, site, jobs, moment, load_id, progress)


def _refuse_another(connection: Connection, member: Member) -> None:
    """A load adds constraints and triggers to the table, as its owner alone may."""
    if not roles.owns(connection, member.snapshot.base):
        raise FirstLoadByAnother(
            f"Snapshot {member.snapshot.key} is not filled yet, and the user of the "
            "site does not own it.",
            snapshot=member.snapshot.key,
        )


def claim(connection: Connection, member: Member) -> None:
    """Have the loaded table alone, before a merge begins that waits for nobody.

    The server may be about to count its rows (autovacuum), and gives way only to
    who has waited for deadlock_timeout. No user can see the table yet.
    """
    timeout = func.set_config("lock_timeout", LOCK_TIMEOUT, True)
    connection.execute(select(timeout))
    ddl.lock(connection, member.snapshot.base)


def finish(
    connection: Connection, member: Member, definition: Definition, master: str
) -> None:
    """Add constraints, triggers and the user view; users may come when it commits."""
    base_table.constrain(connection, member.snapshot, definition)
    base_table.open_to_users(connection, member.snapshot, definition, master)
