"""One call of a transaction with its images, as text that every type survives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Text, cast, select

from sites import QualifiedName
from sites.table import Table
from sites.write import Staged

#: Column -> value as the database prints it; None is NULL.
Image = Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A net change of one row, and the row that the master has."""

    call_no: int
    target: QualifiedName
    #: I insert, U update, D delete, R delete and insert, N nothing, X invalid
    kind: str
    identity: tuple[str, ...]
    old: Image | None
    new: Image | None
    current: Image | None

    @property
    def key(self) -> tuple[str | None, ...]:
        """The values that identify the row."""
        image = self.old or self.new or {}
        return tuple(image.get(name) for name in self.identity)


def read(connection: Connection, staged: Staged, unit: int) -> list[Call]:
    """The calls of a transaction in a work table, with the master's current rows."""
    target = staged.table.sql()
    present = target.c[staged.identity[0]].is_not(None)
    values = [
        cast(clause, Text).label(f"{side}{n}")
        for n, name in enumerate(staged.columns)
        for side, clause in (
            ("o", staged.old(name)),
            ("n", staged.new(name)),
            ("c", target.c[name]),
        )
    ]
    rows = connection.execute(
        select(
            staged.source.c.call_no,
            staged.source.c.kind,
            present.label("present"),
            *values,
        )
        .select_from(staged.source.outerjoin(target, staged.same_row(target)))
        .where(staged.source.c.unit == unit)
        .order_by(staged.source.c.call_no)
    )
    return [_call(staged, row) for row in rows]


def stage(calls: list[Call], staged: Staged, unit: int) -> list[list[object]]:
    """Rows of text for a work table, from calls: the reverse of `read`."""
    return [
        [unit, call.call_no, call.kind]
        + [(call.old or {}).get(name) for name in staged.columns]
        + [(call.new or {}).get(name) for name in staged.columns]
        for call in calls
    ]


def entries(table: Table, call: Call) -> set[tuple[tuple[str, ...], bool]]:
    """What a call holds (False) and refers to (True): rows, unique values, parents.

    Each entry is a table, columns and values; two calls meet where one of them
    holds an entry that the other holds or refers to.
    """
    found: set[tuple[tuple[str, ...], bool]] = set()
    for image in (call.old, call.new, call.current):
        if image is None:
            continue
        for columns in {call.identity, *(u.columns for u in table.uniques)}:
            found |= _entry(table.qualified, columns, columns, image, refers=False)
        for key in table.foreign_keys:
            found |= _entry(
                key.parent, key.parent_columns, key.columns, image, refers=True
            )
    return found


def _entry(
    table: QualifiedName,
    named: tuple[str, ...],
    columns: tuple[str, ...],
    image: Image,
    *,
    refers: bool,
) -> set[tuple[tuple[str, ...], bool]]:
    pairs = sorted(zip(named, (image.get(c) for c in columns), strict=True))
    if any(value is None for _, value in pairs):
        return set()
    flat = [part for name, value in pairs for part in (name, str(value))]
    return {((table.schema, table.name, *flat), refers)}


def _call(staged: Staged, row: Row[Any]) -> Call:
    def image(side: str) -> Image:
        return {
            name: getattr(row, f"{side}{n}") for n, name in enumerate(staged.columns)
        }

    return Call(
        call_no=row.call_no,
        target=staged.table.qualified,
        kind=row.kind,
        identity=staged.identity,
        old=None if row.kind in ("I", "N") else image("o"),
        new=None if row.kind == "D" else image("n"),
        current=image("c") if row.present else None,
    )
