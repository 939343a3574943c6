"""Writing staged changes row by row, after the database refused them as sets.

Written as sets, two rows may both have a flag for a moment that passes from one to the
other, which a partial unique index or an exclusion constraint forbids; and a CHECK or a
foreign key may forbid a value that stands in for another
(`sites.writing.unique_values`). Rows seldom conflict in the order in which their own
site wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from sites.errors import RowCountMismatch
from sites.writing import moves, write
from sites.writing.counted import Build, Counted
from sites.writing.staged import MOVE, Staged, selected

_BUILDERS: Mapping[str, Build] = {
    "I": write.insert,
    "U": write.update,
    MOVE: moves.move,
    "R": write.update,
    "D": write.delete,
}


@dataclass(frozen=True, slots=True)
class _Row:
    call_no: int
    kind: str
    staged: Staged


def write_rows(
    connection: Connection, changes: Sequence[Staged], rows: Mapping[str, Any]
) -> None:
    """Write changes in the order of their calls; retry refused ones after the others.

    Parameters:
        rows: equalities that select the changes in each source.

    Raises:
        sqlalchemy.exc.IntegrityError, RowCountMismatch: a row is refused although all
            others are written, or refused as well.
        sqlalchemy.exc.DBAPIError: for other reasons.
    """
    waiting = sorted(_found(connection, changes, rows), key=lambda row: row.call_no)
    while waiting:
        refusals = [(row, _refusal(connection, row, rows)) for row in waiting]
        refused = [row for row, why in refusals if why is not None]
        if len(refused) == len(waiting):
            raise next(why for _, why in refusals if why is not None)
        waiting = refused


def _found(
    connection: Connection, changes: Sequence[Staged], rows: Mapping[str, Any]
) -> list[_Row]:
    found: list[_Row] = []
    for staged in changes:
        source = staged.source
        query = sa.select(source.c.call_no, source.c.kind).where(
            selected(source, rows), staged.kind(*_BUILDERS)
        )
        found += (_Row(*row, staged) for row in connection.execute(query))
    return found


def _refusal(
    connection: Connection, row: _Row, rows: Mapping[str, Any]
) -> IntegrityError | RowCountMismatch | None:
    savepoint = connection.begin_nested()
    try:
        one = Counted(connection=connection, rows={**rows, "call_no": row.call_no})
        one.run(_BUILDERS[row.kind], row.staged, {row.kind: 1}, row.kind)
    except (IntegrityError, RowCountMismatch) as error:
        savepoint.rollback()
        return error
    savepoint.commit()
    return None
