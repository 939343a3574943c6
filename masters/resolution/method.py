"""The contract of resolution methods, and helpers that several of them use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Protocol, Self, TypeVar

from masters.errors import InvalidParameter, MissingParameter, UnknownParameter
from masters.resolution.conflict import (
    Conflict,
    Decision,
    Kind,
    Resolution,
    Row,
    undecided,
)
from masters.resolution.takes import Takes

Choice = TypeVar("Choice", bound=StrEnum)


class Method(Protocol):
    """One way to settle a conflict, built once per rule from its parameters.

    A method is a pure function of the conflict: the same inputs give the same
    answer at every site, and the inputs stay as they are. It is asked once about rows
    that do not differ in what it looks at.
    """

    #: the name that rules use
    name: ClassVar[str]
    #: the conflicts it can settle
    kinds: ClassVar[frozenset[Kind]]

    @classmethod
    def build(cls, parameters: Mapping[str, object], columns: Sequence[str]) -> Self:
        """Check the parameters against the columns to decide, when a rule is added.

        Raises:
            RuleError: a parameter is missing, unknown or unfit, or the number of
                columns is wrong.
        """

    def reads(self) -> frozenset[str] | None:
        """The columns whose values the method looks at; None for any."""

    def takes(self) -> Mapping[str, Takes]:
        """The types that columns need for the method to decide; others may have any."""

    def __call__(self, conflict: Conflict) -> Resolution:
        """Decide, or say why not.

        The rows hold at least the columns that `reads` names; a row that does not
        exist is None.
        """


def check_names(
    method: str,
    parameters: Mapping[str, object],
    *,
    required: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> None:
    """Refuse unknown parameters of a method, and a lack of required ones.

    Raises:
        MissingParameter: one of `required` was not given.
        UnknownParameter: one is neither required nor optional.
    """
    known = [*required, *optional]
    for name in parameters:
        if name not in known:
            raise UnknownParameter(
                f"{method} has no parameter {name!r}; it takes: "
                f"{', '.join(known) or 'none'}.",
                method=method,
                parameter=name,
                known=known,
            )
    for name in required:
        if name not in parameters:
            raise MissingParameter(
                f"{method} needs the parameter {name!r}.", method=method, parameter=name
            )


def deciding_column(method: str, value: object, columns: Sequence[str]) -> str:
    """The column that decides; as in Oracle it must belong to the column group.

    Raises:
        InvalidParameter: the value is not one of the columns.
    """
    if not isinstance(value, str) or value not in columns:
        raise InvalidParameter(
            f"{method}: {value!r} is not a column of the group ({', '.join(columns)}).",
            method=method,
            parameter="column",
            value=value,
        )
    return value


def value_of(row: Row | None, column: str) -> object:
    """The value of a column, None when it is NULL or there is no row."""
    return None if row is None else row.get(column)


def null_side(conflict: Conflict, column: str, *sides: str) -> str | None:
    """Why a deciding column decides nothing: it is NULL; None if it has values."""
    for side in sides:
        if value_of(getattr(conflict, side), column) is None:
            return f"{column} is NULL in the {side} row"
    return None


class Tie(StrEnum):
    """The side that wins when the deciding values are equal: here systems differ."""

    #: Oracle: the next rule in sequence is asked
    UNDECIDED = "undecided"
    #: Virtuoso: the subscriber
    SITE = "site"
    MASTER = "master"


def chosen(
    method: str, parameters: Mapping[str, object], name: str, default: Choice
) -> Choice:
    """The parameter of this name, one of a few; the default if it is not given.

    Raises:
        InvalidParameter: it is none of them.
    """
    value = parameters.get(name)
    if value is None:
        return default
    choices = type(default)
    try:
        return choices(str(value))
    except ValueError:
        raise InvalidParameter(
            f"{method}: {name} must be one of {', '.join(choices)}, not {value!r}.",
            method=method,
            parameter=name,
            value=value,
        ) from None


def higher_wins(
    new: Any, current: Any, reason: str, tie: Tie = Tie.UNDECIDED
) -> Resolution:
    """Let the side of the greater rank win, or the one that the tie names."""
    if new > current:
        return Resolution(decision=Decision.SITE_WINS, reason=reason)
    if new < current:
        return Resolution(decision=Decision.MASTER_WINS, reason=reason)
    if tie is Tie.UNDECIDED:
        return undecided(f"{reason}: equal")
    return Resolution(
        decision=Decision.SITE_WINS if tie is Tie.SITE else Decision.MASTER_WINS,
        reason=f"{reason}: equal, the {tie} wins",
    )
