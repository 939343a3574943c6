"""Telling whether a value stays the same when it is stored as another type.

Some types refuse what they cannot hold, such as a text too long or a number out of
range. Others silently round or cut it.
"""

from __future__ import annotations

import re

from sqlalchemy import ColumnElement, Text, and_, case, cast, false, func

from sites.types import NativeType
from sites.values import unsized

_SIZED = re.compile(r"([^(]+)\((\d+)(?:,(-?\d+))?\)(.*)")
_INTEGERS = {"smallint", "integer", "bigint"}
_TEXTS = {"text", "character varying"}
#: These types refuse a longer value, and never round.
_REFUSING = {"character varying", "character", "bit", "bit varying"}
#: Values of these types can be equal although they are printed in different ways.
_COMPARED = _INTEGERS | {
    "numeric",
    "real",
    "double precision",
    "date",
    "interval",
    *(
        f"{kind} {zone} time zone"
        for kind in ("time", "timestamp")
        for zone in ("with", "without")
    ),
}

#: Said of a value, before what it would be.
WOULD_BECOME = "it would silently become "


def holds(into: str, type_: str) -> bool:
    """Whether a type refuses all values of another that it cannot hold as they are.

    Parameters:
        into, type_: as `format_type()` prints them, below all domains.
    """
    if into == type_:
        return True
    mine, size = _divided(into)
    its, its_size = _divided(type_)
    if mine != its:
        exact = mine == "numeric" and (size is None or size[-1] >= 0)
        whole = its in _INTEGERS and (mine in _INTEGERS or exact)
        return whole or {mine, its} <= _TEXTS
    plain = mine.partition("[")[0]
    if size is None or plain in _REFUSING:
        return True
    # The last number is how many digits are kept after the point.
    return its_size is not None and size[-1] >= its_size[-1]


def becomes(value: ColumnElement[str], into: str) -> ColumnElement[str]:
    """The text of a value, given as text, after it was stored as a type."""
    return cast(cast(value, NativeType(into)), Text)


def changes(value: ColumnElement[str], type_: str, into: str) -> ColumnElement[bool]:
    """Whether storing a value, given as text, as another type changes it.

    False if the other type refuses it.
    """
    stored, plain = becomes(value, into), unsized(type_)
    if plain in _COMPARED:
        same = NativeType(plain)
        differs = cast(stored, same).is_distinct_from(cast(value, same))
    else:
        differs = stored.is_distinct_from(value)
    accepted = func.pg_input_is_valid(value, into)
    return case((and_(value.is_not(None), accepted), differs), else_=false())


def _divided(kind: str) -> tuple[str, tuple[int, ...] | None]:
    """A type without its length, and its length: digits, and those after the point."""
    found = _SIZED.fullmatch(kind)
    if found is None:
        return kind, None
    base, first, second, rest = found.groups()
    return base + rest, (int(first), int(second)) if second else (int(first),)
