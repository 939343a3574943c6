"""Work tables: the changes of transactions, at the destination, ready to be applied.

Temporary tables of the destination's session, so that two pushers never see each
other's rows. Each queue has one, with the master table's types but without lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations
from typing import Any, NamedTuple

import psycopg
import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import OID
from sqlalchemy.exc import DBAPIError

from sites import QualifiedName, Site
from sites.catalog import SCHEMA
from sites.errors import TableHidesRows
from sites.names import numbered
from sites.sessions.connections import HOLDS_TYPES
from sites.sessions.prepared import Prepared, as_json
from sites.tables import locks, wide
from sites.tables.table import Table
from sites.writing.staged import Staged

#: Where a session remembers its work tables, by name.
_KEPT = "snaptide.work_tables"

#: The prefix of the names of work tables that sessions share, and the first half of the
#: advisory lock under which they are used: see `synchronous.staging`.
SHARED = "work$"
USE_LOCK = 0x53594E55

#: A work table of up to so many bytes is emptied with DELETE, because TRUNCATE takes
#: longer and makes PostgreSQL plan the statements about it again.
SMALL = 64 * 1024

#: The columns of each change besides its images: see `net_change.columns_of`.
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
    table: Table,
    columns: Sequence[str],
    identity: Sequence[str],
    *,
    emptied: bool = True,
    state: State | None = None,
) -> Staged:
    """A work table for changes of one master table.

    A pooled session keeps it, with the statements that were built for it: building them
    again takes longer than applying a small transaction.

    Parameters:
        number: tells the work tables of one session apart.
        table: the master table.
        columns: the carried columns, by the master's names.
        emptied: False if the caller empties it, as `ship` does before it fills it. A
            large one is emptied all the same.
        state: of the table of that number in this transaction, if the caller knows it.

    Raises:
        TableHidesRows.
    """
    refuse_hidden(table)
    name = f"{_NAME}{number}"
    kept: dict[str, _Kept] = connection.info.setdefault(_KEPT, {})
    before = kept.get(name)
    wanted = table, tuple(columns), tuple(identity)
    if before is not None and before.is_there(
        state or states(connection, [number])[number], *wanted
    ):
        if emptied or before.is_large:
            before.empty(connection)
        return before.staged
    # An earlier push over the same session may have left one.
    wide.drop(connection, QualifiedName(wide.TEMPORARY, name))
    create(connection, name, table, columns, schema=wide.TEMPORARY)
    if not all(table.column(one).is_built_in for one in columns):
        connection.info[HOLDS_TYPES] = True
    made = Staged(
        table=table,
        source=source(name, table, columns),
        columns=tuple(columns),
        identity=tuple(identity),
    )
    if not wide.overflows(table, columns):
        kept[name] = _Kept(states(connection, [number])[number].oid, made)
    return made


def refuse_hidden(table: Table) -> None:
    """Refuse a table whose rows cannot be compared, as some cannot be seen.

    Raises:
        TableHidesRows: row-level security hides some, but for that of a publication.
    """
    if table.hides_rows:
        raise TableHidesRows(
            f"Row-level security hides rows of {table.qualified} from Snaptide's user.",
            table=str(table.qualified),
        )


@dataclass(slots=True)
class _Kept:
    """A work table that a session still has, unless its transaction was rolled back."""

    oid: int | None
    staged: Staged
    #: bytes on disk, at the last look
    size: int | None = 0

    def is_there(
        self,
        now: State,
        table: Table,
        columns: tuple[str, ...],
        identity: tuple[str, ...],
    ) -> bool:
        """Whether it still exists, and was made for the same table and columns."""
        mine, its = self.staged, (table, columns, identity)
        if (mine.table, mine.columns, mine.identity) != its:
            return False
        self.size = now.size
        return bool(now.oid == self.oid)

    @property
    def is_large(self) -> bool:
        """Whether TRUNCATE empties it sooner than DELETE."""
        return (self.size or 0) > SMALL

    def empty(self, connection: Connection) -> None:
        """Delete all rows, with TRUNCATE if it is large."""
        if self.is_large:
            # Autovacuum skips temporary tables: every scan would read the dead rows.
            name = self.staged.source.name
            connection.execute(sa.text(f"TRUNCATE {wide.TEMPORARY}.{name}"))
        else:
            clear(connection, [self.staged])


class State(NamedTuple):
    """Whether a session has a work table."""

    oid: int | None
    #: in bytes
    size: int | None


def states(connection: Connection, numbers: Sequence[int]) -> dict[int, State]:
    """The states of the work tables of a session, by number."""
    return states_in(_STATES.run(connection, **asked(numbers)).scalar())


def asked(numbers: Sequence[int]) -> dict[str, list[int]]:
    """The parameters of a statement with `STATES`."""
    return {"its_numbers": [*numbers]}


def states_in(found: Sequence[Mapping[str, int]] | None) -> dict[int, State]:
    """The states in the column `STATES` of a row."""
    return {row["number"]: State(row["oid"], row["size"]) for row in found or ()}


#: What the names of work tables begin with; a number follows.
_NAME = "snaptide_work_"

_number = sa.func.unnest(
    sa.bindparam("its_numbers", type_=sa.ARRAY(sa.BigInteger))
).column_valued("number")
_THERE = sa.func.to_regclass(f"{wide.TEMPORARY}.{_NAME}" + sa.cast(_number, sa.Text))

#: The states of the tables that are `asked` for, for statements that read more.
STATES = as_json(
    sa.select(
        _number.label("number"),
        sa.cast(sa.cast(_THERE, OID), sa.BigInteger).label("oid"),
        sa.func.pg_relation_size(_THERE).label("size"),
    ),
    "states",
)
_STATES = Prepared(sa.select(STATES))


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
    """An existing work table, for use in statements."""
    made = [*_fixed(), *_images(table, columns)]
    return sa.table(name, *(sa.column(c.name, c.type) for c in made), schema=schema)


def columns_of(staged: Staged) -> list[str]:
    """The columns of a work table, in their order."""
    return [column.name for column in staged.source.columns]


def clear(connection: Connection, staged: Sequence[Staged]) -> None:
    """Empty work tables."""
    for one in staged:
        emptied = one.keep("emptied", partial(Prepared, sa.delete(one.source)))
        emptied.run(connection)


def counts(
    connection: Connection, staged: Sequence[Staged], unit: int
) -> list[Mapping[str, int]]:
    """How many changes of each kind a unit has, for each work table."""
    return ask_counts(connection, staged, unit)()[0] if staged else []


def ask_counts(
    connection: Connection,
    staged: Sequence[Staged],
    unit: int,
    also: sa.ColumnElement[bool] | None = None,
    **values: object,
) -> Callable[[], tuple[list[Mapping[str, int]], bool]]:
    """Ask the same, and whether something else holds, with what is asked next.

    Parameters:
        also: what else: a constant, as the statement is kept for each.
        values: the parameters of it.

    Returns:
        What the caller calls then to get the answers.
    """
    tables = tuple((one.source.name, one.source.schema) for one in staged)
    asked = _counting(tables, also).hold(connection, its_unit=unit, **values)

    def counted() -> tuple[list[Mapping[str, int]], bool]:
        found: list[dict[str, int]] = [{} for _ in staged]
        holds = False
        for row in asked.answer():
            if row.place is None:
                holds = bool(row.changes)
            else:
                found[row.place][row.kind] = row.changes
        return list[Mapping[str, int]](found), holds

    return counted


@lru_cache(maxsize=256)
def _counting(
    tables: tuple[tuple[str, str | None], ...], also: sa.ColumnElement[bool] | None
) -> Prepared:
    number = sa.bindparam("its_unit", type_=sa.BigInteger)
    each: list[sa.Select[*tuple[Any, ...]]] = []
    for place, (name, schema) in enumerate(tables):
        changes = sa.table(name, sa.column("unit"), sa.column("kind"), schema=schema)
        counted = sa.func.count().label("changes")
        each.append(
            sa.select(sa.literal(place).label("place"), changes.c.kind, counted)
            .where(changes.c.unit == number)
            .group_by(changes.c.kind)
        )
    if also is not None:
        holds = sa.cast(sa.cast(also, sa.Integer), sa.BigInteger)
        each.append(sa.select(sa.null(), sa.null(), holds))
    return Prepared(sa.union_all(*each))


def invalid(connection: Connection, staged: Sequence[Staged], unit: int) -> set[int]:
    """The transactions of a unit with steps that do not follow from one another."""
    each = [
        sa.select(one.source.c.tran).where(
            one.source.c.unit == unit, one.source.c.kind == "X"
        )
        for one in staged
    ]
    return set(connection.scalars(sa.union_all(*each)))


def table_of(
    connection: Connection, staged: Sequence[Staged], call_no: int
) -> QualifiedName:
    """The table of a call that is in one of these work tables."""
    its = sa.select(sa.literal(1)).where
    return next(
        one.table.qualified
        for one in staged
        if connection.scalar(its(one.source.c.call_no == call_no)) is not None
    )


def of_two_tables(
    connection: Connection, staged: Sequence[Staged], unit: int
) -> set[int]:
    """The transactions of a unit that change a row through two of its work tables.

    A site can have two snapshots of one master table. If these identify its rows by
    different columns, the rows cannot be compared: then the result is all transactions
    with changes of that table.

    Parameters:
        staged: the work tables in which the unit has changes.
    """
    found = set[int]()
    for one, other in combinations(staged, 2):
        if one.table.qualified != other.table.qualified:
            continue
        here, there = one.source.c, other.source.c
        mine, theirs = here.unit == unit, there.unit == unit
        if one.identity == other.identity:
            same = [one.key(name) == other.key(name) for name in one.identity]
            mine = theirs = sa.and_(mine, theirs, *same)
        both = sa.select(here.tran).where(mine), sa.select(there.tran).where(theirs)
        found.update(connection.scalars(sa.union(*both)))
    return found


def _fixed() -> list[sa.Column[Any]]:
    return [sa.Column(c, type_, nullable=False) for c, type_ in FIXED.items()]


def _images(table: Table, columns: Sequence[str]) -> list[sa.Column[Any]]:
    return [
        sa.Column(recorded, table.column(column).staged_type)
        for side in ("o", "n")
        for recorded, column in zip(numbered(side, columns), columns, strict=True)
    ]


def sweep(master: Site) -> int:
    """Drop the shared work tables that no transaction uses; they are made when needed.

    Returns:
        How many were dropped.
    """
    with master.transaction() as connection:
        seen = sa.inspect(connection)
        # Work tables of wide rows are views.
        found = seen.get_table_names(SCHEMA) + seen.get_view_names(SCHEMA)
    return sum(_drop(master, name) for name in found if name.startswith(SHARED))


def _drop(master: Site, name: str) -> bool:
    use = sa.func.pg_try_advisory_xact_lock(USE_LOCK, sa.func.hashtext(name))
    try:
        with master.transaction() as connection:
            locks.briefly(connection)
            if not connection.scalar(sa.select(use)):
                return False
            wide.drop(connection, QualifiedName(SCHEMA, name))
    except (psycopg.Error, DBAPIError):
        return False  # a reader, such as a dump, locks it, or it is not ours: try later
    return True
