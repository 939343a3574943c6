"""Parked calls by the names that their columns have now.

A parked transaction names columns as the master called them when it came. Their numbers
are stored with it: as long as the table is the same, they say which columns are meant,
whatever these are called by now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Text, func, literal, select
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by

from deferred.batches import gone_columns
from deferred.error_catalog import error_call, error_transaction
from deferred.errors import GivesGoneColumn
from deferred.parked import lifted_calls
from deferred.parked.image import Image
from sites import QualifiedName, names

#: By the name that a column had, the name that it has now; None if it is gone.
Others = Mapping[str, str | None]


#: The columns of tables, and whether the tables compute them. Without a lock on the
#: tables: somebody may be altering one.
_CALLED = sa.text(
    """
    SELECT n.nspname, c.relname, a.attnum, a.attname, a.attgenerated <> '' AS computed
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.oid = ANY (CAST(:oids AS oid[]))
    """
)


#: Show the rows that an editor saw with the site's old values of columns.
_SEEN = sa.text(
    """
    UPDATE snaptide.error_call c
    SET current_values = (
      SELECT json_object_agg(key, value)
      FROM (SELECT key, value FROM json_each(c.current_values)
            UNION ALL
            SELECT key, value FROM json_each(COALESCE(c.old_values, c.new_values))
            WHERE key = ANY (CAST(:back AS text[]))) e)
    WHERE error_id = :error_id AND target_schema = :schema AND target_table = :table
      AND current_values IS NOT NULL
    """
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneColumns:
    """What a retry does with the values of columns that are gone: by itself, refuse."""

    #: give them to a column that was added with the same name since
    by_name: bool = False
    #: leave them out; they are lost
    without: bool = False


@dataclass(frozen=True, slots=True)
class PresentNames:
    """The columns of a parked transaction that are called otherwise by now."""

    _by_table: Mapping[QualifiedName, Others]

    def columns(self, table: QualifiedName, called: Iterable[str]) -> tuple[str, ...]:
        """Names of columns as they are shown; of one that takes no value, with why."""
        others = self._by_table.get(table, {})
        return tuple(_shown(others, name) for name in called)

    def image(self, table: QualifiedName, values: Image | None) -> Image | None:
        """The image of a row with these names."""
        others = self._by_table.get(table)
        if values is None or others is None:
            return values
        return {_shown(others, name): value for name, value in values.items()}


def of(
    connection: Connection, target_columns: Mapping[str, Any] | None
) -> PresentNames:
    """What to call the columns of a parked transaction when it is shown.

    Parameters:
        target_columns: as `error_transaction` has it.
    """
    known = target_columns or {}
    called, computed = _called(connection, known)
    found = _others(known, called)
    for table, others in found.items():
        now, numbers = computed.get(table, {}), known[str(table)]["numbers"]
        found[table] = {
            name: f"{now[number]} (generated)"
            if (number := numbers[name]) in now
            else it
            for name, it in others.items()
        }
    return PresentNames(found)


def settle(connection: Connection, row: Row[Any], choice: GoneColumns) -> None:
    """Have a parked transaction name columns as the master calls them now.

    Values of columns that are gone are lifted to those that lenses put in their place,
    unless they are to be left out. Other columns that are gone are left out of its
    calls, which do not change them. Writes error_transaction and error_call.

    Parameters:
        row: the transaction's row in the catalog, which is locked against other
            retries.
        choice: what becomes of the values of columns that are gone.

    Raises:
        GivesGoneColumn: a column is gone that a call gives a value, or by which its row
            is found; or a lens cannot lift a value.
    """
    known = before = dict(row.target_columns or {})
    called, _ = _called(connection, known)
    found = _others(known, called)
    if not choice.without and any(None in others.values() for others in found.values()):
        known = lifted_calls.lift(connection, row.id, before)
        called, _ = _called(connection, known)
        found = _others(known, called)
    for table, others in found.items():
        now, its = called[table], known[str(table)]
        gone = {name for name, it in others.items() if it is None}
        back = _added_again(gone, its, now)
        _refuse_key(connection, row.id, table, gone)
        if not choice.without:
            gone -= back if choice.by_name else set()
            _refuse_given(connection, row.id, table, sorted(gone), back)
        back -= gone
        left = {name: it for name, it in others.items() if name not in back}
        _rename(connection, row.id, table, left, sorted(gone))
        known[str(table)] = _renamed(its, left)
        if back:
            known[str(table)] = _at(known[str(table)], back, now)
            parts = {"error_id": row.id, "schema": table.schema, "table": table.name}
            connection.execute(_SEEN, {**parts, "back": sorted(back)})
    if found or known != before:
        mine = error_transaction.c.id == row.id
        connection.execute(
            sa.update(error_transaction).where(mine).values(target_columns=known)
        )


#: By table, the names of its columns by their numbers.
_Called = Mapping[QualifiedName, Mapping[int, str]]


def _called(
    connection: Connection, known: Mapping[str, Any]
) -> tuple[_Called, _Called]:
    """The columns that take values, and those that do not, as tables compute them."""
    oids = [its["oid"] for its in known.values()]
    called: dict[QualifiedName, dict[int, str]] = {}
    computed: dict[QualifiedName, dict[int, str]] = {}
    for row in connection.execute(_CALLED, {"oids": oids}):
        table = QualifiedName(row.nspname, row.relname)
        (computed if row.computed else called).setdefault(table, {})[row.attnum] = (
            row.attname
        )
    return called, computed


def _others(known: Mapping[str, Any], called: _Called) -> dict[QualifiedName, Others]:
    """By table, what columns are called now; only tables where that differs.

    A table that was made anew has other columns: calls go to those of the same names.
    """
    found: dict[QualifiedName, Others] = {}
    for one, its in ((names.parse(name), its) for name, its in known.items()):
        now = called.get(one)
        others = {
            name: now.get(number)
            for name, number in its["numbers"].items()
            if now is not None and now.get(number) != name
        }
        if others:
            found[one] = others
    return found


def _shown(others: Others, name: str) -> str:
    return others.get(name, name) or f"{name} (gone)"


def _added_again(
    gone: Collection[str], its: Mapping[str, Any], now: Mapping[int, str]
) -> set[str]:
    """Columns that are gone whose names younger columns have.

    An older one that was renamed is none that was added in place of them.
    """
    numbers = its["numbers"]
    return {
        name
        for n, name in now.items()
        if name in gone and n > numbers[name] and n not in numbers.values()
    }


def _at(
    its: Mapping[str, Any], back: Collection[str], now: Mapping[int, str]
) -> dict[str, Any]:
    """What is stored of a table's columns, some of which stand for others now."""
    numbers = {name: n for n, name in now.items() if name in back}
    every = sorted({*its.get("back", ()), *back})
    return {**its, "numbers": {**its["numbers"], **numbers}, "back": every}


def _refuse_key(
    connection: Connection, error_id: int, table: QualifiedName, gone: Iterable[str]
) -> None:
    """Refuse calls whose rows are found by a column that is gone.

    One that was added with its name since identifies other rows by the same values.

    Raises:
        GivesGoneColumn: the message names the call and the column.
    """
    for name in sorted(gone):
        found = connection.scalar(
            select(func.min(error_call.c.call_no)).where(
                *_of_table(error_id, table),
                literal(name) == func.any(error_call.c.identity_columns),
            )
        )
        if found is not None:
            raise GivesGoneColumn(
                f"Column {name} of {table} is gone, which identifies the row of call "
                f"{found}: delete the transaction, and make its changes anew.",
                table=str(table),
                column=name,
            )


def _refuse_given(
    connection: Connection,
    error_id: int,
    table: QualifiedName,
    gone: Sequence[str],
    back: Collection[str],
) -> None:
    """Refuse calls that give a value to a column that is gone.

    Parameters:
        back: those whose names other columns have now.

    Raises:
        GivesGoneColumn: the message names the call and the column.
    """
    call = error_call.c
    old, new = call.old_values, call.new_values
    for name in gone:
        given = sa.and_(
            call.kind.not_in(("D", "N")),
            new.op("->", return_type=Text())(name).is_not(None),
            new.op("->>")(name).is_distinct_from(old.op("->>")(name)),
        )
        found = connection.scalar(
            select(func.min(call.call_no)).where(*_of_table(error_id, table), given)
        )
        if found is not None:
            told = gone_columns.gives(connection, table, name, found)
            if name in back:
                told += " Another one has its name: retry by number to give it that."
            raise GivesGoneColumn(told, table=str(table), column=name)


def _rename(
    connection: Connection,
    error_id: int,
    table: QualifiedName,
    others: Others,
    gone: Sequence[str],
) -> None:
    now = {name: called for name, called in others.items() if called is not None}
    images = ("old_values", "new_values", "current_values")
    keys = func.unnest(error_call.c.identity_columns).table_valued(
        sa.column("key", Text), with_ordinality="place"
    )
    key = keys.render_derived().c
    renamed = select(_name(key.key, now)).order_by(key.place).scalar_subquery()
    connection.execute(
        sa.update(error_call)
        .where(*_of_table(error_id, table))
        .values(
            identity_columns=func.array(renamed, type_=sa.ARRAY(Text)),
            **{side: _image(error_call.c[side], now, gone) for side in images},
        )
    )


def _image(
    image: sa.ColumnElement[Any], now: Mapping[str, str], gone: Sequence[str]
) -> sa.ScalarSelect[Any]:
    """An image with other names, in the same order; NULL stays NULL."""
    columns = sa.column("key", Text), sa.column("value", sa.JSON)
    pairs = func.json_each(image).table_valued(*columns, with_ordinality="place")
    pair = pairs.render_derived().c
    values = aggregate_order_by(pair.value, pair.place)
    kept = pair.key != func.all(literal([*gone], sa.ARRAY(Text)))
    named = func.json_object_agg(_name(pair.key, now), values)
    return select(named).where(kept).scalar_subquery()


def _name(key: sa.ColumnElement[str], now: Mapping[str, str]) -> sa.ColumnElement[str]:
    called = sa.cast(literal(now, JSONB), JSONB).op("->>", return_type=Text())(key)
    return func.coalesce(called, key)


def _of_table(
    error_id: int, table: QualifiedName
) -> tuple[sa.ColumnElement[bool], ...]:
    call = error_call.c
    return (
        call.error_id == error_id,
        call.target_schema == table.schema,
        call.target_table == table.name,
    )


def _renamed(known: Mapping[str, Any], others: Others) -> dict[str, Any]:
    """What is stored of a table's columns, by their present names."""
    back = (others.get(name, name) for name in known.get("back", ()))
    kept: dict[str, Any] = {
        what: {
            others.get(name, name): value
            for name, value in known[what].items()
            if others.get(name, name) is not None
        }
        for what in ("numbers", "types")
    }
    return {**known, **kept, "back": [name for name in back if name is not None]}
