"""What a preview shows of the rows that a retry would write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deferred import ErrorPreview, PreviewedRow
from snaptide.web.listed import Listed, bytes_of, listed

#: Rows of so many calls are looked at.
MOST = 100
#: Bytes for all rows, and the markup of one and of one of its columns.
ROOM, _OF_ROW, OF_COLUMN = 18_000, 300, 260


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a row, now and after a retry; without a row, None."""

    name: str
    before: str | None
    after: str | None
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Previewed:
    """A row as a table, the columns that change first."""

    row: PreviewedRow
    columns: Listed[Column]


def previewed(found: ErrorPreview) -> tuple[Sequence[Previewed], int]:
    """The rows that a page has room for, and how many are left out."""
    room, shown = ROOM, list[Previewed]()
    for row in found.rows:
        if room < 0:
            break
        columns = sorted(_columns(row), key=lambda one: not one.changed)
        fits = listed(
            columns, _texts, room=room, at_once=len(columns), markup=OF_COLUMN
        )
        shown.append(Previewed(row=row, columns=fits))
        room -= _OF_ROW + sum(
            OF_COLUMN + sum(map(bytes_of, _texts(one))) for one in fits.rows
        )
    return shown, len(found.rows) - len(shown)


def _columns(row: PreviewedRow) -> Iterator[Column]:
    before: Mapping[str, str | None] = row.before or {}
    after: Mapping[str, str | None] = row.after or {}
    whole = row.before is None or row.after is None
    for name in dict.fromkeys((*before, *after)):
        was, becomes = before.get(name), after.get(name)
        yield Column(
            name=name, before=was, after=becomes, changed=whole or was != becomes
        )


def _texts(one: Column) -> Sequence[object]:
    return (one.name, one.before, one.after)
