"""Footprints: hashes of the rows that transactions hold, refer to and start from.

A later transaction may depend on a parked one if it shares a row, a unique value or a
foreign key with it. It surely does if it starts from a row that the parked one would
have made, refers to a key or unique value that it would have made, or deletes a row
that it refers to. Keys are compared only with keys of the same origin: whether the
master now has a row of that key from another site does not matter. Footprints of parked
transactions are stored; the footprint of one about to be applied is compared with them
in one statement, however many calls it has.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Text, func, select

from deferred.error_catalog import error_footprint
from sites.tables.table import Table
from sites.transfer.values import each_of
from sites.writing.staged import MOVE, Staged, selected

#: A row or unique value, in any of the images of a call.
HOLDS = "holds"
#: A row of a parent table.
REFERS = "refers"
#: The row as a parked call would have left it, and each key and unique value that the
#: call would have given it.
MADE = "made"
#: The row as a call found it at its origin, and the parents that it gives its row;
#: compared with MADE entries.
STARTS = "starts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """The parked transactions that a transaction may depend on."""

    error_ids: tuple[int, ...]
    #: it surely does, whatever rows the master has now
    certain: bool
    #: it starts from, or refers to, rows that were given up, dropped or given new keys
    lost: bool = False

    def besides(self, error_ids: Sequence[int]) -> Relation:
        """The same relation, with further parked transactions it may depend on."""
        both = {*self.error_ids, *error_ids}
        return replace(self, error_ids=tuple(sorted(both)))


#: Bytes kept of a hash: enough that two entries never collide by chance.
HASH = 16

STORED = ["error_id", "origin_id", "how", "entry"]

NOTHING = Relation(error_ids=(), certain=False)


def write(
    connection: Connection,
    error_id: int,
    sender_id: uuid.UUID,
    changes: Sequence[Staged],
    rows: Mapping[str, Any],
) -> None:
    """Store the footprint of a parked transaction. Writes error_footprint.

    Parameters:
        changes: work tables that hold its calls.
        rows: equalities that select them there (column -> value).
    """
    for staged in changes:
        made = [*_made(staged), whole(staged, MADE)]
        own = entries(staged, rows, [*_held(staged), *made])
        found = [select(own.c.how, own.c.hash).subquery()]
        if parents := list(_referred(staged)):
            theirs = entries(staged, rows, parents)
            # Many children refer to one parent.
            found.append(select(theirs.c.how, theirs.c.hash).distinct().subquery())
        for entry in found:
            values = select(
                sa.literal(error_id), sa.literal(sender_id), entry.c.how, entry.c.hash
            ).order_by(entry.c.hash)  # the index takes millions faster in its order
            connection.execute(sa.insert(error_footprint).from_select(STORED, values))


def relations(
    connection: Connection,
    sender_id: uuid.UUID,
    changes: Sequence[Staged],
    rows: Mapping[str, Any],
) -> dict[int, Relation]:
    """How transactions in work tables are related to parked ones of their origin.

    Parameters:
        rows: equalities or ranges that select the transactions (column -> value).

    Returns:
        Order number -> relation; transactions without one are left out.
    """
    if not changes:  # every row ended as it began
        return {}
    mine = sa.union_all(
        *(select(entries(staged, rows, _parts(staged))) for staged in changes)
    ).subquery("mine")
    parked = error_footprint
    meets = sa.or_(
        sa.and_(mine.c.how == HOLDS, parked.c.how.in_((HOLDS, REFERS))),
        # Two references to one parent do not meet.
        sa.and_(mine.c.how == REFERS, parked.c.how == HOLDS),
        sa.and_(mine.c.how == STARTS, parked.c.how == MADE),
    )
    certain = sa.or_(parked.c.how == MADE, sa.and_(parked.c.how == REFERS, mine.c.gone))
    found = connection.execute(
        select(mine.c.tran, parked.c.error_id, func.bool_or(certain).label("certain"))
        .join(
            parked,
            sa.and_(parked.c.origin_id == sender_id, parked.c.entry == mine.c.hash),
        )
        .where(meets)
        .group_by(mine.c.tran, parked.c.error_id)
        .order_by(mine.c.tran, parked.c.error_id)
    ).all()
    transactions: dict[int, list[Any]] = {}
    for row in found:
        transactions.setdefault(row.tran, []).append(row)
    return {
        transaction: Relation(
            error_ids=tuple(row.error_id for row in those if row.error_id > 0),
            lost=any(row.error_id < 0 for row in those),
            certain=any(row.certain for row in those),
        )
        for transaction, those in transactions.items()
    }


Part = tuple[ColumnElement[str], ColumnElement[Any]]


def entries(
    staged: Staged, rows: Mapping[str, Any], parts: Sequence[Part]
) -> sa.Subquery:
    """Parts of calls, hashed: tran, how, hash, and whether the call removes the row."""
    target = staged.table.sql()
    part = each_of("held", ("how", "entry"), parts)
    digest = func.sha256(func.convert_to(part.c.entry, "UTF8"))
    return (
        select(
            staged.source.c.tran,
            staged.kind("D", MOVE).label("gone"),
            part.c.how,
            func.substring(digest, 1, HASH).label("hash"),
        )
        .select_from(
            staged.source.outerjoin(target, staged.same_row(target)).join(
                part, sa.true()
            )
        )
        .where(selected(staged.source, rows), part.c.entry.is_not(None))
        .subquery()
    )


def _parts(staged: Staged) -> list[Part]:
    """The parts of a transaction about to be applied that meet stored footprints."""
    starts = [*_asked(staged), whole(staged, STARTS)]
    return [*_held(staged), *_referred(staged), *starts]


def _held(staged: Staged) -> Iterator[Part]:
    """The row and the unique values of each image; NULL if there is no value."""
    for named, columns in own_keys(staged.table, staged.identity, staged.columns):
        for entry in _keys(staged, named, columns):
            yield sa.literal(HOLDS), entry


def _made(staged: Staged) -> Iterator[Part]:
    """The keys and unique values that a call gives its row; NULL if it gives none."""
    for named, columns in own_keys(staged.table, staged.identity, staged.columns):
        yield sa.literal(MADE), given(staged, named, columns)


def _referred(staged: Staged) -> Iterator[Part]:
    """The parents of each image; NULL if there is none."""
    for named, columns in parent_keys(staged.table, staged.columns):
        for entry in _keys(staged, named, columns):
            yield sa.literal(REFERS), entry


def _asked(staged: Staged) -> Iterator[Part]:
    """The parents that a call gives its row; NULL if it gives none."""
    for named, columns in parent_keys(staged.table, staged.columns):
        yield sa.literal(STARTS), given(staged, named, columns)


def own_keys(
    table: Table, identity: Sequence[str], carried: Sequence[str]
) -> Iterator[tuple[str, list[str]]]:
    """The carried columns that identify rows of a table, each set with a name."""
    for columns in dict.fromkeys(
        [tuple(identity), *(u.columns for u in table.uniques)]
    ):
        if set(columns) <= set(carried):
            yield f"{table.qualified} {sorted(columns)}", sorted(columns)


def parent_keys(
    table: Table, carried: Sequence[str]
) -> Iterator[tuple[str, list[str]]]:
    """The foreign keys of a table, each named as the parent names its own key."""
    for key in table.foreign_keys:
        if set(key.columns) <= set(carried):
            pairs = sorted(zip(key.parent_columns, key.columns, strict=True))
            named = f"{key.parent} {[parent for parent, _ in pairs]}"
            yield named, [own for _, own in pairs]


def given(staged: Staged, named: str, columns: Sequence[str]) -> ColumnElement[Any]:
    """The key that a call gives its row; NULL if the row had it, or is removed."""
    old, new = ([side(n) for n in columns] for side in (staged.old, staged.new))
    missing = [value.is_(None) for value in new]
    kept = sa.and_(sa.not_(staged.kind("I", "R")), _same(staged, columns, old, new))
    gone = staged.kind("D", "N", "A")
    entry = text_of(named, alike(staged.table, columns, new))
    return sa.case((sa.or_(*missing, kept, gone), sa.null()), else_=entry)


def _keys(
    staged: Staged, named: str, columns: Sequence[str]
) -> Iterator[ColumnElement[Any]]:
    """One key in each image and in the master's row; NULL if absent or seen before."""
    target = staged.table.sql()
    before: list[list[ColumnElement[Any]]] = []
    for side in (staged.old, staged.new, lambda name: target.c[name]):
        values = [side(name) for name in columns]
        missing = [value.is_(None) for value in values]
        same = [_same(staged, columns, values, other) for other in before]
        entry = text_of(named, alike(staged.table, columns, values))
        yield sa.case((sa.or_(*missing, *same), sa.null()), else_=entry)
        before.append(values)


def _same(
    staged: Staged,
    columns: Sequence[str],
    left: Sequence[ColumnElement[Any]],
    right: Sequence[ColumnElement[Any]],
) -> ColumnElement[bool]:
    return sa.and_(
        *(
            staged.table.column(name).unchanged(a, b)
            for name, a, b in zip(columns, left, right, strict=True)
        )
    )


def whole(staged: Staged, how: str) -> tuple[ColumnElement[str], ColumnElement[Any]]:
    """All values of an image; NULL if the call has no such image."""
    if how == MADE:
        present, side = sa.not_(staged.kind("D")), staged.new
    else:
        present, side = sa.not_(staged.kind("I", "N", "A")), staged.old
    names = sorted(staged.columns)
    entry = text_of(f"{staged.table.qualified} row {names}", [side(n) for n in names])
    return sa.literal(how), sa.case((present, entry))


def alike(
    table: Table, columns: Sequence[str], values: Sequence[ColumnElement[Any]]
) -> list[ColumnElement[Any]]:
    """Values such that equal ones have one text, in a key and in references to it."""
    return [
        table.column(name).alike(value)
        for name, value in zip(columns, values, strict=True)
    ]


def text_of(named: str, values: Sequence[ColumnElement[Any]]) -> ColumnElement[Any]:
    """The values as the text of a row, with PostgreSQL's own quoting."""
    return sa.cast(func.row(sa.literal(named, Text), *values), Text)
