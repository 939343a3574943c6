"""Fills new columns of a snapshot from its master, before users see them.

That may take long, and is done a few rows at a time. Users go on writing; a row that
one has locked is left to the next refresh. No moment is held at the master either: a
row that changes there meanwhile is in the log since the position that the group shows,
so the next refresh reads it again in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import sqlalchemy as sa
from psycopg import errors as pg
from psycopg import sql
from sqlalchemy import ColumnElement, Connection, Select, func, select
from sqlalchemy.exc import DBAPIError, OperationalError

from sites import faults
from sites.conditions import ranges, where
from sites.conditions.ranges import Range
from sites.errors import SiteUnreachable
from sites.progress import Progress
from sites.sessions import identity
from sites.sessions.exchange import raw
from sites.sessions.site import Site
from sites.tables import ddl, locks
from sites.tables.ddl import NewColumn
from sites.tables.table import Table, describe
from sites.transfer.transport import PIECE, copy_out, copy_pieces, literal_text
from sites.transfer.types import NativeType
from sites.writing.triggered import users_search_path
from snapshots.creating import columns_altered
from snapshots.creating.columns_plan import Plan
from snapshots.definitions.snapshot import Snapshot, key_types
from snapshots.differences import images
from snapshots.merging import merge
from snapshots.merging.held_back import LOCKED
from snapshots.merging.held_keys import BETWEEN, HELD

#: How long users may have to wait behind us while we wait for a lock.
LOCK_TIMEOUT = "50ms"

#: How many pages of the master table are read at a time: 2 MB, which is some twenty
#: thousand rows, and some forty milliseconds that another session may have to wait.
PAGES = 256

#: More bytes than this wait in a file for their turn: large values are not in the pages
#: that are counted, and some tables are not read by pages.
IN_MEMORY = 16 * 1024 * 1024

_STAGE = "snaptide_fill"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filling:
    """The columns to fill, and the table through which their values come."""

    snapshot: Snapshot
    master: Table
    base: Table
    #: the keys k1, k2, ... and new values of some rows, and the `place` of those here
    #: that are locked
    stage: sa.TableClause
    #: by new column, the value that rows have as long as it is not filled
    before: Mapping[str, ColumnElement[Any]]
    #: by new column, its name in the base table as long as nobody sees it
    unseen: Mapping[str, str]

    @property
    def columns(self) -> list[str]:
        """Those of the stage that are read from the master, in their order."""
        return [column.name for column in self.stage.c if column.name != "place"]

    def same_row(self, keys: Iterable[ColumnElement[Any]]) -> ColumnElement[bool]:
        """Whether these keys are those of a staged row."""
        names = self.snapshot.key_names
        pairs = zip(keys, names, strict=True)
        return sa.and_(*(key == self.stage.c[name] for key, name in pairs))


@contextmanager
def filled(
    site: Site, plan: Plan, progress: Progress | None = None
) -> Iterator[int | None]:
    """Add new columns to the base table and fill them; the block shows them to users.

    If the block fails, they are dropped. After a crash the next one drops them.

    Parameters:
        plan: the caller holds the lock of the group's refreshes.
        progress: is told how many pages of the master table have been read.

    Yields:
        How many rows got another value than they have by default; None if the next
        refresh has to compare all rows, because the site refused a value, or the
        condition asks other tables.
    """
    if not plan.wanted.add:
        yield None
        return
    _alone(site, partial(columns_altered.add_unseen, plan=plan))
    try:
        yield _filled(site, plan, progress)
    except BaseException:
        with suppress(DBAPIError, SiteUnreachable):
            _alone(site, partial(columns_altered.remove_unseen, plan=plan))
        raise


def _alone(site: Site, work: Callable[[Connection], None]) -> None:
    for attempt in locks.patiently():
        with attempt, site.transaction() as connection:
            locks.briefly(connection, LOCK_TIMEOUT)
            work(connection)


def _filled(site: Site, plan: Plan, progress: Progress | None) -> int | None:
    one = plan.before
    if not one.loaded or one.master_parts is None:
        return None
    if plan.conditions or plan.now.parts.subqueries or _acts_on_itself(plan):
        # Rows may come with another condition, or with rows of other tables.
        return None
    try:
        return _fill(site, plan, progress)
    except (DBAPIError, SiteUnreachable):
        return None


def _fill(site: Site, plan: Plan, progress: Progress | None) -> int:
    with (
        site.session() as here,
        plan.master.session() as there,
        ThreadPoolExecutor(max_workers=1) as beside,
    ):
        identity.confirm(there, plan.master.name, partner=True)
        filling = _prepared(here, plan)
        parts = _parts(there, filling.master)
        there.commit()
        read = partial(_read, there, filling)
        written = 0
        for done, rows in enumerate(_ahead(beside, read, parts), 1):
            with rows, here.begin():
                here.execute(_settings(filling, plan.master.name))
                pieces = iter(partial(rows.read, PIECE), b"")
                if copy_pieces(here, filling.stage, filling.columns, pieces):
                    written += _write(here, filling)
            faults.point("snapshot_alter.filling")
            if progress is not None:
                progress(done * PAGES, len(parts) * PAGES, "pages")
        with here.begin():
            _drop_stage(here)
    return written


def _ahead(
    beside: ThreadPoolExecutor, read: Callable[[Range], IO[bytes]], parts: list[Range]
) -> Iterator[IO[bytes]]:
    """Read each part of the master while the part before it is written at the site."""
    if not parts:
        return  # a partitioned table without partitions
    coming = beside.submit(read, parts[0])
    for part in parts[1:]:
        rows, coming = coming.result(), beside.submit(read, part)
        yield rows
    yield coming.result()


def _read(there: Connection, filling: _Filling, part: Range) -> IO[bytes]:
    """A part of the master as a file, which the caller closes."""
    rows = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115
    copy_out(there, literal_text(_values(filling, part)), rows.write)
    there.commit()
    rows.seek(0)
    return rows


def _settings(filling: _Filling, master: str) -> Select[Any]:
    """Settings of each transaction at the site.

    It gives way to users as a merge does, and its changes are not queued. A crash loses
    nothing that the end of the whole has noted, which waits for the disk.
    """
    return select(
        func.set_config("lock_timeout", merge.LOCK_TIMEOUT, True),
        func.set_config("snaptide.origin", master, True),
        func.set_config("snaptide.writing", str(filling.base.oid), True),
        func.set_config("synchronous_commit", "off", True),
        # Some thousand rows are found by their keys, and not by reading all others.
        func.set_config("random_page_cost", "1", True),
    )


def _acts_on_itself(plan: Plan) -> bool:
    """Whether rows of the table may change others of it, by a foreign key's action.

    Each row that is written is read again then.
    """
    table = plan.definition.table
    return any(key.acts and key.parent == table.qualified for key in table.foreign_keys)


def _prepared(here: Connection, plan: Plan) -> _Filling:
    """Create the table for some rows, which lasts until the end."""
    one, master = plan.now, plan.definition.table
    base, unseen = describe(here, one.base), columns_altered.unseen(plan)
    types = [
        *zip(one.key_names, key_types(master, one.identity_columns), strict=True),
        *((name, base.column(hidden).sql_type) for name, hidden in unseen.items()),
    ]
    stage = sa.table(
        _STAGE,
        *(sa.column(name, type_) for name, type_ in types),
        sa.column("place", NativeType("tid")),
        schema="pg_temp",
    )
    _drop_stage(here)
    made = [NewColumn(name=c.name, type=c.type.compile()) for c in stage.c]
    ddl.create_temporary(here, _STAGE, made, at_commit="DELETE ROWS")
    here.commit()
    return _Filling(
        snapshot=one,
        master=master,
        base=base,
        stage=stage,
        before={
            name: sa.cast(
                sa.null() if value is None else sa.literal_column(f"({value})"),
                base.column(unseen[name]).sql_type,
            )
            for name, value in plan.filled.items()
        },
        unseen=unseen,
    )


def _drop_stage(here: Connection) -> None:
    """Drop the table: as long as a session has it, nobody can drop its types."""
    stage = sql.Identifier("pg_temp", _STAGE)
    raw(here).execute(sql.SQL("DROP TABLE IF EXISTS {}").format(stage))


def _parts(there: Connection, master: Table) -> list[Range]:
    pages = sum(n for _, n in ranges.pages_of(there, master.qualified))
    return ranges.ctid_ranges(there, master.qualified, parts=max(pages // PAGES, 1))


def _values(filling: _Filling, part: Range) -> Select[Any]:
    """Keys and values of the rows in a part of the master that need another value."""
    one = filling.snapshot
    rows = images.source(filling.master, part).alias(one.master_table)
    wanted = [*one.identity_columns, *filling.before]
    query = select(*(rows.c[name] for name in wanted)).where(
        where.clause(one.condition),
        sa.or_(
            *(
                sa.not_(filling.master.column(name).unchanged(value, rows.c[name]))
                for name, value in filling.before.items()
            )
        ),
    )
    return part.restrict(query, rows)


def _write(here: Connection, filling: _Filling) -> int:
    """Write the staged values, except into rows that a user has locked."""
    base = filling.base.sql()
    keys = [base.c[name] for name in filling.snapshot.identity_columns]
    attempt = here.begin_nested()
    try:
        written = _update(here, filling, base, filling.same_row(keys))
    except OperationalError as error:
        attempt.rollback()
        if not isinstance(error.orig, pg.LockNotAvailable):
            raise
        return _write_free(here, filling)
    attempt.commit()
    return written


def _write_free(here: Connection, filling: _Filling) -> int:
    """Lock the rows before, and leave those that others have to the next refresh."""
    one, stage = filling.snapshot, filling.stage
    base = filling.base.sql()
    place = ranges.ctid(base)
    keys = [base.c[name] for name in one.identity_columns]
    found = base.join(stage, filling.same_row(keys))
    staged = [stage.c[name] for name in one.key_names]
    free = select(*staged, place.label("place")).select_from(found)
    locked = free.with_for_update(of=base, skip_locked=True).subquery("locked")
    mine = filling.same_row(locked.c[name] for name in one.key_names)
    here.execute(sa.update(stage).values(place=locked.c.place).where(mine))
    written = _update(here, filling, base, place == stage.c.place)
    left = select(*staged, sa.literal(_LOCKED)).select_from(found)
    left = left.where(stage.c.place.is_(None))
    into = [*one.key_names, "reason"]
    here.execute(sa.insert(one.extra()).from_select(into, left))
    return written


def _update(
    here: Connection,
    filling: _Filling,
    base: sa.TableClause,
    found: ColumnElement[bool],
) -> int:
    values = {
        base.c[hidden]: filling.stage.c[name] for name, hidden in filling.unseen.items()
    }
    with users_search_path(here):
        return here.execute(sa.update(base).values(values).where(found)).rowcount


#: Why the next refresh looks at such a row again.
_LOCKED = f"{HELD}{BETWEEN}{LOCKED}"
