"""Rows at both sides of a refresh, as they are compared, and their keys.

Columns are named by position (`c1`, `c2`, ...) and have the form that Arrow carries
exactly (`sites.transfer.arrow.carrier`): two values are the same if they are identical.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import Select, Text, cast, func, select

from sites.capture import position
from sites.conditions import where
from sites.conditions.ranges import Range
from sites.names import QualifiedName
from sites.sessions.prepared import built_once
from sites.tables.table import Table
from sites.transfer import arrow
from sites.transfer.types import NativeType
from sites.transfer.values import printed
from snapshots import keys
from snapshots.definitions import parents
from snapshots.definitions.old_columns import Values
from snapshots.definitions.snapshot import key_types
from snapshots.differences import own_keys
from snapshots.differences.window import Member
from snapshots.keys import (
    Keys,
    Places,
    Query,
    Side,
    among,
    as_rows,
    first,
    in_places,
)

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How images of a table look, at whichever side they are read."""

    schema: pa.Schema
    #: the columns that identify a row, and all of them, by position
    key: list[str]
    columns: list[str]


#: With more keys than this, PostgreSQL plans a query for their number.
_KEPT = 1000

#: A part of a window, by number, and how many there are; a hash of the key divides it.
Part = tuple[int, int]
WHOLE: Part = (0, 1)


def schema(member: Member) -> pa.Schema:
    """The Arrow schema of a member's images."""
    common = member.common
    return arrow.schema(common.column(name).type for name in member.carried)


def layout(member: Member) -> Layout:
    """How a member's images look."""
    return Layout(
        schema=schema(member), key=key_positions(member), columns=positions(member)
    )


def key_positions(member: Member) -> list[str]:
    """The columns of an image that identify its row, by position."""
    return [f"c{member.carried.index(n) + 1}" for n in member.snapshot.identity_columns]


def positions(member: Member) -> list[str]:
    """All columns of an image, by position."""
    return [f"c{n}" for n in range(1, len(member.carried) + 1)]


def first_changed(member: Member) -> Query:
    """The query for the first keys of those that `changed` finds (`keys.first`)."""
    names = member.snapshot.key_names
    if member.joined or any(member.asked_again()):
        return first(changed(member), names)

    def build() -> Select[Any]:
        given = sa.bindparam("its_since", "1:1:", Text)
        return first(changed(member, given), names)

    log = member.log_table, member.master, member.snapshot.identity_columns
    rows = member.slots, *member.own.items()
    return built_once((*log, *rows), build).bound(its_since=member.since)


def changed(member: Member, place: sa.ColumnElement[str] | None = None) -> Select[Any]:
    """Keys of rows that may have changed since the moment that the snapshot shows.

    Parameters:
        place: of that moment, in a statement that gets it when it is run.
    """
    since = member.since if place is None else place
    assert since is not None
    return changed_keys(member, since, present_apart=member.has_our_values)


def changed_keys(
    member: Member,
    since: str | sa.ColumnElement[str],
    *,
    present_apart: bool = False,
    once: bool = True,
) -> Select[Any]:
    """Keys (k1, k2, ...) of rows that may have changed, entered or left since then.

    Among them are all rows of a table that was attached since: no log names these. They
    are those of the snapshot's own values of partition columns, if the log records any.

    Parameters:
        present_apart: leave out rows that can only have left, because they lack what
            the condition requires; `leaving_keys` finds those that the site has.
        once: without duplicates.
    """
    log, snapshot = member.log(), member.snapshot
    keys = [log.c[name] for name in snapshot.key_names]
    logged = select(*keys).where(
        position.since(log.c.xid, since),
        *([log.c.slot.in_(member.slots)] if member.slots else ()),
        log.c.kind != "T",
        *(own_keys.restricting(log, member.own, since) if member.own else ()),
    )
    further = [
        *(_keys_in(member, part) for part in member.joined),
        *(
            find(member.master, snapshot.identity_columns, one, parent, changed)
            for one, parent, changed in member.asked_again()
            for find in [
                parents.accepted if present_apart and one.required else parents.looking
            ]
        ),
    ]
    if not further:
        return logged.distinct() if once else logged
    return select(*sa.union(logged, *further).subquery().c)


def leaving_keys(member: Member) -> list[Select[Any]]:
    """Keys of rows at the site that may have lost what the condition requires."""
    identity = member.snapshot.identity_columns
    return [
        parents.looking(member.base, identity, one, parent, changed)
        for one, parent, changed in member.asked_again()
        if one.required
    ]


def left(
    site: Side, member: Member, most: Callable[[], int] | None = None
) -> Keys | None:
    """What `leaving_keys` finds at the site; None if there are too many.

    Parameters:
        most: as for `keys.read`.
    """
    names = member.snapshot.key_names
    found: Keys | None = keys.none(names)
    for query in leaving_keys(member):
        if found is None:
            break
        more = keys.read(site, query, names, most)
        found = None if more is None else keys.together(found, more)
    return found


def at_master(member: Member, part: Range) -> Select[Any]:
    """Images of the rows in a range of the master table that belong to the snapshot."""
    table = _master_rows(member, part)
    query = select(*_images(member, at_master_now(member, table))).where(
        where.clause(member.snapshot.condition), where.clause(member.only)
    )
    return part.restrict(query, table)


def rows_of(member: Member, part: Range) -> Select[Any]:
    """The same rows as they are, for transport that does not look at values."""
    table = _master_rows(member, part)
    values = at_master_now(member, table)
    query = select(*(values[name] for name in member.carried))
    return part.restrict(query.where(where.clause(member.snapshot.condition)), table)


def present(member: Member, part: Range) -> Select[Any]:
    """Images of the rows in a range of the base table."""
    table = source(member.base, part).alias(member.snapshot.master_table)
    query = select(*_images(member, table.c)).where(where.clause(member.only))
    return part.restrict(query, table)


def of_changed(member: Member, since: str, part: Part = WHOLE) -> Select[Any]:
    """Images of the rows that changed at the master, as they are now."""
    changed = changed_keys(member, since).subquery("changed")
    found = _of_keys(member, kept(member), changed)
    return found.where(_in_part(member, changed, part))


def of_few_keys(member: Member, wanted: Keys) -> tuple[Query, Query]:
    """The queries for images of the rows that have these keys, at master and site."""
    if wanted.num_rows > _KEPT or member.old:
        return of_keys(member, wanted), present_of_keys(member, wanted)
    snapshot, at_once = member.snapshot, len(member.parts) == 1
    names = snapshot.identity_columns, member.carried, snapshot.condition
    what = member.master, member.base, *names, at_once
    values = in_places(wanted)
    there, here = (
        built_once((*what, find), partial(find, member, Places(snapshot.key_names)))
        for find in (of_keys, present_of_keys)
    )
    return there.bound(**values), here.bound(**values)


def of_keys(
    member: Member, wanted: Keys | Places, *, once: bool = False
) -> Select[Any]:
    """Images of the rows at the master that have these keys.

    Parameters:
        once: a key may be there in two spellings (1.0 and 1.00); read its row once.
    """
    at_once = len(member.parts) == 1
    return _looked_up(
        member, member.master, kept(member), wanted, once=once, at_once=at_once
    )


def present_of_keys(
    member: Member, wanted: Keys | Places, *, once: bool = False
) -> Select[Any]:
    """Images of the rows with these keys that the snapshot holds now.

    Parameters:
        once: as of `of_keys`.
    """
    return _looked_up(
        member, member.base, member.base.sql(), wanted, once=once, at_once=True
    )


def _keys_in(member: Member, part: QualifiedName) -> Select[Any]:
    names = member.snapshot.identity_columns
    kinds = key_types(member.master, names)
    columns = [sa.column(c, kind) for c, kind in zip(names, kinds, strict=True)]
    table = sa.table(part.name, *columns, schema=part.schema)
    keys = zip(table.c, member.snapshot.key_names, strict=True)
    query = select(*(column.label(key) for column, key in keys))
    return Range(table=part).restrict(query, table)


def _looked_up(
    member: Member,
    table: Table,
    rows: sa.FromClause,
    wanted: Keys | Places,
    *,
    once: bool,
    at_once: bool,
) -> Select[Any]:
    """Images of the rows of a table that have these keys.

    Parameters:
        rows: those of the table that count.
        at_once: the table has no parts. For each of these, PostgreSQL would estimate
            how many rows each single value finds there.
    """
    kinds, names = member.key_types(table), member.snapshot.identity_columns
    if at_once and len(names) == 1:
        found = among(rows.c[names[0]], wanted, kinds[0])
        if found is not None:
            return select(*_images(member, rows.c)).where(found)
    keys: sa.FromClause = as_rows(wanted, kinds)
    if once:
        keys = select(*keys.c).distinct().subquery("once")
    return _of_keys(member, rows, keys)


def at_site(
    member: Member, keys: Sequence[Select[Any]], part: Part = WHOLE
) -> Select[Any]:
    """Images of the rows that the snapshot holds now for the keys of these queries."""
    wanted = select(*sa.union_all(*keys).subquery().c).distinct().subquery("wanted")
    found = _of_keys(member, member.base.sql(), wanted)
    return found.where(_in_part(member, wanted, part))


def _in_part(member: Member, keys: sa.FromClause, part: Part) -> sa.ColumnElement[bool]:
    number, parts = part
    if parts == 1:
        return sa.true()
    texts = [cast(keys.c[name], Text) for name in member.snapshot.key_names]
    key_hash = func.hashtext(func.concat_ws(",", *texts)).op("&")(0x7FFFFFFF)
    return func.mod(key_hash, parts) == number


def _master_rows(member: Member, part: Range) -> sa.FromClause:
    """A part of the master table, under the name that the condition has for it."""
    return source(member.master, part).alias(member.snapshot.master_table)


def source(table: Table, part: Range) -> sa.TableClause:
    """A part of a table, with the types of its columns."""
    columns = [sa.column(c.name, c.sql_type) for c in table.columns]
    return sa.table(part.table.name, *columns, schema=part.table.schema)


def at_master_now(member: Member, rows: sa.FromClause) -> Values:
    """The columns of rows of the master table, with those that a lens makes."""
    there = [c.name for c in member.master.columns if c.name not in member.old]
    made = {name: one.value(rows.c).label(name) for name, one in member.old.items()}
    return {name: rows.c[name] for name in there} | made


def kept(member: Member) -> sa.FromClause:
    """The rows of the master table that belong to the snapshot."""
    # The condition may name columns without their table, so the table has to be alone.
    table = member.master.sql()
    values = at_master_now(member, table)
    # Others may not be readable: a publication need not have them.
    read = dict.fromkeys((*member.snapshot.identity_columns, *member.carried))
    rows = select(*(values[name] for name in read))
    if member.snapshot.condition is not None:
        rows = rows.where(where.clause(member.snapshot.condition))
    return rows.subquery("kept")


def _of_keys(member: Member, rows: sa.FromClause, keys: sa.FromClause) -> Select[Any]:
    joined = rows.join(keys, same(member, rows, keys))
    return select(*_images(member, rows.c)).select_from(joined)


def same(
    member: Member, rows: sa.FromClause, keys: sa.FromClause
) -> sa.ColumnElement[bool]:
    """Whether a row of either side has one of these keys (k1, k2, ...)."""
    snapshot = member.snapshot
    pairs = zip(snapshot.identity_columns, snapshot.key_names, strict=True)
    return sa.and_(*(rows.c[name] == keys.c[k] for name, k in pairs))


def _images(member: Member, rows: Values) -> list[sa.ColumnElement[Any]]:
    return carried(member.common, member.carried, rows)


def carried(
    table: Table, columns: Sequence[str], rows: Values
) -> list[sa.ColumnElement[Any]]:
    """The columns of an image, made of rows.

    Parameters:
        table: says the types of the columns.
        rows: the values of the columns, by name.
    """
    return [
        _carried(table, name, rows[name]).label(f"c{n}")
        for n, name in enumerate(columns, 1)
    ]


def _carried(
    base: Table, name: str, value: sa.ColumnElement[Any]
) -> sa.ColumnElement[Any]:
    column = base.column(name)
    if arrow.carrier(column.type) == "native":
        return sa.cast(value, column.staged_type)
    return printed(sa.type_coerce(value, NativeType(column.recorded)))
