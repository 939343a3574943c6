"""One call of a transaction with its images, to be shown or edited."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from deferred.error_catalog import error_call
from deferred.parked.image import Image
from sites import QualifiedName
from sites.transfer.values import printed
from sites.writing.staged import Staged


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A net change of one row, and the master's row."""

    call_no: int
    target: QualifiedName
    #: I insert, U update, M update of the key too, D delete, R delete and insert,
    #: N nothing, X invalid
    kind: str
    identity: tuple[str, ...]
    old: Image | None
    new: Image | None
    current: Image | None
    #: the columns that an operator gave new values
    edited: frozenset[str] = frozenset()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns carried, in their order."""
        return tuple(self.new or self.old or {})


def read(connection: Connection, staged: Staged, unit: int) -> list[Call]:
    """The calls of a transaction in a work table, with the master's current rows."""
    target = staged.table.sql()
    present = target.c[staged.identity[0]].is_not(None)
    values = [
        printed(clause).label(f"{side}{n}")
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


def parked(connection: Connection, error_id: int, call_no: int) -> Call:
    """One call of a parked transaction."""
    row = connection.execute(
        select(error_call).where(
            error_call.c.error_id == error_id, error_call.c.call_no == call_no
        )
    ).one()
    return Call(
        call_no=row.call_no,
        target=QualifiedName(row.target_schema, row.target_table),
        kind=row.kind,
        identity=tuple(row.identity_columns),
        old=row.old_values,
        new=row.new_values,
        current=row.current_values,
    )


def stage(
    calls: Iterable[Call], staged: Staged, unit: Callable[[int], int]
) -> list[list[object]]:
    """Rows of text for a work table.

    Parameters:
        unit: gives the unit of a call, by its number.
    """
    return [
        [unit(call.call_no), unit(call.call_no), "f", call.call_no, call.kind]
        + [(call.old or {}).get(name) for name in staged.columns]
        + [(call.new or {}).get(name) for name in staged.columns]
        for call in calls
    ]


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
