"""Which constants a condition compares columns with, where every row has one of them.

`origin = 'JFK'` and `origin IN ('JFK', 'LGA')` are such comparisons, alone, with AND,
or as alternatives (OR) of one column. What is not recognized says nothing of a column.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sites.conditions.printed import Printed
from sites.conditions.subqueries import Shape
from sites.names import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """One constant, or the constants of one list, that a column is compared with."""

    #: as SQL; a list is an array
    text: str
    is_list: bool
    #: the type that the column is cast to for this, as SQL; None for its own
    cast: str | None = None


def demanded(shape: Shape) -> Mapping[str, tuple[Constants, ...]]:
    """For some columns the values of which each row of a condition has one.

    Parameters:
        shape: of the condition (`sites.conditions.subqueries`).
    """
    if isinstance(shape, str):
        found = _of_leaf(shape)
        return {} if found is None else {found[0]: (found[1],)}
    if shape[:1] == ("AND",):
        every: dict[str, tuple[Constants, ...]] = {}
        for part in shape[1:]:
            every = {**demanded(part), **every}
        return every
    if shape[:1] == ("OR",):
        parts = [demanded(part) for part in shape[1:]]
        shared = set.intersection(*(set(part) for part in parts))
        return {
            name: tuple(one for part in parts for one in part[name]) for name in shared
        }
    return {}


def is_same_everywhere(shape: Shape, numbers: Collection[str]) -> bool:
    """Whether a condition chooses the same rows however a database sorts texts.

    So it does if it only compares columns with constants for equality, and besides asks
    for numbers and times.

    Parameters:
        shape: of a condition without subqueries.
        numbers: the columns whose values are numbers or times.
    """
    if not isinstance(shape, str):
        return all(is_same_everywhere(one, numbers) for one in shape[1:])
    named = {plain(word) for word in Printed(shape).tokens if _is_name(word)}
    return _of_leaf(shape) is not None or named <= {*numbers, *_OF_NUMBERS}


def _of_leaf(text: str) -> tuple[str, Constants] | None:
    """The column and the constants that a comparison is about, if it is one."""
    printed = Printed(text)
    words = printed.tokens
    at = [n for n in printed.top(0, len(words)) if words[n] == "="]
    if len(at) != 1:
        return None
    column = _column(words[: at[0]])
    constants = _constants(words[at[0] + 1 :])
    if column is None or constants is None:
        return None
    name, cast = column
    written, is_list = constants
    return name, Constants(text=_written(written), is_list=is_list, cast=cast)


def _column(words: Sequence[str]) -> tuple[str, str | None] | None:
    """The name of a column, and the type that it is cast to, if any."""
    if len(words) == 1 and _is_name(words[0]):
        return plain(words[0]), None
    if len(words) > 5 and words[0] == "(" and [*words[2:5]] == [")", ":", ":"]:
        kind = words[5:]
        if _is_name(words[1]) and _type(words, 5) == len(words):
            return plain(words[1]), _written(kind)
    return None


def _constants(words: Sequence[str]) -> tuple[Sequence[str], bool] | None:
    """What stands right of `=`, and whether it is a list; None if it is no constant."""
    if words[:2] == ["ANY", "("] and words[-1:] == [")"]:
        inner = words[2:-1]
        return (inner, True) if _constant(inner, 0) == len(inner) else None
    return (words, False) if _constant(words, 0) == len(words) else None


def _constant(words: Sequence[str], at: int) -> int:
    """The place after the constant that begins here; -1 if none does."""
    if at >= len(words):
        return -1
    word = words[at]
    if word == "(":
        end = _constant(words, at + 1)
        end = end + 1 if words[end : end + 1] == [")"] and end > 0 else -1
    elif word == "ARRAY":
        end = _array(words, at + 1)
    elif word[0] == "'" or word.startswith("E'") or word in ("true", "false", "NULL"):
        end = at + 1
    elif word.isdecimal():
        point = words[at + 1 : at + 2] == ["."]
        end = (
            at + 3 if point and "".join(words[at + 2 : at + 3]).isdecimal() else at + 1
        )
    else:
        end = -1
    while end > 0 and [*words[end : end + 2]] == [":", ":"]:
        end = _type(words, end + 2)
    return end


def _array(words: Sequence[str], at: int) -> int:
    """The place after `[constant, ...]`; -1 if it is something else."""
    if words[at : at + 1] != ["["]:
        return -1
    end = _constant(words, at + 1)
    while end > 0 and words[end : end + 1] == [","]:
        end = _constant(words, end + 1)
    return end + 1 if end > 0 and words[end : end + 1] == ["]"] else -1


def _type(words: Sequence[str], at: int) -> int:
    """The place after the type that begins here, with its length; -1 if none does."""
    end = at
    while end < len(words):
        if _is_name(words[end]) or words[end] == ".":
            end += 1
        elif words[end] == "(":
            close = end + 1
            while words[close : close + 1] and (
                words[close].isdecimal() or words[close] == ","
            ):
                close += 1
            if words[close : close + 1] != [")"]:
                return -1
            end = close + 1
        elif [*words[end : end + 2]] == ["[", "]"]:
            end += 2
        else:
            break
    return end if end > at else -1


def _is_name(word: str) -> bool:
    """Whether a token is a name; keywords are printed in upper case, but for these."""
    if word.startswith('"'):
        return True
    return word[0].isidentifier() and word == word.lower() and word not in _NO_NAMES


_NO_NAMES = {"true", "false"}

#: Types whose values are compared alike in all databases.
NUMBERS = (
    *("smallint", "integer", "bigint", "numeric", "real", "double precision"),
    *("boolean", "uuid", "date", "interval"),
    *("timestamp without time zone", "timestamp with time zone"),
)
_OF_NUMBERS = {word for kind in NUMBERS for word in kind.split()}


def _written(words: Sequence[str]) -> str:
    """Tokens as SQL again: a cast and a point stand without spaces."""
    text = ""
    for before, word in zip(["", *words], words, strict=False):
        close = before in ("", ":", ".") or word in (":", ".")
        text += word if close else f" {word}"
    return text
