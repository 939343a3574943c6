"""Finding conflicts: old values compared with the master's current rows, set by set."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, and_, or_, select

from masters.apply import alike, differences, images
from masters.apply.differences import (
    OF_ROWS,
    Groups,
    at_update,
    changed,
    is_not,
    leaves,
    unexpected,
)
from masters.apply.images import Compared, chunks, image
from masters.resolution.conflict import Conflict, Kind
from masters.rules.table_rules import EVERYTHING, Comparison
from sites import collector
from sites.sessions.prepared import Prepared
from sites.transfer.values import Numbers
from sites.writing.staged import MOVE, Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTransaction:
    """A transaction at its origin."""

    #: its id there
    transaction: str
    #: when it was made, for methods that ask
    changed_at: datetime | None = None
    #: the site that made it; None is the origin of the push
    origin: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictContext:
    """The two sides of a conflict: transactions of a site, and the master."""

    origin: str
    master: str
    #: gives the transaction of an order number
    transaction_of: Callable[[int], SourceTransaction]
    #: the newest timestamp that the transaction wrote, if a rule asks for it
    newest: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowConflicts:
    """Conflicts of one row of a transaction, or of several rows that are alike.

    Rows are alike if nothing that the rules look at tells them apart: they are asked
    once, and what becomes of one row becomes of all.
    """

    call_nos: Numbers
    #: order number of the first transaction that changed the row
    tran: int
    #: other transactions of the same unit changed it too
    several: bool
    #: kind of change, as it is staged
    kind: str
    #: the master has a row of that key
    present: bool
    #: the call changed no column that is not in conflict
    alone: bool
    conflicts: tuple[Conflict, ...]
    #: they differ in values of which only the order counts; those of one are shown
    differ: bool = False

    @property
    def call_no(self) -> int:
        """One of the calls; a row that is looked at again has no other."""
        return self.call_nos.first


#: Up to one call in this many is looked up by its number, instead of comparing all.
FEW = 4


def lock(connection: Connection, staged: Staged, unit: int) -> None:
    """Lock the rows that a transaction changes, in the order of their keys.

    All pushes use this order, so that two of them never wait for each other.
    """
    locked = _locked(staged, unit, staged.table.sql(), sa.literal(1))
    # The database counts them: they may be more than fit into memory here.
    connection.execute(select(sa.func.count()).select_from(locked))


def disagreeing(
    connection: Connection,
    staged: Staged,
    unit: int,
    groups: Groups,
    comparison: Comparison,
    count: Mapping[str, int],
) -> Numbers | None:
    """Lock the rows as `lock` does, and name the calls that `detect` has to look at.

    There are nearly always none, and then the rows are read only once. Do not call it
    if a rule asks when rows were deleted: `detect` finds more conflicts then.

    Parameters:
        count: how many staged rows there are of each kind.

    Returns:
        None if `detect` has to look at all: rows are missing, or many disagree.
    """
    moving = bool(count.get(MOVE))
    agreement = staged.keep(
        ("agreement", tuple(groups), comparison, moving),
        lambda: Prepared(_agreement(staged, groups, comparison, moving=moving)),
    )
    present, wrong, calls = agreement.run(connection, unit_no=unit).one()
    if present < sum(count.get(kind, 0) for kind in OF_ROWS):
        return None
    if not wrong:
        return Numbers.of(())
    return None if calls is None else Numbers(calls)


def _agreement(
    staged: Staged, groups: Groups, comparison: Comparison, *, moving: bool
) -> sa.Select[*tuple[Any, ...]]:
    """Count the rows that must exist and do; count and name those that disagree."""
    unit = sa.bindparam("unit_no", 0, sa.BigInteger)
    compared = with_rows(staged, unit, groups, comparison, moving=moving)
    there = staged.kind(*OF_ROWS).label("there")
    wrong = compared.wrong.label("wrong")
    number = staged.source.c.call_no
    locked = _locked(staged, unit, compared.current, there, wrong, number)
    every = sa.func.count()
    wrongs = every.filter(locked.c.wrong)
    calls = sa.func.array_agg(locked.c.call_no).filter(locked.c.wrong)
    few = sa.case((wrongs * FEW <= every, sa.cast(calls, sa.Text)))
    return select(every.filter(locked.c.there), wrongs, few)


def _locked(
    staged: Staged,
    unit: int | ColumnElement[int],
    target: sa.FromClause,
    *facts: ColumnElement[Any],
) -> sa.Subquery:
    keys = [target.c[name] for name in staged.identity]
    return (
        select(*facts)
        .select_from(target.join(staged.source, staged.same_row(target)))
        .where(staged.source.c.unit == unit)
        .order_by(*keys)
        .with_for_update(of=target, key_share=True)
        .subquery()
    )


def detect(
    connection: Connection,
    compared: Compared,
    groups: Groups,
    context: ConflictContext,
    read: Sequence[str],
    *,
    calls: int,
    ordered: Collection[str] | None = None,
) -> Iterator[list[RowConflicts]]:
    """The rows of a transaction that disagree with the master's current rows.

    Oracle's rule: any old value that differs from the current one is an update
    conflict of its column group. It is a delete conflict if a row to update or delete
    is gone, or a row to delete has changed. It is a uniqueness conflict if a key to
    insert is there, also if the transaction deleted the inserted row again, unless the
    master's row equals that row. It is a delete conflict, too, if a row gets another
    key and differs in columns that its change leaves alone, because its key may belong
    to another row by now; and, where rules ask when a row was deleted, if an insert was
    made before the master deleted that key. A group in which the call changed nothing
    is not in conflict: its current values stay. A row that several transactions changed
    must equal, in every column, the row that the first of them started from.

    Parameters:
        compared: as `with_rows` makes it.
        groups: the column groups of the staged columns.
        read: the columns whose values the conflicts hold.
        calls: there are no more rows than this.
        ordered: if given, rows that are alike come as one; see `alike.select`.

    Returns:
        The rows in the order of their calls, a chunk at a time. The caller may restage
        the rows of one chunk before it asks for the next.
    """
    staged = compared.staged
    if ordered is None:
        size, wanted = images.CHUNK, compared.select(read)
    else:
        size = alike.size(compared, read, ordered)
        divided = size if calls > size else None
        wanted = alike.select(compared, read, ordered, divided)
    for rows in chunks(connection, wanted, size, many=calls > size):
        with collector.paused():
            found = [
                RowConflicts(
                    call_nos=Numbers(row.call_nos),
                    tran=row.tran,
                    several=row.several,
                    kind=row.kind,
                    present=not row.missing,
                    alone=not row.more,
                    conflicts=tuple(conflicts),
                    differ=bool(ordered) and "," in row.call_nos,
                )
                for row in rows
                # If several transactions changed it, it may be another row without
                # being in conflict.
                if (conflicts := _conflicts(staged, groups, row, context, read))
                or row.several
            ]
        yield found


def without(
    rows: Iterable[RowConflicts], gone: Collection[int]
) -> Iterator[RowConflicts]:
    """The rows without the calls that are gone."""
    if not gone:
        yield from rows
        return
    for row in rows:
        if left := [call_no for call_no in row.call_nos if call_no not in gone]:
            yield replace(row, call_nos=Numbers.of(left))


#: Index of the first column in a row of `detect` that tells of a group's conflict.
_GROUPS = 6


def with_rows(
    staged: Staged,
    unit: int | ColumnElement[int],
    groups: Groups,
    compared: Comparison = EVERYTHING,
    *,
    among: ColumnElement[bool] | None = None,
    deleted_at: ColumnElement[Any] | None = None,
    moving: bool = False,
) -> Compared:
    """The changes of a transaction beside the master's rows of the same keys.

    Parameters:
        among: only these staged rows.
        deleted_at: when the master deleted the row of a change, if a rule asks.
        moving: some changes are of keys, so that another row may take an old key.
    """
    if moving or deleted_at is not None:
        made = _with_rows(staged, unit, groups, compared, deleted_at, moving=moving)
    else:
        # Python takes longer to build it than the database to compare a few rows.
        made = staged.keep(
            ("rows", tuple(groups), compared),
            lambda: _with_rows(staged, 0, groups, compared),
        )
    wrong = made.wrong if among is None else and_(made.wrong, among)
    return replace(made, unit=unit, wrong=wrong)


def _with_rows(
    staged: Staged,
    unit: int | ColumnElement[int],
    groups: Groups,
    compared: Comparison,
    deleted_at: ColumnElement[Any] | None = None,
    *,
    moving: bool = False,
) -> Compared:
    target = staged.table.sql()
    missing = target.c[staged.identity[0]].is_(None)
    in_the_way: ColumnElement[bool] = sa.not_(missing)
    if moving:
        in_the_way = and_(in_the_way, sa.not_(leaves(staged, unit, target)))
    differs = [at_update(staged, target, columns, compared) for _, columns in groups]
    changes = [changed(staged, columns) for _, columns in groups]
    in_conflict = [and_(d, c) for d, c in zip(differs, changes, strict=True)]
    more = [and_(sa.not_(d), c) for d, c in zip(differs, changes, strict=True)]
    alien = [and_(d, sa.not_(c)) for d, c in zip(differs, changes, strict=True)]
    wrong = or_(
        and_(staged.kind("I", "A"), in_the_way),
        and_(staged.kind("N"), in_the_way, is_not(staged, target)),
        and_(staged.kind(*OF_ROWS), missing),
        unexpected(staged, target, groups, compared),
    )
    if deleted_at is not None:
        late = and_(staged.kind("I"), missing, deleted_at.is_not(None))
        # Applied one by one, each delete would be logged with a time of its own.
        together = and_(staged.source.c.several, staged.kind("D", "A"))
        wrong = or_(wrong, late, together)
    return Compared(
        staged=staged,
        unit=unit,
        joined=staged.source.outerjoin(target, staged.same_row(target)),
        current=target,
        wrong=wrong,
        facts=(
            missing.label("missing"),
            or_(sa.false(), *more).label("more"),
            *(clause.label(f"g{n}") for n, clause in enumerate(in_conflict)),
            (sa.null() if deleted_at is None else deleted_at).label("deleted_at"),
            and_(staged.kind(MOVE), or_(sa.false(), *alien)).label("another"),
            sa.case((staged.kind(MOVE), differences.changes(staged))).label("changes"),
        ),
        about={c: f"g{n}" for n, (_, columns) in enumerate(groups) for c in columns},
    )


def _conflicts(
    staged: Staged,
    groups: Groups,
    row: Row[Any],
    context: ConflictContext,
    read: Sequence[str],
) -> list[Conflict]:
    shared = facts(staged, row, context, read)
    late = _late(context.transaction_of(row.tran), row.deleted_at)
    if row.kind == "I" and row.missing and not late:
        return []
    if row.kind in ("I", "N", "A") and not row.missing:
        return [
            Conflict(
                kind=Kind.UNIQUENESS,
                constraint=key_name(staged),
                columns=staged.identity,
                **shared,
            )
        ]
    if row.missing or row.another or row.kind in ("D", "R"):
        given = tuple(row.changes) if row.another else ()
        return [
            Conflict(kind=Kind.DELETE, columns=staged.columns, changes=given, **shared)
        ]
    wrong = row[_GROUPS : _GROUPS + len(groups)]
    return [
        Conflict(kind=Kind.UPDATE, column_group=name, columns=columns, **shared)
        for (name, columns), disagrees in zip(groups, wrong, strict=True)
        if disagrees
    ]


def facts(
    staged: Staged, row: Row[Any], context: ConflictContext, read: Sequence[str]
) -> dict[str, Any]:
    """The fields that all conflicts of a row have in common, by name.

    Parameters:
        row: as it comes from `with_rows`.
        read: the columns whose values the conflicts hold.
    """
    made = context.transaction_of(row.tran)
    return {
        "table": (staged.table.schema, staged.table.name),
        "old": None if row.kind in ("I", "N", "A") else image(read, row, 0),
        "new": None if row.kind == "D" else image(read, row, 1),
        "current": None if row.missing else image(read, row, 2),
        "origin": made.origin or context.origin,
        "master": context.master,
        "changed_at": made.changed_at,
        "newest": context.newest,
        "deleted_at": row.deleted_at if row.missing else None,
    }


def _late(made: SourceTransaction, deleted_at: datetime | None) -> bool:
    """Whether a change was made before the master deleted its row."""
    if made.changed_at is None or deleted_at is None:
        return False
    return made.changed_at < deleted_at


def key_name(staged: Staged) -> str:
    """The constraint on the identity; "identity" if there is none, as for a ROWID."""
    keys = (u.name for u in staged.table.uniques if u.columns == staged.identity)
    return next(keys, "identity")
