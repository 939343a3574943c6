"""The types of columns that a method can use: it declares them, each rule is checked.

A method that read values of another type would decide nothing, and every conflict would
be parked in spite of its rule.
"""

from __future__ import annotations

import re
from enum import StrEnum

_NUMBERS = frozenset(
    {"smallint", "integer", "bigint", "numeric", "real", "double precision"}
)
_MOMENTS = frozenset(
    {"date", "timestamp without time zone", "timestamp with time zone"}
)
_TIMES = frozenset({"time without time zone", "time with time zone", "interval"})
_TEXTS = frozenset({"text", "character varying", "character", "name"})
_DOCUMENTS = frozenset({"json", "jsonb", "inet", "cidr"})
_SIZE = re.compile(r"\([^)]*\)")


class Takes(StrEnum):
    """A family of types for a column; the values are the words in error messages."""

    NUMBER = "a number"
    MOMENT = "a date or timestamp"
    TEXT = "a text"
    #: also an enumeration, and other types that the driver reads as text
    LABEL = "a text or an enumeration"
    #: types whose values a rule can list one by one
    NAMED = "a text, number, date, uuid, boolean or enumeration"
    ORDERED = "a number, text, time, bytes or uuid"

    def holds(self, type_: str) -> bool:
        """Whether a type belongs to this family.

        Parameters:
            type_: name of the type; of a domain, that of its base type.
        """
        name = _SIZE.sub("", type_)
        if self is Takes.NUMBER:
            return name in _NUMBERS
        if self is Takes.MOMENT:
            return name in _MOMENTS
        if self is Takes.TEXT:
            return name in _TEXTS or name.rpartition(".")[2] == "citext"
        if _has_parts(name):
            return False
        if self is Takes.LABEL:
            other = {"boolean", "uuid", "bytea", *_NUMBERS, *_MOMENTS, *_TIMES}
            return name not in other
        return self is Takes.ORDERED or name not in {"bytea", *_TIMES}


def _has_parts(name: str) -> bool:
    """Whether values have parts (documents, arrays, ranges), and so no simple order."""
    return name in _DOCUMENTS or name.endswith(("[]", "range"))
