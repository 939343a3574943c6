"""Finding conflicts: old values against the master's current rows, set by set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, and_, or_, select

from masters.apply import differences
from masters.apply.differences import (
    OF_ROWS,
    Groups,
    at_update,
    changed,
    is_not,
    unexpected,
)
from masters.apply.images import Compared, chunks, image
from masters.resolution.conflict import Conflict, Kind
from masters.rules.table_rules import EVERYTHING, Comparison
from sites import collector
from sites.prepared import Prepared
from sites.staged import MOVE, Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A transaction at its origin."""

    #: its id there
    transaction: str
    #: when it was made, for methods that ask
    changed_at: datetime | None = None
    #: the site that made it; None is the origin of the push
    origin: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parties:
    """Who disagrees: transactions of a site and the master that decides."""

    origin: str
    master: str
    #: the transaction of an order number
    made: Callable[[int], Made]
    #: the newest moment that one transaction wrote, where a rule asks
    newest: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowConflicts:
    """Conflicts of one row of a transaction."""

    call_no: int
    #: order number of the first transaction that changed the row
    tran: int
    #: others of the same unit changed it too
    several: bool
    #: of change, as it is staged
    kind: str
    #: the master has a row of that key
    present: bool
    #: the call changed nothing but what is in conflict
    alone: bool
    conflicts: tuple[Conflict, ...]


def lock(connection: Connection, staged: Staged, unit: int) -> None:
    """Lock the rows that a transaction is about, in the order of their keys.

    In one order for everybody, so that two pushes never wait for each other.
    """
    locked = _locked(staged, unit, staged.table.sql(), sa.literal(1))
    # Counted there: a transaction may have more rows than fit into memory here.
    connection.execute(select(sa.func.count()).select_from(locked))


def agree(
    connection: Connection,
    staged: Staged,
    unit: int,
    groups: Groups,
    comparison: Comparison,
    count: Mapping[str, int],
) -> bool:
    """Lock these rows too, and say whether `detect` would find nothing.

    As nearly always; then they are read once. Not to be asked where a rule wants to
    know when rows were deleted.

    Parameters:
        count: how many staged rows there are of each kind.
    """
    moving = bool(count.get(MOVE))
    agreement = staged.keep(
        ("agreement", tuple(groups), comparison, moving),
        lambda: Prepared(_agreement(staged, groups, comparison, moving=moving)),
    )
    present, wrong = agreement.run(connection, unit_no=unit).one()
    return not wrong and present == sum(count.get(kind, 0) for kind in OF_ROWS)


def _agreement(
    staged: Staged, groups: Groups, comparison: Comparison, *, moving: bool
) -> sa.Select[*tuple[Any, ...]]:
    """How many rows are there that have to be, and how many disagree."""
    unit = sa.bindparam("unit_no", 0, sa.BigInteger)
    compared = with_rows(staged, unit, groups, comparison, moving=moving)
    there = staged.kind(*OF_ROWS).label("there")
    wrong = compared.wrong.label("wrong")
    locked = _locked(staged, unit, compared.current, there, wrong)
    every = sa.func.count()
    return select(every.filter(locked.c.there), every.filter(locked.c.wrong))


def _locked(
    staged: Staged,
    unit: int | ColumnElement[int],
    target: sa.FromClause,
    *told: ColumnElement[Any],
) -> sa.Subquery:
    keys = [target.c[name] for name in staged.identity]
    return (
        select(*told)
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
    parties: Parties,
    read: Sequence[str],
    *,
    many: bool,
) -> Iterator[list[RowConflicts]]:
    """The rows of a transaction that disagree with the master, as it stands now.

    Oracle's rule: any old value that differs from the current one is an update
    conflict of its column group; a row to update or delete that is gone, or a
    row to delete that changed, a delete conflict; a key to insert that is
    there, a uniqueness conflict (also of a row that came and went, unless it is
    this one). A row that gets another key and differs in what its change leaves alone
    is a delete conflict, too: the key may be another row's by now. Where rules ask when
    a row was deleted, so is an insert that was made before the master deleted that
    key. A group in which the call changed nothing is
    not in conflict: its current values simply stay. A row that several transactions
    changed has to be, in every column, the one that the first of them started from.

    Parameters:
        compared: as `with_rows` makes it.
        groups: the column groups of what is carried.
        read: the columns whose values the conflicts hold.
        many: there may be more rows than a chunk.

    Returns:
        The rows in the order of their calls, `CHUNK` at a time; what was staged for
        one chunk may be changed before the next is asked for.
    """
    staged = compared.staged
    for rows in chunks(connection, compared.select(read), many=many):
        with collector.paused():
            found = [
                RowConflicts(
                    call_no=row.call_no,
                    tran=row.tran,
                    several=row.several,
                    kind=row.kind,
                    present=not row.missing,
                    alone=not row.more,
                    conflicts=tuple(conflicts),
                )
                for row in rows
                # One that several changed need not be in conflict to be another row.
                if (conflicts := _conflicts(staged, groups, row, parties, read))
                or row.several
            ]
        yield found


#: Where in a row of `detect` stands whether each column group is in conflict.
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
        deleted_at: when the master deleted the row of a change, where a rule asks.
        moving: keys are changed, so that another row may take one.
    """
    target = staged.table.sql()
    missing = target.c[staged.identity[0]].is_(None)
    in_the_way: ColumnElement[bool] = sa.not_(missing)
    if moving:
        in_the_way = and_(in_the_way, sa.not_(_leaves(staged, unit, target)))
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
        # One by one each delete leaves its own time, also of a row that came before.
        together = and_(staged.source.c.several, staged.kind("D", "A"))
        wrong = or_(wrong, late, together)
    return Compared(
        staged=staged,
        unit=unit,
        joined=staged.source.outerjoin(target, staged.same_row(target)),
        current=target,
        wrong=wrong if among is None else and_(wrong, among),
        told=(
            missing.label("missing"),
            or_(sa.false(), *more).label("more"),
            *(clause.label(f"g{n}") for n, clause in enumerate(in_conflict)),
            (sa.null() if deleted_at is None else deleted_at).label("deleted_at"),
            and_(staged.kind(MOVE), or_(sa.false(), *alien)).label("another"),
            differences.changes(staged).label("changes"),
        ),
    )


def _leaves(
    staged: Staged, unit: int | ColumnElement[int], row: sa.FromClause
) -> ColumnElement[bool]:
    """Whether the same transaction deletes a row, or gives it another key."""
    giver = staged.source.alias("giver")
    return (
        select(sa.literal(1))
        .select_from(giver)
        .where(giver.c.unit == unit, staged.same_row(row, giver))
        .where(staged.kind("D", MOVE, source=giver))
        .exists()
    )


def _conflicts(
    staged: Staged,
    groups: Groups,
    row: Row[Any],
    parties: Parties,
    read: Sequence[str],
) -> list[Conflict]:
    shared = facts(staged, row, parties, read)
    late = _late(parties.made(row.tran), row.deleted_at)
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
    staged: Staged, row: Row[Any], parties: Parties, read: Sequence[str]
) -> dict[str, Any]:
    """What all conflicts of a row have in common, by the names of their fields.

    Parameters:
        row: as it comes from `with_rows`.
        read: the columns whose values are held.
    """
    made = parties.made(row.tran)
    return {
        "table": (staged.table.schema, staged.table.name),
        "old": None if row.kind in ("I", "N", "A") else image(read, row, 0),
        "new": None if row.kind == "D" else image(read, row, 1),
        "current": None if row.missing else image(read, row, 2),
        "origin": made.origin or parties.origin,
        "master": parties.master,
        "changed_at": made.changed_at,
        "newest": parties.newest,
        "deleted_at": row.deleted_at if row.missing else None,
    }


def _late(made: Made, deleted_at: datetime | None) -> bool:
    """Whether a change was made before the master deleted its row."""
    if made.changed_at is None or deleted_at is None:
        return False
    return made.changed_at < deleted_at


def key_name(staged: Staged) -> str:
    """The constraint that a row breaks whose key is there; a ROWID is none."""
    keys = (u.name for u in staged.table.uniques if u.columns == staged.identity)
    return next(keys, "identity")
