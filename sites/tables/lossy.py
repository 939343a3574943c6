"""Telling whether a value stays the same when it is stored as another type.

Some types refuse what they cannot hold, such as a text too long or a number out of
range. Others silently round or cut it.
"""

from __future__ import annotations

import re

from sqlalchemy import ColumnElement, Text, and_, case, cast, false, func

from sites.transfer.types import NativeType
from sites.transfer.values import unsized

_SIZED = re.compile(r"([^(]+)\((\d+)(?:,(-?\d+))?\)(.*)")
#: From the narrowest on.
_BY_WIDTH = ("smallint", "integer", "bigint")
_INTEGERS = {*_BY_WIDTH}
_TEXTS = {"text", "character varying"}
#: The type `character`, without its length.
_PADDED = "bpchar"
#: These types refuse a longer value, and never round.
_REFUSING = {"character varying", "character", "bit", "bit varying"}
_TIMES = {
    f"{kind} {zone} time zone"
    for kind in ("time", "timestamp")
    for zone in ("with", "without")
}
#: Values of these types can be equal although they are printed in different ways.
_COMPARED = (
    _INTEGERS
    | _TEXTS
    | {
        "numeric",
        "real",
        "double precision",
        "date",
        "interval",
        *_TIMES,
    }
)

#: Longer ones of these types hold all values of shorter ones, and print them alike.
_LENGTHENED = {
    "character varying",
    "bit varying",
    "numeric",
    *_TIMES,
}

#: Types that read the text of a value of another, and keep more of it.
_WIDER = {
    "real": "numeric",
    "double precision": "numeric",
    "date": "timestamp with time zone",
    "timestamp without time zone": "timestamp with time zone",
    "time without time zone": "time with time zone",
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


def widens(into: str, type_: str) -> bool:
    """Whether a type has all values of another, printed alike, and further ones.

    Parameters:
        into, type_: as for `holds`.
    """
    mine, size = _divided(into)
    its, its_size = _divided(type_)
    if {mine, its} <= _INTEGERS:
        return _BY_WIDTH.index(mine) > _BY_WIDTH.index(its)
    if {mine, its} == _TEXTS:
        return size is None
    plain = its.removesuffix("[]")
    if mine != its or plain not in _LENGTHENED or its_size is None:
        return False
    if size is None:
        return True
    # Digits after the point are printed, even zeros.
    return size[0] > its_size[0] and size[1:] == its_size[1:]


def becomes(value: ColumnElement[str], into: str) -> ColumnElement[str]:
    """The text of a value, given as text, after it was stored as a type."""
    return cast(cast(value, NativeType(into)), Text)


def changes(value: ColumnElement[str], type_: str, into: str) -> ColumnElement[bool]:
    """Whether storing a value, given as text, as another type changes it.

    False if the other type refuses it.
    """
    accepted = func.pg_input_is_valid(value, into)
    differs = _differs(value, unsized(type_), into)
    return case((and_(value.is_not(None), accepted), differs), else_=false())


def as_written(into: str) -> str | None:
    """The type of a value that somebody writes as text for a column of a type.

    `changes` compares values of it with what is stored; text may be spelt in another
    way than the database prints it.

    Returns:
        None if the column stores each value that it accepts as it was written.
    """
    plain = unsized(into)
    one, array, _ = plain.partition("[]")
    if one.startswith("interval"):  # "interval year" cuts the months
        one = "interval"
    written = _WIDER.get(one, one) + array
    sized = one in _COMPARED or written == _PADDED
    return written if sized and written != into else None


def _differs(value: ColumnElement[str], plain: str, into: str) -> ColumnElement[bool]:
    """Whether a value of a type without length is another one once it is stored."""
    stored = becomes(value, into)
    if plain == _PADDED == unsized(into):
        _, size = _divided(into)
        # Up to the length, blanks at the end are padding.
        return func.char_length(value) > size[0] if size else false()
    if plain.removesuffix("[]") in _COMPARED:
        same = NativeType(plain)
        differs = cast(stored, same).is_distinct_from(cast(value, same))
        # A date may lie beyond the range of timestamps.
        return case((func.pg_input_is_valid(value, plain), differs), else_=false())
    return stored.is_distinct_from(value)


def _divided(kind: str) -> tuple[str, tuple[int, ...] | None]:
    """A type without its length, and its length: digits, and those after the point."""
    found = _SIZED.fullmatch(kind)
    if found is None:
        return kind, None
    base, first, second, rest = found.groups()
    return base + rest, (int(first), int(second)) if second else (int(first),)
