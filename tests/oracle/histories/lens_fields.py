"""Values that a table holds in one form after another, and the lenses between them.

A field is a value as users mean it; the columns that hold it carry a number, which goes
up with each form: `pair_0` is split into `pair_left_1` and `pair_right_1`, and these
become `pair_2`. So whoever looks at a row knows its forms by the names of its columns,
and values of all forms can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tests.oracle.histories.ledger import Row

#: By field, what holds it in its even forms and in its odd ones: parts, and a type.
_FORMS: Mapping[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "pair": (("", "text"), ("_left _right", "text")),
    "place": (("_left _right", "text"), ("", "text")),
    "number": (("", "int"), ("", "text")),
    "label": (("", "text"), ("", "text")),
}
FIELDS = tuple(_FORMS)
#: Which has them.
TABLE = "item"
#: Text of a number that is none.
BAD = "bad"
_COLUMN = re.compile(r"(pair|place|number|label)(_left|_right)?_(\d+)r?")


@dataclass(frozen=True, slots=True)
class Form:
    """Columns that hold a field.

    Parameters:
        columns: in the order of the parts; they may have been renamed.
    """

    field: str
    number: int
    columns: tuple[str, ...]

    @property
    def type(self) -> str:
        """That all of them have."""
        return _FORMS[self.field][self.number % 2][1]

    @property
    def next(self) -> Form:
        """The form that comes after it."""
        parts = _FORMS[self.field][(self.number + 1) % 2][0].split(" ")
        number = self.number + 1
        names = tuple(f"{self.field}{part}_{number}" for part in parts)
        return Form(self.field, number, names)

    def made(self, source: Form) -> dict[str, str]:
        """By column, the expression that makes it of those of another form."""
        if len(self.columns) > len(source.columns):
            (one,) = source.columns
            parts = (f"split_part({one}, '|', {n})" for n in (1, 2))
            return dict(zip(self.columns, parts, strict=True))
        (column,) = self.columns
        if len(source.columns) == 2:
            left, right = source.columns
            return {column: f"{left} || '|' || {right}"}
        (one,) = source.columns
        if self.field == "number":
            text = f"'N' || {one}" if self.type == "text" else f"substr({one}, 2)::int"
            return {column: text}
        # What is set loses something; what goes back does not.
        return {column: f"lower({one})" if self.number > source.number else one}

    def values(self, value: Mapping[str, object]) -> dict[str, object]:
        """The values of the columns, of what the parts of the field are."""
        parts = [value[part] for part in _parts(self.field)]
        if len(self.columns) == len(parts):
            if self.field == "number" and self.type == "text":
                parts = [None if parts[0] is None else f"N{parts[0]}"]
            return dict(zip(self.columns, parts, strict=True))
        (column,) = self.columns
        return {column: None if None in parts else "|".join(map(str, parts))}

    def parts(self, row: Row) -> dict[str, object]:
        """What the parts of the field are in a row."""
        held = [row[column] for column in self.columns]
        names = _parts(self.field)
        if len(held) < len(names):
            (one,) = held
            held = [None, None] if one is None else str(one).split("|", 1)
        if self.field == "number" and held[0] is not None:
            held = [str(held[0]).removeprefix("N")]
        return dict(zip(names, held, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A form of a field that takes the place of another.

    Parameters:
        gone: the numbers of the old columns.
        made: the numbers of the new ones.
    """

    old: Form
    new: Form
    gone: frozenset[int]
    made: frozenset[int]
    way: str

    def finishing(self) -> list[str]:
        """The statements that fill the new columns and drop the old ones."""
        sets = self.new.made(self.old)
        if self.old.field == "number" and self.old.type == "text":
            [old] = self.old.columns
            [new] = self.new.columns
            sets = {new: f"CASE WHEN {old} !~ '{BAD}' THEN {sets[new]} END"}
        if self.old.field == "label":
            sets = dict(zip(self.new.columns, self.old.columns, strict=True))
        filled = ", ".join(f"{column} = {value}" for column, value in sets.items())
        dropped = ", ".join(f"DROP {column}" for column in self.old.columns)
        return [f"UPDATE {TABLE} SET {filled}", f"ALTER TABLE {TABLE} {dropped}"]


def first() -> tuple[Form, ...]:
    """The forms that a table begins with."""
    return tuple(Form(field, -1, ()).next for field in FIELDS)


def forms(names: Collection[str]) -> dict[str, Form]:
    """By field, the form in which columns of these names hold it.

    Of two, the older one: the columns of the other one have just come.
    """
    found: dict[tuple[str, int], list[str]] = {}
    for name in sorted(names):
        if match := _COLUMN.fullmatch(name):
            found.setdefault((match[1], int(match[3])), []).append(name)
    made: dict[str, Form] = {}
    for (field, number), columns in sorted(found.items()):
        # Of a row that an image has in part, some may be left out.
        if len(columns) == len(_FORMS[field][number % 2][0].split(" ")):
            made.setdefault(field, Form(field, number, tuple(columns)))
    return made


def meant(row: Row, *, exactly: bool = False) -> Row:
    """A row with the parts of its fields in place of the columns that hold them.

    Parameters:
        exactly: with the case of labels, which their lens loses.
    """
    found: dict[str, object] = {c: row[c] for c in ("id", "h", "uid", "note")}
    for form in forms(row.keys()).values():
        found |= form.parts(row)
    label = found.get("label")
    return found if exactly or label is None else {**found, "label": str(label).lower()}


def _parts(field: str) -> tuple[str, ...]:
    if field in ("pair", "place"):
        return f"{field} left", f"{field} right"
    return (field,)


def parts_beside(changed: Iterable[str]) -> set[str]:
    """All parts of the fields of which some parts are changed."""
    fields = {field for field in _FORMS if {*changed} & {*_parts(field)}}
    return {part for field in fields for part in _parts(field)}
