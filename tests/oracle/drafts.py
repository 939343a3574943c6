"""Statements that the oracle's users make, drafted without knowing the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from psycopg import sql

from tests.oracle.shapes import Column, Shape, listed


@dataclass(frozen=True, slots=True)
class Draft:
    """What a user does, in numbers that fit every table."""

    kind: str
    table: int = 0
    row: int = 0
    other: int = 0
    column: int = 0
    value: int = 0

    def statements(self, shapes: Sequence[Shape]) -> list[sql.Composed]:
        """The statements, for the tables that there are."""
        return list(_KINDS[self.kind](self, shapes[self.table % len(shapes)]))


def _insert(draft: Draft, shape: Shape) -> Iterator[sql.Composed]:
    values = [
        *_key(shape, draft.row),
        *((c, c.value(draft.value + n)) for n, c in enumerate(shape.values)),
    ]
    yield sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        sql.Identifier(shape.name),
        listed(tuple(c.name for c, _ in values)),
        sql.SQL(", ").join(sql.Literal(v) for _, v in values),
    )


def _upsert(draft: Draft, shape: Shape) -> Iterator[sql.Composed]:
    (insert,) = _insert(draft, shape)
    if not shape.key:
        yield insert
        return
    column = _column(draft, shape)
    yield sql.SQL("{} ON CONFLICT ({}) DO UPDATE SET {} = {}").format(
        insert,
        listed(shape.key),
        sql.Identifier(column.name),
        sql.Literal(column.value(draft.other)),
    )


def _update(draft: Draft, shape: Shape) -> Iterator[sql.Composed]:
    yield _set(shape, _column(draft, shape), draft.value, _is_row(draft, shape))


def _update_many(draft: Draft, shape: Shape) -> Iterator[sql.Composed]:
    yield _set(shape, _column(draft, shape), draft.value, _alike(draft, shape))


def _update_key(draft: Draft, shape: Shape) -> Iterator[sql.Composed]:
    for column, value in _key(shape, draft.other):
        yield sql.SQL("UPDATE {} SET {} = {} WHERE {}").format(
            sql.Identifier(shape.name),
            sql.Identifier(column.name),
            sql.Literal(value),
            _is_row(draft, shape),
        )
        return


def _touch(draft: Draft, shape: Shape) -> Iterator[sql.Composed]:
    column = sql.Identifier(_column(draft, shape).name)
    table = sql.Identifier(shape.name)
    yield sql.SQL("UPDATE {} SET {} = {}").format(table, column, column)


def _delete(draft: Draft, shape: Shape) -> Iterator[sql.Composed]:
    yield _gone(shape, _is_row(draft, shape))


def _delete_many(draft: Draft, shape: Shape) -> Iterator[sql.Composed]:
    yield _gone(shape, _alike(draft, shape))


def _again(draft: Draft, shape: Shape) -> Iterator[sql.Composed]:
    yield _gone(shape, _is_row(draft, shape))
    yield from _insert(draft, shape)


def _swap(draft: Draft, shape: Shape) -> Iterator[sql.Composed]:
    """Two rows exchange a unique value, by way of NULL."""
    if not (shape.uniques and shape.key):
        return
    names, _ = shape.uniques[draft.column % len(shape.uniques)]
    column = shape.column(names[0])
    value = draft.value % (len(column_values := _values(column)))
    first, second = _is_row(draft, shape), _row(shape, draft.other)
    if column.nullable:
        yield _set(shape, column, len(column_values), second)
    yield _set(shape, column, value, first)
    yield _set(shape, column, value + 1, second)


def _swap_at_once(draft: Draft, shape: Shape) -> Iterator[sql.Composed]:
    """Two rows exchange a key or a unique value in one statement."""
    chosen = [*shape.key[:1], *(names[0] for names, _ in shape.uniques)]
    if not chosen:
        return
    column = shape.column(chosen[draft.column % len(chosen)])
    values = _values(column)
    one, two = (
        sql.SQL("{}::{}").format(
            sql.Literal(values[number % len(values)]), sql.SQL(column.type)
        )
        for number in (draft.value, draft.value + 1)
    )
    yield sql.SQL(
        "UPDATE {t} SET {c} = CASE {c} WHEN {one} THEN {two} ELSE {one} END"
        " WHERE {c} IN ({one}, {two})"
    ).format(
        t=sql.Identifier(shape.name), c=sql.Identifier(column.name), one=one, two=two
    )


def _merge(draft: Draft, shape: Shape) -> Iterator[sql.Composed]:
    """The row of a key is changed or deleted if it is there, and else added."""
    if not shape.key:
        return
    changed = sql.Identifier(_column(draft, shape).name)
    given = [
        *_key(shape, draft.row),
        *((c, c.value(draft.value + n)) for n, c in enumerate(shape.values)),
    ]
    of_source = [sql.SQL("s.{}").format(sql.Identifier(c.name)) for c, _ in given]
    does = (
        sql.SQL("DELETE")
        if draft.other % 3 == 0
        else sql.SQL("UPDATE SET {c} = s.{c}").format(c=changed)
    )
    yield sql.SQL(
        "MERGE INTO {table} t USING (SELECT {values}) s ON {same} WHEN MATCHED THEN"
        " {does} WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({of_source})"
    ).format(
        table=sql.Identifier(shape.name),
        values=sql.SQL(", ").join(
            sql.SQL("{}::{} AS {}").format(
                sql.Literal(value), sql.SQL(c.type), sql.Identifier(c.name)
            )
            for c, value in given
        ),
        same=sql.SQL(" AND ").join(
            sql.SQL("t.{c} = s.{c}").format(c=sql.Identifier(name))
            for name in shape.key
        ),
        does=does,
        names=listed(tuple(c.name for c, _ in given)),
        of_source=sql.SQL(", ").join(of_source),
    )


def _move(draft: Draft, shape: Shape) -> Iterator[sql.Composed]:
    """A row is deleted and added under another key, in one statement."""
    if not shape.key:
        return
    named = listed(tuple(c.name for c in shape.columns))
    keys = {
        c.name: sql.SQL("{}::{}").format(sql.Literal(value), sql.SQL(c.type))
        for c, value in _key(shape, draft.other)
    }
    yield sql.SQL(
        "WITH gone AS (DELETE FROM {table} WHERE {which} RETURNING {named})"
        " INSERT INTO {table} ({named}) SELECT {values} FROM gone"
    ).format(
        table=sql.Identifier(shape.name),
        which=_is_row(draft, shape),
        named=named,
        values=sql.SQL(", ").join(
            keys.get(c.name, sql.Identifier(c.name)) for c in shape.columns
        ),
    )


_KINDS: dict[str, Callable[[Draft, Shape], Iterator[sql.Composed]]] = {
    "insert": _insert,
    "upsert": _upsert,
    "update": _update,
    "update many": _update_many,
    "update key": _update_key,
    "touch": _touch,
    "delete": _delete,
    "delete many": _delete_many,
    "delete and insert": _again,
    "swap": _swap,
    "swap at once": _swap_at_once,
    "merge": _merge,
    "move": _move,
}


def drafts() -> st.SearchStrategy[Draft]:
    """Any draft; inserts are as frequent as all that takes rows away."""
    kinds = ["insert", "insert", "insert", "update", *_KINDS]
    few = st.integers(0, 7)
    return st.builds(
        Draft,
        kind=st.sampled_from(kinds),
        table=st.integers(0, 2),
        row=few,
        other=few,
        column=few,
        value=few,
    )


def _values(column: Column) -> tuple[str, ...]:
    found: list[str] = []
    while (value := column.value(len(found))) is not None and value not in found:
        found.append(value)
    return tuple(found)


def _key(shape: Shape, number: int) -> list[tuple[Column, str | None]]:
    """The key of a row: the first column tells most rows apart."""
    columns = [shape.column(name) for name in shape.key]
    return [(c, c.value(number // (n * 5 + 1))) for n, c in enumerate(columns)]


def _is_row(draft: Draft, shape: Shape) -> sql.Composed:
    return _row(shape, draft.row)


def _row(shape: Shape, number: int) -> sql.Composed:
    keys = _key(shape, number)
    if not keys:  # no key: any row that has this value
        keys = [(c := shape.columns[0], c.value(number))]
    return sql.SQL(" AND ").join(_equals(*one) for one in keys)


def _alike(draft: Draft, shape: Shape) -> sql.Composed:
    column = shape.columns[draft.other % len(shape.columns)]
    return sql.Composed([_equals(column, column.value(draft.row))])


def _equals(column: Column, value: str | None) -> sql.Composed:
    # As text: json has no equality.
    return sql.SQL("{}::text IS NOT DISTINCT FROM {}::{}::text").format(
        sql.Identifier(column.name), sql.Literal(value), sql.SQL(column.type)
    )


def _column(draft: Draft, shape: Shape) -> Column:
    return shape.values[draft.column % len(shape.values)]


def _set(
    shape: Shape, column: Column, value: int, where: sql.Composable
) -> sql.Composed:
    return sql.SQL("UPDATE {} SET {} = {} WHERE {}").format(
        sql.Identifier(shape.name),
        sql.Identifier(column.name),
        sql.Literal(column.value(value)),
        where,
    )


def _gone(shape: Shape, where: sql.Composable) -> sql.Composed:
    return sql.SQL("DELETE FROM {} WHERE {}").format(sql.Identifier(shape.name), where)
