"""Rows that a change would take along, although its transaction does not name them.

When a row is deleted, or its key or unique value changes, a foreign key of the master
deletes rows that refer to it or takes their reference away. If the site had these rows
too, its own foreign keys did the same there, and the transaction names them. If not,
the site did not know the rows, or a rule has just kept them: that is a delete conflict
of the row that they refer to. Rows that follow a changed key by ON UPDATE CASCADE are
not in conflict: they refer to the same row as before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, ColumnElement, Connection, FromClause, func, select
from sqlalchemy.dialects.postgresql import OID, aggregate_order_by

from masters.apply import detect, differences
from masters.apply.detect import ConflictContext, RowConflicts
from masters.apply.images import Compared, chosen
from masters.resolution.conflict import Conflict, Kind
from sites import QualifiedName
from sites.tables.references import Referring, referring
from sites.transfer.values import Numbers
from sites.writing.staged import UPDATES, Staged

#: How many rows that a change takes along are named; the others are only counted.
NAMED = 100

#: How many foreign keys of a cascade are followed to find rows.
_DEEPEST = 16

#: Expression for the oids of tables whose deletes act on rows of others; those may
#: refer to a partition.
TABLES = func.array(
    select(
        sa.literal_column(
            "unnest(array_remove(ARRAY[confrelid::oid,"
            " pg_partition_root(confrelid)::oid], NULL))",
            OID,
        ).cast(BigInteger)
    )
    .select_from(sa.text("pg_constraint"))
    .where(
        sa.literal_column("contype") == "f",
        sa.literal_column("confdeltype").in_(("c", "n", "d")),
    )
    .scalar_subquery()
).label("reaching")


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """Rows that are reached, joined with the changes that reach them."""

    joined: FromClause
    others: tuple[ColumnElement[bool], ...]
    #: the rows at the end of the path, and their table: its oid and name; not those of
    #: a partition
    rows: Any
    table: int
    whole: QualifiedName
    #: replaced rows are deleted and inserted, not updated, in all tables below too
    anew: bool
    #: by column, whether it gets another value; None if the rows are deleted
    changed: Mapping[str, ColumnElement[bool]] | None = None
    #: the values that some of these columns get, as far as they come from the changes
    given: Mapping[str, ColumnElement[Any]] = field(default_factory=dict)
    #: the rows follow a changed key, as the site intends: they are not reported
    meant: bool = False

    def onward(self, key: Referring) -> tuple[str, ColumnElement[bool]] | None:
        """How a foreign key acts on rows that refer to these, and when; None if not."""
        if self.changed is None:
            return (key.on_delete, sa.true()) if key.acts_on_delete else None
        moved = [self.changed[c] for c in key.parent_columns if c in self.changed]
        return (key.on_update, sa.or_(*moved)) if moved and key.acts_on_update else None


def conflicts(
    connection: Connection,
    staged: Staged,
    among: Sequence[Staged],
    unit: int,
    context: ConflictContext,
    read: Sequence[str],
    *,
    anew: bool,
    but: Collection[int] = (),
) -> tuple[Compared, list[RowConflicts], Sequence[Path]]:
    """The delete conflicts of changes that would take along other rows.

    Also the paths on which the foreign keys would act on rows that the unit does not
    name, with or without a conflict.

    Parameters:
        among: all work tables of the unit: it names the rows that are staged there.
        read: the columns whose values the conflicts hold.
        anew: replaced rows are deleted and inserted, not updated.
        but: numbers of the calls to leave out.
    """
    taken, paths = taken_along(connection, staged, among, unit, anew=anew, but=but)
    there = detect.with_rows(staged, unit, ())
    changes = differences.changes(staged).label("all_changes")
    compared = replace(
        there,
        wrong=chosen(staged, unit, list(taken)),
        facts=(*there.facts, changes),
    )
    if not taken:
        return compared, [], paths
    found = connection.execute(compared.select(read)).all()
    rows = [
        RowConflicts(
            call_nos=(numbers := Numbers(row.call_nos)),
            tran=row.tran,
            several=row.several,
            kind=row.kind,
            present=True,
            alone=False,
            conflicts=(
                Conflict(
                    kind=Kind.DELETE,
                    columns=staged.columns,
                    takes_along=taken[numbers.first],
                    changes=tuple(row.all_changes) if row.kind in UPDATES else (),
                    **detect.facts(staged, row, context, read),
                ),
            ),
        )
        for row in found
    ]
    return compared, rows, paths


def taken_along(
    connection: Connection,
    staged: Staged,
    among: Sequence[Staged],
    unit: int,
    *,
    anew: bool,
    but: Collection[int] = (),
) -> tuple[Mapping[int, tuple[str, ...]], Sequence[Path]]:
    """Rows that changes of a unit would take along: call number -> rows, in words.

    Also the paths to these rows, and to those that follow a changed key.

    Locks the rows to delete and those whose keys change, so that no other session adds
    rows that refer to them.

    Parameters:
        among: all work tables of the unit: it names the rows that are staged there.
        anew: replaced rows are deleted and inserted, not updated.
        but: numbers of the calls to leave out.
    """
    starts = _starts(staged, unit, anew=anew, but=but)
    paths = [path for path in starts if _locked(connection, staged, path)]
    found: defaultdict[int, list[str]] = defaultdict(list)
    every: list[Path] = []
    for depth in range(_DEEPEST):
        paths = list(_further(connection, staged, paths, among, unit, found, depth))
        if not paths:
            break
        every += paths
    return {number: tuple(rows) for number, rows in found.items()}, every


def _starts(
    staged: Staged, unit: int, *, anew: bool, but: Collection[int]
) -> Iterator[Path]:
    """The rows that the unit deletes, and those to which it gives other keys."""
    rows = staged.table.sql().alias("changed")
    gone, kept = (("D", "R"), UPDATES) if anew else (("D",), (*UPDATES, "R"))
    mine = (staged.source.c.unit == unit, staged.source.c.call_no.not_in(but))
    path = Path(
        joined=staged.source.join(rows, staged.same_row(rows)),
        others=(*mine, staged.kind(*gone)),
        rows=rows,
        table=staged.table.oid,
        whole=staged.table.qualified,
        anew=anew,
    )
    yield path
    changed = {name: _is_changed(staged, rows, name) for name in staged.followed}
    if changed:
        moved = sa.or_(*changed.values())
        others = (*mine, staged.kind(*kept), moved)
        given = {name: staged.new(name) for name in changed}
        yield replace(path, others=others, changed=changed, given=given)


def _is_changed(staged: Staged, rows: FromClause, name: str) -> ColumnElement[bool]:
    """Whether an update writes a value that the master's row does not have yet."""
    column, new = staged.table.column(name), staged.new(name)
    return sa.and_(
        sa.not_(column.unchanged(staged.old(name), new)),
        sa.not_(column.unchanged(rows.c[name], new)),
    )


def _locked(connection: Connection, staged: Staged, start: Path) -> int:
    """Lock the rows at the start of a path; return how many there are."""
    keys = [start.rows.c[name] for name in staged.identity]
    locked = (
        select(sa.literal(1))
        .select_from(start.joined)
        .where(*start.others)
        .order_by(*keys)
        .with_for_update(of=start.rows)
        .subquery()
    )
    return connection.execute(select(func.count()).select_from(locked)).scalar_one()


def _further(
    connection: Connection,
    staged: Staged,
    paths: Sequence[Path],
    among: Sequence[Staged],
    unit: int,
    found: defaultdict[int, list[str]],
    depth: int,
) -> Iterator[Path]:
    """Go one foreign key further, note the rows found, and yield paths to follow."""
    keys = referring(connection, {path.table for path in paths}) if paths else []
    for number, (path, key) in enumerate(product(paths, keys)):
        onward = path.onward(key) if key.parent == path.table else None
        if onward is None:
            continue
        reached = _reached(
            connection, path, key, *onward, among, unit, f"reached_{depth}_{number}"
        )
        if reached.meant:
            yield reached
            continue
        texts = _rows_as_text(connection, staged, reached, key)
        for call_no, words in texts.items():
            found[call_no] += words
        if texts:
            yield reached


def _reached(
    connection: Connection,
    path: Path,
    key: Referring,
    action: str,
    when: ColumnElement[bool],
    among: Sequence[Staged],
    unit: int,
    alias: str,
) -> Path:
    """The rows that a foreign key acts on, except those that the unit names."""
    rows = _table(connection, key).alias(alias)
    pairs = list(zip(key.columns, key.parent_columns, strict=True))
    refers = sa.and_(*(rows.c[own] == path.rows.c[theirs] for own, theirs in pairs))
    known = [_named(one, key, rows, unit, anew=path.anew) for one in _of(among, key)]
    follows = action == "c" and path.changed is not None
    other: Mapping[str, ColumnElement[bool]] | None = None
    if action != "c":
        other = {own: sa.true() for own in key.columns}
    elif path.changed is not None:
        before = path.changed
        other = {own: before[theirs] for own, theirs in pairs if theirs in before}
    return Path(
        joined=path.joined.join(rows, refers),
        others=(*path.others, when, *(sa.not_(one) for one in known)),
        rows=rows,
        table=key.whole,
        whole=key.whole_name,
        anew=path.anew,
        changed=other,
        given={own: path.given[c] for own, c in pairs if c in path.given and follows},
        meant=follows,
    )


def _of(among: Sequence[Staged], key: Referring) -> list[Staged]:
    return [one for one in among if one.table.oid == key.whole]


def _table(connection: Connection, key: Referring) -> sa.TableClause:
    """The table that refers, with all its columns."""
    names = connection.scalars(
        sa.text(
            "SELECT attname FROM pg_attribute"
            " WHERE attrelid = CAST(:oid AS oid) AND attnum > 0 AND NOT attisdropped"
        ),
        {"oid": key.oid},
    )
    return sa.table(key.child.name, *map(sa.column, names), schema=key.child.schema)


def _named(
    staged: Staged, key: Referring, rows: FromClause, unit: int, *, anew: bool
) -> ColumnElement[bool]:
    """Whether the unit itself deletes a row, or makes it refer to another one."""
    source = staged.source.alias()
    gone = ("D", "R") if anew else ("D",)
    away: ColumnElement[bool] = staged.kind(*gone, source=source)
    if set(key.columns) <= set(staged.columns):
        elsewhere = sa.or_(
            *(
                staged.new(name, source).is_distinct_from(rows.c[name])
                for name in key.columns
            )
        )
        away = sa.or_(
            away, sa.and_(staged.kind(*UPDATES, "R", source=source), elsewhere)
        )
    return sa.exists(
        select(sa.literal(1))
        .select_from(source)
        .where(source.c.unit == unit, staged.same_row(rows, source), away)
    )


def _rows_as_text(
    connection: Connection, staged: Staged, reached: Path, key: Referring
) -> Mapping[int, list[str]]:
    """The rows that are reached, as the database prints them, by call number."""
    call_no = staged.source.c.call_no
    row = sa.cast(reached.rows.table_valued(), sa.Text)
    words = func.array_agg(aggregate_order_by(row, row))
    found = connection.execute(
        select(
            call_no,
            func.trim_array(
                words, sa.cast(func.greatest(func.count() - NAMED, 0), sa.Integer)
            ),
            func.count(),
        )
        .select_from(reached.joined)
        .where(*reached.others)
        .group_by(call_no)
    )
    return {number: _words(key, rows, count) for number, rows, count in found}


def _words(key: Referring, rows: Sequence[str], count: int) -> list[str]:
    named = [f"{key.child} {row}" for row in rows]
    left = count - len(named)
    return [*named, f"{left} more of {key.child}"] if left else named
