"""The first load: straight into the empty base table, before users can see it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg.errors import ProgramLimitExceeded
from sqlalchemy import Connection, func, select, text

from sites.conditions import planned, ranges
from sites.conditions.ranges import Range
from sites.progress import Progress
from sites.sessions.site import Site
from sites.tables import ddl, roles
from sites.transfer.transport import copy_in, literal_text
from snapshots import catalog
from snapshots.creating import base_table
from snapshots.definitions.definition import Definition
from snapshots.definitions.snapshot import Snapshot, change, named
from snapshots.differences import images, parallel_copy
from snapshots.differences.window import Member
from snapshots.errors import FirstLoadByAnother, PositionMoved
from snapshots.spark import claims
from snapshots.spark.claims import Load

if TYPE_CHECKING:
    from snapshots.spark.errors import LoadFailed

#: Types whose values all versions of the server send and receive alike, as
#: `format_type()` prints them.
_SENT_ALIKE = frozenset(
    {
        *("bytea", "text", "uuid", "boolean", "smallint", "integer", "bigint"),
        *("date", "timestamp with time zone", "timestamp without time zone"),
    }
)

#: Columns of a table whose values cannot leave the row, though their type allows it.
_PLAIN = text(
    "SELECT quote_ident(a.attname) FROM pg_attribute a JOIN pg_type t"
    " ON t.oid = a.atttypid WHERE a.attrelid = :table AND a.attnum > 0"
    " AND NOT a.attisdropped AND a.attstorage = 'p' AND t.typstorage <> 'p'"
    " ORDER BY a.attnum"
)

#: For a table that only the server's own processes can have locked.
LOCK_TIMEOUT = "60s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A base table that is filled, and not yet one that users see."""

    rows: int
    load: Load


def copy(
    site: Site,
    master: Site,
    reader: Connection,
    moment: str,
    member: Member,
    progress: Progress | None,
) -> Loaded:
    """Fill a base table from ranges of the master table, in parallel; commits.

    The remains of an earlier attempt are removed first. The load goes on until `claim`
    ends it.

    Parameters:
        reader: the transaction at the master that exported `moment`, kept open.

    Raises:
        FirstLoadByAnother: the site's user does not own the table.
        PositionMoved: another process has filled it meanwhile.
        LoadFailed: a range could not be copied; RowTooLong, if a row does not fit.
    """
    from snapshots.spark.errors import LoadFailed
    from snapshots.spark.load import CopyJob

    load = claims.load_of(member.snapshot.base, moment)
    with site.transaction() as connection:
        begin(connection, member.snapshot, load)
    parts = _ranges(reader, member)
    target = copy_in(member.base.sql(), member.carried).as_string()
    jobs = [
        CopyJob(
            select=literal_text(images.rows_of(member, part)),
            copy=target,
            into=member.base.qualified,
            binary=_travels_in_binary(member),
            bytes=part.bytes,
        )
        for part in parts
    ]
    try:
        rows = parallel_copy.run(master, site, jobs, load, progress)
    except LoadFailed as error:
        if error.facts.get("raised") == ProgramLimitExceeded.__name__:
            _refuse_plain(site, member, error)
        raise
    return Loaded(rows=rows, load=load)


def _refuse_plain(site: Site, member: Member, error: LoadFailed) -> None:
    """If columns of the base table keep long values in the row, name them."""
    from snapshots.spark.errors import RowTooLong

    with site.transaction() as connection:
        plain = connection.scalars(_PLAIN, {"table": member.base.oid}).all()
    if plain:
        raise RowTooLong(
            f"PostgreSQL refused a row of {member.base.qualified} ({error.message}), "
            f"of which these columns have STORAGE PLAIN: {', '.join(plain)}.",
            table=str(member.base.qualified),
            columns=tuple(plain),
        ) from None


def _ranges(reader: Connection, member: Member) -> Sequence[Range]:
    """The ranges of the master table to copy.

    A range of pages is read whole, whatever the condition. So where an index finds the
    rows of the snapshot, and a task copies all of them, there is one range: else a
    thousand sites would read a large table a thousand times.
    """
    master = member.snapshot.master
    divided = ranges.ctid_ranges(reader, master)
    if member.snapshot.condition is None:
        return divided
    at_once = ranges.ctid_ranges(reader, master, parts=1)
    if len(at_once) < len(divided) and all(
        planned.is_small_by_index(
            reader, images.rows_of(member, one), ranges.PART_BYTES
        )
        for one in at_once
    ):
        return at_once
    return divided


def _travels_in_binary(member: Member) -> bool:
    """Whether rows have bytes, which are twice as long as text, and fit unprinted."""
    there, here = (
        [table.column(name).type for name in member.carried]
        for table in (member.master, member.base)
    )
    return not member.old and fit_in_binary(there, here)


def fit_in_binary(there: Sequence[str], here: Sequence[str]) -> bool:
    """The same by the types of the columns at both sides."""
    return there == here and "bytea" in here and _SENT_ALIKE.issuperset(here)


def begin(
    connection: Connection,
    snapshot: Snapshot,
    load: Load,
    image: uuid.UUID | None = None,
) -> None:
    """Begin a load, and remove the remains of an earlier one, which writes no more.

    Parameters:
        image: whose rows are to come; None if they come from the master.

    Raises:
        FirstLoadByAnother: the site's user does not own the table.
        PositionMoved: another process has filled it meanwhile; users may write to it.
    """
    _refuse_another(connection, snapshot)
    at = catalog.snapshot.c
    unfilled = select(at.name).where(named(snapshot), ~at.loaded).with_for_update()
    if connection.scalar(unfilled) is None:
        raise PositionMoved(f"Snapshot {snapshot.key} was filled in the meantime.")
    claims.forget(connection, load.id)
    ddl.truncate(connection, snapshot.base)
    claims.begin(connection, load)
    connection.execute(change(snapshot).values(image=image))


def _refuse_another(connection: Connection, snapshot: Snapshot) -> None:
    """Refuse another owner's table: a load adds constraints and triggers to it."""
    if not roles.owns(connection, snapshot.base):
        raise FirstLoadByAnother(
            f"Snapshot {snapshot.key} is not filled yet, and the site's user does not "
            "own it.",
            snapshot=snapshot.key,
        )


def claim(connection: Connection, member: Member, load: Load) -> None:
    """End a load, and lock its table before the merge, which hardly waits for locks.

    The server may be counting its rows (autovacuum), and gives way only to a session
    that has waited for deadlock_timeout. No user can see the table yet.

    Raises:
        PositionMoved: another process has emptied the table since.
    """
    timeout = func.set_config("lock_timeout", LOCK_TIMEOUT, True)
    connection.execute(select(timeout))
    if not claims.end(connection, load):
        raise superseded(member.snapshot)
    ddl.lock(connection, member.snapshot.base)


def superseded(snapshot: Snapshot) -> PositionMoved:
    """The error of a load that has ended because another process has begun one."""
    return PositionMoved(
        f"Another process has begun to fill {snapshot.key}.", snapshot=snapshot.key
    )


def finish(
    connection: Connection, member: Member, definition: Definition, master: str
) -> None:
    """Add constraints, triggers and the user view, which users see after the commit."""
    base_table.constrain(connection, member.snapshot, definition)
    base_table.open_to_users(connection, member.snapshot, definition, master)
