"""Work tables: the changes of transactions, at the destination, ready to be applied.

Temporary tables of the destination's session, so that two pushers never see
each other's rows. One a queue, typed as the master's table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import OID

from deferred.queues.described import described
from sites import QualifiedName, triggers, wide
from sites.staged import Staged
from sites.table import Table

#: Where a session remembers its work tables, by name.
_KEPT = "snaptide.work_tables"

#: What each change has besides its images: see `net_change.columns_of`.
FIXED: Mapping[str, type[sa.types.TypeEngine[Any]]] = {
    "unit": sa.BigInteger,
    "tran": sa.BigInteger,
    "several": sa.Boolean,
    "call_no": sa.BigInteger,
    "kind": sa.Text,
}


def stage(
    connection: Connection,
    number: int,
    target: QualifiedName,
    columns: Sequence[str],
    identity: Sequence[str],
) -> Staged:
    """An empty work table for changes of one master table.

    A pooled session keeps it, with the statements that were built for it: to make them
    anew takes longer than to apply a small transaction.

    Parameters:
        number: tells the work tables of one session apart.
        columns: what is carried, by the master's names.

    Raises:
        UnknownTable, UnknownColumn: the master table, or one of its columns, is gone.
    """
    table = described(connection, target, columns)
    name = f"snaptide_work_{number}"
    wanted = Staged(
        table=table,
        source=source(name, table, columns),
        columns=tuple(columns),
        identity=tuple(identity),
    )
    kept: dict[str, _Kept] = connection.info.setdefault(_KEPT, {})
    before = kept.get(name)
    if before is not None and before.made_ready(connection, wanted):
        return before.staged
    # Of an earlier push over the same session.
    wide.drop(connection, QualifiedName(wide.TEMPORARY, name))
    create(connection, name, table, columns, schema=wide.TEMPORARY)
    if not wide.overflows(table, columns):
        kept[name] = _Kept(_oid(connection, name), wanted)
    return wanted


@dataclass(frozen=True, slots=True)
class _Kept:
    """A work table that a session still has, unless its transaction was undone."""

    oid: int | None
    staged: Staged

    def made_ready(self, connection: Connection, wanted: Staged) -> bool:
        """Empty it, if it is there and made for the same; else False."""
        mine, its = self.staged, (wanted.table, wanted.columns, wanted.identity)
        if (mine.table, mine.columns, mine.identity) != its:
            return False
        if _oid(connection, mine.source.name) != self.oid:
            return False
        # Nobody vacuums it, and what was deleted from it would be read for ever.
        connection.execute(sa.text(f"TRUNCATE {wide.TEMPORARY}.{mine.source.name}"))
        return True


def _oid(connection: Connection, name: str) -> int | None:
    found = sa.func.to_regclass(f"{wide.TEMPORARY}.{name}")
    return connection.scalar(sa.select(sa.cast(sa.cast(found, OID), sa.BigInteger)))


def create(
    connection: Connection,
    name: str,
    table: Table,
    columns: Sequence[str],
    *,
    schema: str,
    prefixes: Sequence[str] = (),
) -> None:
    """Create an empty work table for changes of a master table."""
    made = sa.Table(
        name, sa.MetaData(), *_fixed(), schema=schema, prefixes=list(prefixes)
    )
    images = _images(table, columns)
    wide.create(connection, made, images, wide=wide.overflows(table, columns))


def source(
    name: str, table: Table, columns: Sequence[str], schema: str | None = None
) -> sa.TableClause:
    """A work table that exists, for use in statements."""
    made = [*_fixed(), *_images(table, columns)]
    return sa.table(name, *(sa.column(c.name, c.type) for c in made), schema=schema)


def columns_of(staged: Staged) -> list[str]:
    """The columns of a work table, in their order."""
    return [column.name for column in staged.source.columns]


def clear(connection: Connection, staged: Sequence[Staged]) -> None:
    """Empty work tables."""
    for one in staged:
        connection.execute(sa.delete(one.source))


def counts(
    connection: Connection, staged: Sequence[Staged], unit: int
) -> list[Mapping[str, int]]:
    """How many changes of each kind a unit has, for each work table."""
    if not staged:
        return []
    each = [
        sa.select(
            sa.literal(n).label("place"),
            one.source.c.kind,
            sa.func.count().label("changes"),
        )
        .where(one.source.c.unit == unit)
        .group_by(one.source.c.kind)
        for n, one in enumerate(staged)
    ]
    found: list[dict[str, int]] = [{} for _ in staged]
    for row in connection.execute(sa.union_all(*each)):
        found[row.place][row.kind] = row.changes
    return list[Mapping[str, int]](found)


def invalid(connection: Connection, staged: Sequence[Staged], unit: int) -> set[int]:
    """The transactions of a unit with steps that do not follow from one another."""
    each = [
        sa.select(one.source.c.tran).where(
            one.source.c.unit == unit, one.source.c.kind == "X"
        )
        for one in staged
    ]
    return set(connection.scalars(sa.union_all(*each)))


def _fixed() -> list[sa.Column[Any]]:
    return [sa.Column(c, type_, nullable=False) for c, type_ in FIXED.items()]


def _images(table: Table, columns: Sequence[str]) -> list[sa.Column[Any]]:
    return [
        sa.Column(recorded, table.column(column).recorded_type)
        for side in ("o", "n")
        for recorded, column in zip(
            triggers.numbered(side, columns), columns, strict=True
        )
    ]
