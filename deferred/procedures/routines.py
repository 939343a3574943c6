"""Replicated procedures that are written in Python, by name.

As with routines that settle conflicts, code is what the operator installed: the entry
point group `snaptide.procedures` of an installed package, a name that the configuration
gives as `module:function`, or a decorated function of a module that was imported. A
queue or a message holds the name at most.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from masters.errors import UnusableRoutine
from masters.resolution.routines import installed, usable

GROUP = "snaptide.procedures"

#: Gets a connection in the transaction, and the arguments; its answer does not matter.
Procedure = Callable[..., Any]

_Decorated = TypeVar("_Decorated", bound=Procedure)

_registered: dict[str, Procedure] = {}


def register(name: str, procedure: Procedure | str) -> None:
    """Make a procedure known under a name; it goes before an entry point of that name.

    Parameters:
        name: what calls name it.
        procedure: the function, or `module:function` from the configuration.

    Raises:
        UnusableRoutine: it cannot be imported or called, or the name stands for
            another one already.
    """
    checked = usable(name, procedure)
    if _registered.setdefault(name, checked) is not checked:
        raise UnusableRoutine(
            f"Another procedure is already registered as {name!r}.", routine=name
        )


def procedure(name: str) -> Callable[[_Decorated], _Decorated]:
    """Decorate a function that `deferred.call` can name, here and at destinations.

    It gets a connection in the transaction that calls it, and the arguments. It
    must not end that transaction, and should be quick: rows are locked meanwhile.

    Parameters:
        name: what calls name it, for example `billing.close_month`.

    Raises:
        UnusableRoutine: it is no plain function, or the name is taken.
    """

    def known(function: _Decorated) -> _Decorated:
        register(name, function)
        return function

    return known


def find(name: str) -> Procedure | None:
    """The procedure of that name; None where this machine knows none.

    Raises:
        UnusableRoutine: the package that declares it cannot be imported.
    """
    if name in _registered:
        return _registered[name]
    return _loaded(name) if name in installed(GROUP) else None


def names() -> list[str]:
    """The names of all procedures that this machine knows, sorted."""
    return sorted({*_registered, *installed(GROUP)})


@cache
def _loaded(name: str) -> Procedure:
    return usable(name, installed(GROUP)[name].value)
