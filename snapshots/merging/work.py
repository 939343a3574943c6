"""The work table of a merge: the change that each row of a snapshot needs.

And the foreign keys between the snapshots of its group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import Connection, TableClause, func, select, update

from deferred.queues.queue import Queue
from sites.names import QualifiedName, numbered
from sites.tables import ddl
from sites.tables.analyze import analyze
from sites.tables.ddl import NewColumn
from sites.tables.table import Column, ForeignKey, Table
from sites.transfer import arrow, transport
from sites.transfer.types import NativeType
from sites.transfer.values import from_text
from sites.writing.staged import Staged, selected
from snapshots.differences import stage
from snapshots.differences.stage import Stage
from snapshots.differences.window import Member
from snapshots.keys import as_rows, chunks
from snapshots.reports import Cause

if TYPE_CHECKING:
    import pyarrow as pa


#: Work tables of so many rows are worth an index and statistics.
_LARGE = 1000

#: A session keeps the work tables of differences with fewer rows than that, and at most
#: so many bytes: to create and drop a table takes longer than to write a few rows.
_SMALL_BYTES = 64 * 1024

#: So many rows are sent with the next statement: a COPY waits for the server twice. Not
#: values of users' types, which may have others here: the caller has to hear of these.
_FEW = 50

#: How many it keeps, and where it remembers them.
_MOST_KEPT, _KEPT = 100, "snaptide.merge_tables"

#: Actions of foreign keys that change rows: cascade, set null, set default.
_ACTING = {"c", "n", "d"}

#: The columns that say what becomes of a row.
MARKS = (
    NewColumn(name="kind", type='"char"', nullable=False),
    NewColumn(name="leaves", type="boolean", nullable=False, default="false"),
    NewColumn(name="cause", type="text"),
    NewColumn(name="held", type="boolean", nullable=False, default="false"),
    NewColumn(name="by", type="text"),
    NewColumn(name="why", type="text"),
    NewColumn(name="no", type="bigint GENERATED ALWAYS AS IDENTITY"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The differences of one snapshot, staged where they are to be written."""

    member: Member
    #: `kind` and `n1`, `n2`, ... as `sites.writing.write` wants them, `no`, `leaves` (a
    #: delete whose row the master still has) and its `cause`, `held`, `by` and `why`
    staged: Staged
    #: why rows leave, as far as it is known
    because: tuple[Cause, ...] = ()
    #: the moment of the master that the refresh shows
    position: str
    #: of the changes of the site's users; None for a read-only snapshot
    queue: Queue | None = None

    @property
    def table(self) -> TableClause:
        """The work table."""
        return self.staged.source

    @property
    def keys(self) -> list[sa.ColumnElement[Any]]:
        """The values that identify the row, in the order of the snapshot's identity."""
        return [self.staged.new(name) for name in self.staged.identity]

    def is_exact(self, name: str) -> bool:
        """Whether equal values of a column are printed alike."""
        return self.member.base.column(name).exact

    @property
    def looked_at(self) -> list[str]:
        """The columns of the work table that conditions are about."""
        table = self.staged.table
        names = {*self.staged.identity}
        names.update(*(unique.columns for unique in table.uniques))
        names.update(*(key.columns for key in table.foreign_keys))
        carried = numbered("n", self.staged.columns)
        places = zip(carried, self.staged.columns, strict=True)
        return ["kind", "held", "no", *(n for n, name in places if name in names)]

    @property
    def free(self) -> sa.ColumnElement[bool]:
        """The row is not held back."""
        return sa.not_(self.table.c.held)


@dataclass(frozen=True, slots=True)
class Link:
    """A foreign key between two snapshots of the group."""

    child: Work
    parent: Work
    key: ForeignKey

    @property
    def unsettling(self) -> set[str]:
        """Kinds of change of the parent that can take away values of children."""
        fixed = set(self.key.parent_columns) <= set(self.parent.staged.identity)
        return {"D"} if fixed else {"D", "U"}

    @property
    def follows(self) -> bool:
        """Whether children change as soon as the value they refer to is parked."""
        return self.key.on_update in _ACTING and "U" in self.unsettling


def links_up(changes: Work, by_table: Mapping[QualifiedName, Work]) -> list[Link]:
    """The foreign keys of a snapshot to others of the group."""
    return [
        Link(changes, by_table[key.parent], key)
        for key in changes.staged.table.foreign_keys
        if key.parent in by_table
    ]


def links_down(changes: Work, by_table: Mapping[QualifiedName, Work]) -> list[Link]:
    """The foreign keys of others of the group to a snapshot."""
    mine = changes.staged.table.qualified
    return [
        Link(other, changes, key)
        for other in by_table.values()
        for key in other.staged.table.foreign_keys
        if key.parent == mine
    ]


def following(group: Sequence[Work]) -> list[Link]:
    """The foreign keys of a group whose children follow a parked value."""
    by_table = {w.staged.table.qualified: w for w in group}
    links = (link for w in group for link in links_up(w, by_table))
    return [link for link in links if link.follows]


def kept_sizes(members: Iterable[Member]) -> sa.ColumnElement[Any]:
    """By name, the bytes of the work tables that the session has kept for snapshots."""
    names = sa.literal([*map(_kept_name, members)], sa.ARRAY(sa.Text))
    name = func.unnest(names).column_valued("name")
    there = func.to_regclass("pg_temp." + name)
    found = select(func.json_object_agg(name, func.pg_total_relation_size(there)))
    return found.where(there.is_not(None)).scalar_subquery()


def is_small(difference: pa.Table | Stage) -> bool:
    """Whether a session may keep the work table for a difference."""
    if isinstance(difference, Stage):
        return False
    return bool(difference.num_rows < _LARGE and difference.nbytes <= _SMALL_BYTES)


def create(
    connection: Connection,
    member: Member,
    number: int,
    position: str,
    because: tuple[Cause, ...] = (),
    queue: Queue | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Work:
    """An empty work table for one transaction.

    Parameters:
        position: the moment of the master that is to be shown, and `because` why rows
            leave then.
        queue: of the snapshot.
        sizes: of the tables that the session has kept, if it may keep this one.
    """
    staged = None if sizes is None else _kept(connection, member, sizes)
    if staged is None:
        staged = _staged(f"snaptide_merge_{number}", member)
        ddl.create_temporary(connection, staged.source.name, _columns(member))
    return Work(
        member=member, staged=staged, position=position, because=because, queue=queue
    )


def _kept(
    connection: Connection, member: Member, sizes: Mapping[str, int]
) -> Staged | None:
    """The table that the session keeps for a snapshot, empty; None if it must not.

    The types of users are theirs to drop and to alter, which a table would prevent.
    """
    columns, name = _columns(member), _kept_name(member)
    tables: dict[str, Staged] = connection.info.setdefault(_KEPT, {})
    if name in sizes:
        ddl.empty_temporary(connection, name, anew=sizes[name] > _SMALL_BYTES)
    elif len(tables) < _MOST_KEPT and all(one.is_built_in for one in _carried(member)):
        ddl.create_temporary(connection, name, columns, at_commit="PRESERVE ROWS")
    else:
        return None
    staged, before = _staged(name, member), tables.get(name)
    if before is not None and before.describes_the_same(staged):
        return before  # with its statements
    tables[name] = staged
    return staged


def _kept_name(member: Member) -> str:
    """The name of the table that a session keeps: it tells one shape from another."""
    shape = [(c.name, c.type, c.collation) for c in _columns(member)]
    digest = hashlib.sha256(f"{member.snapshot.key} {shape}".encode()).hexdigest()
    return f"snaptide_merge_{digest[:16]}"


def _staged(name: str, member: Member) -> Staged:
    return Staged(
        # If rows of other tables follow a row, it is held back before it is parked.
        table=_not_followed(member.base),
        source=_source(name, member),
        columns=member.carried,
        identity=member.snapshot.identity_columns,
        has_old=False,
    )


def _columns(member: Member) -> list[NewColumn]:
    return [*MARKS, *_values(member)]


def _values(member: Member) -> list[NewColumn]:
    """The columns for the row's values."""
    carried = _carried(member)
    return [
        NewColumn(name=n, type=column.staged_type.name, collation=column.collation)
        for n, column in zip(numbered("n", carried), carried, strict=True)
    ]


def _carried(member: Member) -> list[Column]:
    common = member.common
    return [common.column(name) for name in member.carried]


def _source(name: str, member: Member) -> TableClause:
    """The work table for use in statements."""
    carried = _carried(member)
    return sa.table(
        name,
        # As text it would have no statistics.
        sa.column("kind", NativeType('"char"')),
        sa.column("leaves", sa.Boolean),
        sa.column("cause", sa.Text),
        sa.column("held", sa.Boolean),
        sa.column("by", sa.Text),
        sa.column("why", sa.Text),
        sa.column("no", sa.BigInteger),
        *(
            sa.column(n, column.staged_type)
            for n, column in zip(numbered("n", carried), carried, strict=True)
        ),
    )


def _not_followed(table: Table) -> Table:
    if not any(column.followed for column in table.columns):
        return table
    columns = tuple(replace(column, followed=False) for column in table.columns)
    return replace(table, columns=columns)


def take(connection: Connection, work: Work, difference: pa.Table | Stage) -> None:
    """Fill a work table with a difference, from this process or from its stage.

    Raises:
        StageLost: the stage does not hold what was written to it.
    """
    if isinstance(difference, Stage):
        rows = _from_stage(connection, work, difference)
        difference.expect(rows)
    else:
        rows = difference.num_rows
        columns = ["kind", *numbered("n", work.member.carried)]
        if rows <= _FEW and all(one.is_built_in for one in _carried(work.member)):
            transport.put(connection, work.table, columns, arrow.texts(difference))
        else:
            pieces = arrow.csv(difference)
            transport.copy_csv(connection, work.table, columns, pieces)
    if rows and not all(map(work.is_exact, work.staged.identity)):
        _pair_equal_keys(connection, work)
    if rows >= _LARGE:
        ddl.index_temporary(connection, work.table.name, "no")
        analyze(connection, work.table, work.looked_at)


def _from_stage(connection: Connection, work: Work, staged: Stage) -> int:
    table = stage.rows_of(work.member, staged)
    values = [
        from_text(table.c[f"c{n}"], column.recorded)
        for n, column in enumerate(_carried(work.member), 1)
    ]
    kind = sa.cast(table.c.op, NativeType('"char"'))
    rows = select(kind, *values).where(table.c.attempt.in_(staged.attempts))
    columns = ["kind", *numbered("n", work.member.carried)]
    statement = sa.insert(work.table).from_select(columns, rows)
    return connection.execute(statement).rowcount


def mark_leaving(connection: Connection, work: Work, wanted: pa.Table) -> None:
    """Tell deletes of rows that the master still has from all others.

    Parameters:
        wanted: their keys, and as a last column what each of them leaves with, or "".
    """
    member = work.member
    for some in chunks(wanted):
        rows = as_rows(some, [*member.key_types(member.base), NativeType("text")])
        *keys, cause = rows.c
        same = [mine == key for mine, key in zip(work.keys, keys, strict=True)]
        statement = update(work.table).where(work.table.c.kind == "D", *same)
        leaves = {"leaves": True, "cause": func.nullif(cause, "")}
        connection.execute(statement.values(leaves))


def inserted(work: Work) -> sa.Select[Any]:
    """The keys (k1, k2, ...) of rows to insert, whether or not they are held back."""
    pairs = zip(work.keys, work.member.snapshot.key_names, strict=True)
    return select(*(key.label(name) for key, name in pairs)).where(
        work.table.c.kind == "I"
    )


def hold(
    connection: Connection,
    work: Work,
    condition: sa.ColumnElement[bool],
    by: str,
    why: str | None = None,
) -> int:
    """Hold back the free rows that fulfil a condition; return how many.

    Parameters:
        by: what holds them back, for the report.
        why: the site's message, if it refused them; None if users have them.
    """
    return connection.execute(holding(work, condition, by, why)).rowcount


def holding(
    work: Work, condition: sa.ColumnElement[bool], by: str, why: str | None = None
) -> sa.Update:
    """Holds them back, as `hold` does."""
    statement = update(work.table).where(work.free, condition)
    return statement.values(held=True, by=by, why=why)


def _pair_equal_keys(connection: Connection, work: Work) -> None:
    """Make one update of a delete and an insert with equal keys (1.0 and 1.00).

    Keys that print differently are compared as two rows, though they are one.
    """
    gone = work.table.alias("gone")
    same = [
        work.staged.new(name) == work.staged.new(name, gone)
        for name in work.staged.identity
    ]
    pairs = (
        update(work.table)
        .values(kind="U")
        .where(work.table.c.kind == "I", gone.c.kind == "D", *same)
        .returning(gone.c.no)
    )
    numbers = list(connection.scalars(pairs))
    if numbers:
        paired = selected(work.table, {"no": tuple(numbers)})
        connection.execute(sa.delete(work.table).where(paired))
