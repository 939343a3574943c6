"""The classes of Virtuoso's generated resolvers, as Snaptide's rules."""

from __future__ import annotations

from collections.abc import Mapping

from masters.errors import MethodDoesNotFit, MissingParameter, UnknownMethod
from masters.resolution.conflict import Kind

#: Classes of REPL_ADD_CR, type U. min and max let the subscriber win a tie.
_UPDATE = {
    "min": "minimum",
    "max": "maximum",
    "ave": "average",
    "add": "additive",
    "pub_wins": "discard",
    "sub_wins": "overwrite",
}
_ELSE: Mapping[Kind, Mapping[str, str]] = {
    # type I: the row is there; min, max and ave of an insert have no method here
    Kind.UNIQUENESS: {"pub_wins": "discard", "sub_wins": "informix_always"},
    # type D: pub_wins returns 3 there, which Virtuoso's own replayer rejects
    Kind.DELETE: {"pub_wins": "ignore", "sub_wins": "informix_ignore"},
}
_BY_COLUMN = ("min", "max", "ave", "add")


def virtuoso(
    class_name: str, column: str | None = None, kind: Kind = Kind.UPDATE
) -> tuple[str, dict[str, object]]:
    """The method and parameters that decide like a class of Virtuoso's REPL_ADD_CR.

    An ave or add needs a column group that holds its column alone.

    Parameters:
        class_name: min, max, ave, add, pub_wins or sub_wins.
        column: for the first four.
        kind: update for Virtuoso's type U, uniqueness (of the primary key) for I,
            delete for D, which is also asked for updates of a row that is gone.

    Raises:
        UnknownMethod: there is no such class (TR078).
        MissingParameter: the class needs a column (TR076).
        MethodDoesNotFit: the class does not settle that kind.
    """
    if class_name not in _UPDATE:
        raise UnknownMethod(
            f"Virtuoso has no class {class_name!r}; its classes are: "
            f"{', '.join(_UPDATE)}.",
            method=class_name,
            known=list(_UPDATE),
        )
    method = (_UPDATE if kind is Kind.UPDATE else _ELSE[kind]).get(class_name)
    if method is None:
        raise MethodDoesNotFit(
            f"Virtuoso's {class_name} does not settle {kind} conflicts here.",
            method=class_name,
            kind=kind,
        )
    if class_name in _BY_COLUMN and not column:
        raise MissingParameter(
            f"Virtuoso's {class_name} needs a column.",
            method=class_name,
            parameter="column",
        )
    if class_name in ("min", "max"):
        return method, {"column": column, "tie": "site"}
    return method, {}
