"""Writing changes of keys, before other rows refer to the new keys.

Each change is written as an UPDATE, as at its site: foreign keys of this database act
on rows that refer to the old key, and columns that are not staged keep their values. A
key that passes from one row to another is replaced by a free value first, like other
unique values.
If no foreign key follows the change, and the same write has rows refer to the new key,
they could be written neither before nor after that UPDATE. Then the row is inserted
under its new key, and the old row is deleted after them; so is a row whose key is
GENERATED ALWAYS and cannot be updated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, func
from sqlalchemy.sql.dml import Update

from sites.errors import NoFreeValue, RowCountMismatch
from sites.names import QualifiedName
from sites.tables.references import referring
from sites.writing.staged import (
    MOVE,
    Staged,
    leaves_alone,
    never_updated,
    selected,
    updated,
)
from sites.writing.unique_values import free_value, has_free_values

#: A row that was inserted under its new key, so that the old row is to be deleted.
LEFT = "L"


def move(staged: Staged, rows: Mapping[str, Any], *kinds: str) -> Update:
    """The statement that updates rows and their keys, except keys GENERATED ALWAYS."""
    target = staged.table.sql()
    columns = [staged.table.column(name) for name in staged.columns]
    keys = never_updated(staged, staged.identity)
    stays = (staged.old(name) == staged.new(name) for name in keys)
    return (
        sa.update(target)
        .values(
            {
                target.c[column.name]: updated(staged, target, column.name)
                for column in columns
                if column.identity != "a"
            }
        )
        .where(
            selected(staged.source, rows),
            staged.kind(*(kinds or (MOVE,))),
            staged.same_row(target),
            *stays,
            *leaves_alone(staged, target),
        )
    )


def free_keys(connection: Connection, staged: Staged, rows: Mapping[str, Any]) -> None:
    """Give free keys to rows whose keys other rows take, and note them in the source.

    Raises:
        NoFreeValue: there are such rows, but no free values for their keys.
    """
    # With a deferrable key, two rows may have one key for a moment; but a delete must
    # find one row only.
    deferred = any(
        u.deferrable
        for u in staged.table.uniques
        if set(u.columns) == set(staged.identity)
    )
    held = _held(staged, rows, *(("D",) if deferred else ("D", MOVE)))
    if connection.execute(held.limit(1)).first() is None:
        return
    spot = next(
        (
            column
            for column in map(staged.table.column, staged.identity)
            if has_free_values(column) and not column.generated
            if column.identity != "a"
        ),
        None,
    )
    if spot is None:
        raise NoFreeValue(
            f"Keys of {staged.table.qualified} have to be swapped, but no temporary "
            "value is possible."
        )
    target, source = staged.table.sql(), staged.source
    found = held.cte("held")
    others = target.alias("others")
    parked = (
        sa.select(*found.c, free_value(spot, others, found.c.place).label("parked"))
        .cte("parked")
        .prefix_with("MATERIALIZED", dialect="postgresql")
    )
    keys = [parked.c[f"k{n}"] for n in range(1, len(staged.identity) + 1)]
    written = (
        sa.update(target)
        .values({target.c[spot.name]: parked.c.parked})
        .where(*(target.c[c] == k for c, k in zip(staged.identity, keys, strict=True)))
        .returning(sa.literal(1))
        .cte("written")
    )
    noted = (
        sa.update(source)
        .values({staged.old(spot.name): parked.c.parked})
        .where(selected(source, rows), staged.kind(MOVE, "D"))
        .where(
            *(staged.old(c) == k for c, k in zip(staged.identity, keys, strict=True))
        )
    )
    connection.execute(noted.add_cte(written))


def _held(
    staged: Staged, rows: Mapping[str, Any], *givers: str
) -> sa.Select[tuple[Any, ...]]:
    """The rows that give up keys which others take: their keys, and a number."""
    target = staged.table.sql()
    giver, taker = staged.source.alias("giver"), staged.source.alias("taker")
    keys = [target.c[name] for name in staged.identity]
    return (
        sa.select(
            *(key.label(f"k{n}") for n, key in enumerate(keys, 1)),
            func.row_number().over().label("place"),
        )
        .select_from(target, giver, taker)
        .where(selected(giver, rows), selected(taker, rows))
        .where(staged.kind(*givers, source=giver), staged.same_row(target, giver))
        .where(staged.kind(MOVE, source=taker))
        .where(*(target.c[c] == staged.new(c, taker) for c in staged.identity))
        .where(sa.not_(staged.same_row(target, taker)))
        .group_by(*keys)
    )


def copy(
    connection: Connection,
    staged: Staged,
    count: Mapping[str, int],
    rows: Mapping[str, Any],
) -> Mapping[str, int]:
    """Restage changes of keys as inserts under the new and deletes under the old keys.

    Writes the source.

    Returns:
        How many changes there are of each kind now.
    """
    target, source = staged.table.sql(), staged.source
    olds = {f"o{n}" for n in range(1, len(staged.columns) + 1)}
    news = {f"n{n}": name for n, name in enumerate(staged.columns, 1)}
    values: list[Any] = []
    for column in source.columns:
        if column.name == "kind":
            values.append(sa.literal("I"))
        elif column.name in olds:
            values.append(sa.null())
        elif column.name in news:
            values.append(updated(staged, target, news[column.name]))
        else:
            values.append(column)
    mine = [selected(source, rows), staged.kind(MOVE)]
    inserted = (
        sa.select(*values)
        .select_from(source.join(target, staged.same_row(target)))
        .where(*mine)
    )
    names = [column.name for column in source.columns]
    connection.execute(sa.insert(source).from_select(names, inserted))
    connection.execute(sa.update(source).values(kind=LEFT).where(*mine))
    moved = count[MOVE]
    others = {kind: number for kind, number in count.items() if kind != MOVE}
    return {**others, "I": count.get("I", 0) + moved, LEFT: moved}


def refuse_followers(
    connection: Connection, staged: Staged, rows: Mapping[str, Any]
) -> None:
    """Make sure that deletes under old keys take no other rows along.

    Raises:
        RowCountMismatch: rows outside this write still refer to such a key.
    """
    for foreign in referring(connection, [staged.table.oid]):
        if not foreign.acts_on_delete:
            continue
        child = sa.table(
            foreign.child.name,
            *map(sa.column, foreign.columns),
            schema=foreign.child.schema,
        )
        if not set(foreign.parent_columns) <= set(staged.columns):
            continue
        refers = (
            child.c[own] == staged.old(theirs)
            for own, theirs in zip(foreign.columns, foreign.parent_columns, strict=True)
        )
        found = sa.select(sa.literal(1)).where(
            selected(staged.source, rows), staged.kind(LEFT), *refers
        )
        if connection.scalar(found.limit(1)) is not None:
            raise RowCountMismatch(
                f"Rows of {foreign.child} still refer to old keys of "
                f"{staged.table.qualified}.",
                table=str(foreign.child),
            )


def prepared(
    connection: Connection,
    paired: Sequence[tuple[Staged, Mapping[str, int]]],
    rows: Mapping[str, Any],
    moves_below: Callable[[QualifiedName], bool],
) -> list[tuple[Staged, Mapping[str, int]]]:
    """The same changes, where some changes of keys are restaged by `copy`.

    Parameters:
        moves_below: whether rows that may refer to a table are updated.
    """
    found = []
    for staged, count in paired:
        followed = any(staged.table.column(c).followed for c in staged.identity)
        below = not followed and moves_below(staged.table.qualified)
        if count.get(MOVE) and (below or never_updated(staged, staged.identity)):
            count = copy(connection, staged, count, rows)
        found.append((staged, count))
    return found
