"""Types for the history of a row: its events, and the row that is looked for."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Text, func

from deferred.parked.image import Image
from sites import QualifiedName
from sites.tables.table import Column
from sites.transfer.values import from_text

#: Values of the primary key, as the database prints them.
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A row that is looked for."""

    table: QualifiedName
    #: the columns of its primary key
    columns: tuple[Column, ...]
    #: all keys that the row has had
    keys: Collection[Key]

    def found(self, value: Callable[[str], ColumnElement[Any]]) -> ColumnElement[bool]:
        """The condition that selects the row, by any of its keys.

        Parameters:
            value: gives the value of a key column, by the column's name.
        """
        return sa.or_(
            sa.false(),
            *(
                sa.and_(
                    *(
                        sa.type_coerce(value(column.name), column.recorded_type)
                        == from_text(sa.literal(one, Text), column.recorded)
                        for column, one in zip(self.columns, key, strict=True)
                    )
                )
                for key in self.keys
            ),
        )

    def found_in(self, image: ColumnElement[Any]) -> ColumnElement[bool]:
        """The condition that an image, which holds values as text, is of the row."""
        by_type = {column.name: column.recorded for column in self.columns}

        def value(name: str) -> ColumnElement[Any]:
            text, type_ = image.op("->>")(name), by_type[name]
            # A value that was parked because it does not fit is no key of a row here.
            fits = func.pg_input_is_valid(sa.cast(text, Text), type_)
            return sa.case((fits, from_text(text, type_)))

        return self.found(value)

    def key_in(self, image: Image | None) -> Key | None:
        """The key in an image that was read; None if it has none."""
        values = [(image or {}).get(column.name) for column in self.columns]
        return None if None in values else tuple(str(value) for value in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A change of the row, or an attempt at one."""

    #: by the clock of the site that reports it; None if the time was not recorded
    at: datetime | None
    #: the site whose database reports it
    site: str
    #: change, at a site; settled or parked, at a master; logged, in its snapshot log
    kind: str
    #: insert, update, delete, replace; invalid for steps that do not fit together
    operation: str
    #: the site whose transaction it is
    origin: str
    transaction: str
    user: str | None = None
    #: the row before, as its site had it, and after
    old: Image | None = None
    new: Image | None = None
    #: the master's row at the time of the conflict, and the row after resolution
    current: Image | None = None
    result: Image | None = None
    #: where a change goes, and when the destination answered it
    destination: str | None = None
    delivered_at: datetime | None = None
    #: the procedure that made the change at the site; its destinations run it too
    procedure: str | None = None
    #: the conflict, the method that settled it, its decision and the reason
    conflict: str | None = None
    method: str | None = None
    decision: str | None = None
    reason: str | None = None
    #: number of the call at a site, or of the error or the record at a master
    number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRow:
    """The row as a site has it now."""

    site: str
    #: the master table, or the snapshot
    name: str
    #: None if the site does not have the row
    row: Image | None


OPERATIONS = {
    "I": "insert",
    "U": "update",
    "M": "update",
    "D": "delete",
    "R": "replace",
}


def operation(kind: str) -> str:
    """A kind of call in words; lower-case kinds are changes made by procedures."""
    return OPERATIONS.get(kind.upper(), "invalid" if kind == "X" else "nothing")
