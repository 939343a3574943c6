"""Replicated procedures that are written in Python, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from masters.resolution.registry import Registry

#: Gets a connection in the transaction, and the arguments; its answer does not matter.
Procedure = Callable[..., Any]

_Decorated = TypeVar("_Decorated", bound=Procedure)

#: Also of decorated functions of modules that were imported.
REGISTRY = Registry[Procedure]("snaptide.procedures", "procedure")


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
        REGISTRY.register(name, function)
        return function

    return known
