"""Shipping transactions with values that the destination cannot hold.

They cannot be shipped like others: a number is beyond the column's type, an enum has no
such label, or the encoding lacks a character. The values that fit go into the work
tables, with NULL in place of the others. Those are kept in tables of their own, as JSON
in ASCII, until the transaction is parked with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Text, func, select

from deferred.batches import gone_columns, work
from deferred.errors import GivesGoneColumn, ValueWouldChange
from sites.errors import ValueDoesNotFit
from sites.sessions.prepared import Prepared
from sites.tables import lossy
from sites.transfer import encodings, transport
from sites.transfer.values import each_of
from sites.writing import misfits
from sites.writing.misfits import REFUSES
from sites.writing.staged import Staged

_UNREAD = sa.table(
    "snaptide_unread",
    *(sa.column(name, type_) for name, type_ in work.FIXED.items()),
    sa.column("images", sa.JSON),
    sa.column("lost", sa.JSON),
    sa.column("gone", sa.JSON),
    schema="pg_temp",
)
_MISFIT = sa.table(
    "snaptide_misfit",
    sa.column("call_no", sa.BigInteger),
    sa.column("side", Text),
    sa.column("name", Text),
    sa.column("value", sa.JSON),
    sa.column("message", Text),
    sa.column("code", Text),
    schema="pg_temp",
)
_CREATE = (
    """CREATE TEMP TABLE IF NOT EXISTS snaptide_unread (unit bigint, tran bigint,
    several boolean, call_no bigint, kind text, images json, lost json, gone json)""",
    """CREATE TEMP TABLE IF NOT EXISTS snaptide_misfit (call_no bigint, side text,
    name text, value json, message text, code text)""",
)
_EMPTY = ("DELETE FROM pg_temp.snaptide_unread", "DELETE FROM pg_temp.snaptide_misfit")

#: A character that a database's encoding lacks.
UNTRANSLATABLE = "22P05"
_LACKS = "the encoding of the database lacks some of its characters"

_COMPLETE = """
UPDATE snaptide.error_call c
SET old_values = CASE WHEN old_values IS NOT NULL THEN ({old}) END,
    new_values = CASE WHEN new_values IS NOT NULL THEN ({new}) END,
    conflict = (SELECT string_agg(DISTINCT m.name || ': ' || m.message, '; ')
                FROM pg_temp.snaptide_misfit m WHERE m.call_no = c.call_no)
WHERE error_id = :error_id AND call_no IN (SELECT call_no FROM pg_temp.snaptide_misfit)
"""
_WITH_THEM = """
SELECT json_object_agg(e.key, COALESCE(m.value, e.value) ORDER BY e.place)
FROM json_each(c.{0}) WITH ORDINALITY e(key, value, place)
LEFT JOIN pg_temp.snaptide_misfit m
  ON m.call_no = c.call_no AND m.side = '{0}' AND m.name = e.key
"""


def begin(target: Connection) -> None:
    """Create the tables for values that do not fit, or empty them."""
    for statement in (*_CREATE, *_EMPTY):
        target.execute(sa.text(statement))
    gone_columns.begin(target)


def stage(
    rows: Iterator[Sequence[str | None]],
    target: Connection,
    staged: Staged,
    codec: str,
    narrower: Mapping[str, str],
) -> None:
    """Fill a work table with rows, and store apart the values that do not fit.

    Parameters:
        rows: the values of the columns of the work table, and then, if the destination
            has dropped some, their values.
        codec: of the destination's encoding.
        narrower: columns that may round or cut values, with the types of the values.
    """
    columns = work.columns_of(staged)
    target.execute(sa.text(_EMPTY[0]))
    transport.copy_rows(
        target,
        _UNREAD,
        [column.name for column in _UNREAD.columns],
        _readable(rows, columns, codec),
    )
    kept = ("unfit", tuple(narrower.items()))
    for statement in staged.keep(kept, partial(_sorting, staged, columns, narrower)):
        statement.run(target)
    gone_columns.keep(target)


def _sorting(
    staged: Staged, columns: Sequence[str], narrower: Mapping[str, str]
) -> list[Prepared]:
    """The statements that divide what was read into what fits and what does not."""
    images = columns[len(work.FIXED) :]
    text = func.json_to_record(_UNREAD.c.images).table_valued(
        *(sa.column(name, Text) for name in images), name="text"
    )
    record = text.render_derived(with_types=True).lateral()
    joined = _UNREAD.join(record, sa.true())
    values = [
        _where_valid(record.c[name], staged.source.c[name].type) for name in images
    ]
    fixed = [_UNREAD.c[name] for name in work.FIXED]
    fitting = select(*fixed, *values).select_from(joined)
    unfit = (
        _refused(staged, joined, record, images),
        _lost(staged, images),
        *(_changed(staged, joined, record, *one) for one in narrower.items()),
    )
    into = [column.name for column in _MISFIT.columns]
    return [
        Prepared(sa.insert(staged.source).from_select(columns, fitting)),
        *(Prepared(sa.insert(_MISFIT).from_select(into, found)) for found in unfit),
    ]


def reason(
    target: Connection, staged: Sequence[Staged], not_lifted: str = ""
) -> ValueDoesNotFit | GivesGoneColumn | None:
    """Why the staged transaction cannot be applied; None if all of it fits.

    Parameters:
        staged: the work tables with its changes.
        not_lifted: why a lens does not give values of columns that are gone to others.
    """
    if gone := gone_columns.reason(target, staged, not_lifted):
        return gone
    old = select(func.bool_or(_MISFIT.c.side == "old_values")).scalar_subquery()
    row = target.execute(
        select(
            _MISFIT, sa.cast(_MISFIT.c.value, Text).label("text"), old.label("starts")
        )
        .order_by(_MISFIT.c.side, _MISFIT.c.call_no)
        .limit(1)
    ).one_or_none()
    if row is None:
        return None
    table = work.table_of(target, staged, row.call_no)
    shown = misfits.message(
        table, row.name, encodings.read(json.loads(row.text)), row.message
    )
    return ValueDoesNotFit(
        encodings.escaped(target, shown), sqlstate=row.code, starts=row.starts
    )


def complete(target: Connection, error_id: int) -> None:
    """Complete a parked transaction's images with the values that did not fit."""
    parts = {side: _WITH_THEM.format(f"{side}_values") for side in ("old", "new")}
    target.execute(sa.text(_COMPLETE.format(**parts)), {"error_id": error_id})
    gone_columns.complete(target, error_id)


def _readable(
    rows: Iterator[Sequence[str | None]], columns: Sequence[str], codec: str
) -> Iterator[list[object]]:
    """Rows that the destination can read; other values are in a column of their own."""
    fixed, whole = len(work.FIXED), len(columns)
    for row in rows:
        images = dict(zip(columns[fixed:], row[fixed:whole], strict=True))
        gone = gone_columns.readable(row[whole], codec) if len(row) > whole else None
        lost = {
            name: json.dumps(kept)
            for name, value in images.items()
            if (kept := encodings.stored(value, codec)) != value
        }
        held = {name: None if name in lost else images[name] for name in images}
        yield [*row[:fixed], json.dumps(held), json.dumps(lost) if lost else None, gone]


def _where_valid(
    value: ColumnElement[Any], type_: sa.types.TypeEngine[Any]
) -> ColumnElement[Any]:
    name = type_.compile()
    return sa.case((func.pg_input_is_valid(value, name), sa.cast(value, type_)))


def _refused(
    staged: Staged, joined: sa.Join, record: sa.FromClause, images: Sequence[str]
) -> sa.Select[Any]:
    """The values that the types of columns refuse."""
    sides = _sides(staged, images)
    each = each_of(
        "each",
        ("side", "name", "value", "type"),
        [
            (
                *map(sa.literal, sides[name]),
                record.c[name],
                sa.literal(staged.source.c[name].type.compile()),
            )
            for name in images
        ],
    )
    refused = REFUSES.lateral()
    return (
        select(
            _UNREAD.c.call_no,
            each.c.side,
            each.c.name,
            func.to_json(each.c.value),
            refused.c.message,
            refused.c.sql_error_code,
        )
        .select_from(joined.join(each, sa.true()).join(refused, sa.true()))
        .where(each.c.value.is_not(None), refused.c.message.is_not(None))
    )


def _changed(
    staged: Staged, joined: sa.Join, record: sa.FromClause, column: str, type_: str
) -> sa.Select[Any]:
    """The new values that a column would round or cut."""
    number, into = (
        staged.columns.index(column) + 1,
        staged.table.column(column).recorded,
    )
    value = record.c[f"n{number}"]
    return (
        select(
            _UNREAD.c.call_no,
            sa.literal("new_values"),
            sa.literal(column),
            func.to_json(value),
            func.concat(lossy.WOULD_BECOME, lossy.becomes(value, into)),
            sa.literal(ValueWouldChange.code),
        )
        .select_from(joined)
        .where(
            value.is_distinct_from(record.c[f"o{number}"]),
            lossy.changes(value, type_, into),
        )
    )


def _lost(staged: Staged, images: Sequence[str]) -> sa.Select[Any]:
    """The values with characters that the encoding of the database lacks."""
    sides = _sides(staged, images)
    known = each_of(
        "known",
        ("image", "side", "name"),
        [tuple(map(sa.literal, (name, *sides[name]))) for name in images],
    )
    pair = [sa.column("key", Text), sa.column("value", Text)]
    each = func.json_each_text(_UNREAD.c.lost).table_valued(*pair).lateral()
    return select(
        _UNREAD.c.call_no,
        known.c.side,
        known.c.name,
        sa.cast(each.c.value, sa.JSON),
        sa.literal(_LACKS),
        sa.literal(UNTRANSLATABLE),
    ).select_from(
        _UNREAD.join(each, sa.true()).join(known, known.c.image == each.c.key)
    )


def _sides(staged: Staged, images: Sequence[str]) -> dict[str, tuple[str, str]]:
    """For each column of an image, its side and name in the error queue."""
    names = [*staged.columns, *staged.columns]
    return {
        image: ("old_values" if image.startswith("o") else "new_values", name)
        for image, name in zip(images, names, strict=True)
    }
