"""The two databases of a comparison, and keys of rows as these print them.

Keys have one column of texts for each part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, Select, Text, cast, func, select
from sqlalchemy.dialects.postgresql import ARRAY

from sites.extras import pa, pc
from sites.sessions.exchange import Bound, Later
from sites.sessions.site import Site
from sites.transfer import arrow
from sites.transfer.transport import ask, literal_text
from sites.transfer.types import NativeType
from sites.transfer.values import array_text

#: More rows than this are worth a connection of their own that reads no text.
FEW = 50_000

#: Keys in one statement.
CHUNK = 250_000

#: This many keys are never too many, however wide their rows are.
ALWAYS_FEW = 10_000

#: A table with the columns `k1`, `k2`, ...
Keys: TypeAlias = "pa.Table"

#: A query for few rows, perhaps as a statement that is kept with its values.
Query: TypeAlias = "Select[Any] | Bound"


class Places:
    """The places of keys in a statement that gets them when it is run.

    Parameters:
        names: `k1`, `k2`, ...
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.column_names = names
        self.columns = [sa.bindparam(f"its_{n}", "{}", Text) for n in names]


def in_places(keys: Keys) -> dict[str, str]:
    """Keys as the values of their places."""
    pairs = zip(keys.column_names, keys.columns, strict=True)
    return {f"its_{name}": _array(column) for name, column in pairs}


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A database, and a REPEATABLE READ transaction there that stays open."""

    site: Site
    at: Connection

    def moment(self) -> str:
        """Export the transaction's moment for other sessions, and return its name."""
        return str(self.at.scalar(select(func.pg_export_snapshot())))

    def read(self, query: Select[Any], shape: pa.Schema, *, many: bool) -> pa.Table:
        """Run a query, and hold its rows as an Arrow table.

        Parameters:
            query: casts values that must travel as text
                (`sites.transfer.arrow.carrier`).
            many: whether it is likely to find more than a few rows.
        """
        if not many:
            return arrow.from_texts(ask(self.at, query)[0].texts(), shape)
        sql = literal_text(query)
        self.site.release()
        found = arrow.read_table(self.site.libpq_uri(), sql, snapshot=self.moment())
        return pa.Table.from_arrays(found.columns, schema=shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The master and the site."""

    master: Side
    site: Side

    def read(
        self, there: Select[Any], here: Select[Any], shape: pa.Schema, *, many: bool
    ) -> tuple[pa.Table, pa.Table]:
        """Read from both at the same time."""
        with ThreadPoolExecutor(max_workers=1) as beside:
            theirs = beside.submit(self.master.read, there, shape, many=many)
            present = self.site.read(here, shape, many=many)
            return theirs.result(), present

    def read_apart(
        self, wanted: Sequence[tuple[Query, Query, pa.Schema]]
    ) -> list[tuple[pa.Table, pa.Table]]:
        """Read few rows from both, each once, without those that both print alike.

        What a site has pushed comes back with its next refresh, and mostly as the site
        has it: Spark does not see such a row. The queries share a round trip.

        Parameters:
            wanted: by snapshot, the queries at both sides, and how images look.
        """
        there = ask(self.master.at, *(there for there, _, _ in wanted))
        here = ask(self.site.at, *(here for _, here, _ in wanted))
        found: list[tuple[pa.Table, pa.Table]] = []
        for theirs, mine, (_, _, shape) in zip(there, here, wanted, strict=True):
            sides = dict.fromkeys(theirs.texts()), dict.fromkeys(mine.texts())
            others = [row for row in sides[0] if row not in sides[1]]
            present = [row for row in sides[1] if row not in sides[0]]
            found.append(
                (arrow.from_texts(others, shape), arrow.from_texts(present, shape))
            )
        return found


def none(names: Sequence[str]) -> Keys:
    """No keys."""
    return _shape(names).empty_table()


def of_rows(rows: Iterable[Sequence[str | None]], names: Sequence[str]) -> Keys:
    """The keys whose values are given as texts."""
    shape = _shape(names)
    columns = [pa.array(part, pa.string()) for part in zip(*rows, strict=True)]
    return pa.table(columns, schema=shape) if columns else shape.empty_table()


def read(
    side: Side,
    query: Select[Any],
    names: Sequence[str],
    most: Callable[[], int] | None = None,
) -> Keys | None:
    """Keys that a query finds; None if there are too many.

    Parameters:
        most: says how many are allowed; asked only if there are more than a few.
    """
    asked = ask(side.at, first(query, names))[0]
    return read_all(side, asked, lambda: query, names, most)


def read_all(
    side: Side,
    asked: Later,
    query: Callable[[], Select[Any]],
    names: Sequence[str],
    most: Callable[[], int] | None = None,
) -> Keys | None:
    """The same, if the database was `asked` for the first ones before.

    Parameters:
        query: builds the query for all.
    """
    few = arrow.from_texts(asked.texts(), _shape(names))
    limit = most() if most and few.num_rows > ALWAYS_FEW else None
    if few.num_rows <= FEW:
        every = few
    else:
        texts = _texts(query(), names)
        texts = texts if limit is None else texts.limit(limit + 1)
        every = side.read(texts, _shape(names), many=True)
    return None if limit is not None and every.num_rows > limit else every


def first(query: Select[Any], names: Sequence[str]) -> Select[Any]:
    """The query for the first keys of those that a query finds, one more than a few."""
    return _texts(query, names).limit(sa.literal_column(str(FEW + 1)))


def _texts(query: Select[Any], names: Sequence[str]) -> Select[Any]:
    found = query.subquery()
    columns: list[Any] = [cast(found.c[name], Text).label(name) for name in names]
    return select(*columns)


def of_images(images: pa.Table, names: Sequence[str]) -> Keys:
    """The keys in images of rows, given only the columns that identify them."""
    printed = [arrow.printed(column) for column in images.columns]
    return pa.Table.from_arrays(printed, schema=_shape(names))


def together(first: Keys, second: Keys) -> Keys:
    """The keys of both, without duplicates that are spelled the same."""
    if not (first.num_rows and second.num_rows):
        return first if first.num_rows else second
    return distinct(pa.concat_tables([first, second]))


def distinct(rows: pa.Table) -> pa.Table:
    """Rows without duplicates that are spelled the same."""
    return rows.group_by(rows.column_names, use_threads=False).aggregate([])


def chunks(keys: Keys) -> Iterator[Keys]:
    """Keys in parts that one statement can take."""
    for first in range(0, keys.num_rows, CHUNK):
        yield keys.slice(first, CHUNK)


def as_rows(keys: Keys | Places, kinds: Sequence[NativeType]) -> sa.FromClause:
    """Keys as rows of a query, with their own types again."""
    plain = all(map(_is_plain, kinds))
    arrays = [
        _typed(column, kind if plain else Text())
        for column, kind in zip(keys.columns, kinds, strict=True)
    ]
    found = func.unnest(*arrays).table_valued(
        *keys.column_names, name="wanted", joins_implicitly=True
    )
    rows = found.render_derived()
    if plain:
        return rows
    each = zip(keys.column_names, kinds, strict=True)
    return select(*(cast(rows.c[k], kind).label(k) for k, kind in each)).subquery()


def numbered(keys: Keys, kinds: Sequence[NativeType]) -> sa.FromClause:
    """Keys as rows of a query, with their own types, and `no`, their place from 0."""
    arrays = [
        cast(sa.literal(array_text(column.to_pylist()), Text), ARRAY(Text))
        for column in keys.columns
    ]
    names = keys.column_names
    texts = func.unnest(*arrays).table_valued(
        *names, with_ordinality="no", name="texts", joins_implicitly=True
    )
    rows = texts.render_derived()
    typed = zip(names, kinds, strict=True)
    values = [cast(rows.c[name], kind).label(name) for name, kind in typed]
    return select((rows.c.no - 1).label("no"), *values).subquery("wanted")


def same(
    names: Sequence[str],
    wanted: sa.FromClause,
    of: Callable[[str], sa.ColumnElement[Any]],
) -> sa.ColumnElement[bool]:
    """Whether a row has a wanted key.

    Parameters:
        of: the row's value for each part of the key.
    """
    return sa.and_(*(of(name) == wanted.c[name] for name in names))


def among(
    column: sa.ColumnElement[Any], keys: Keys | Places, kind: NativeType
) -> sa.ColumnElement[bool] | None:
    """Whether a column that identifies rows has one of these values.

    PostgreSQL looks values of an array up in their order, and reads each row once. Of
    rows of keys it knows nothing, not even that they differ: for many, it may read the
    whole table instead.

    Returns:
        None if values of this type cannot be looked up so.
    """
    if not _is_plain(kind):
        return None
    return column == func.any(_typed(keys.columns[0], kind))


def _typed(
    column: pa.ChunkedArray | sa.ColumnElement[str], kind: sa.types.TypeEngine[Any]
) -> sa.ColumnElement[Any]:
    """Values of keys as an array of a type."""
    place = isinstance(column, sa.ColumnElement)
    return cast(column if place else sa.literal(_array(column), Text), ARRAY(kind))


def _is_plain(kind: NativeType) -> bool:
    """Whether `unnest` of an array of this type returns values of this type.

    It unpacks nested arrays completely, and composites into their columns;
    composites, like all types that are not PostgreSQL's own, have a dot in their name.
    """
    return not kind.name.endswith("[]") and "." not in kind.name


def _array(texts: pa.ChunkedArray) -> str:
    """Texts as PostgreSQL writes an array."""
    for special in ("\\", '"'):
        texts = pc.replace_substring(texts, special, "\\" + special)
    quoted = pc.binary_join_element_wise('"', texts, '"', "")
    return "{" + ",".join(quoted.to_pylist()) + "}"


def _shape(names: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in names])
