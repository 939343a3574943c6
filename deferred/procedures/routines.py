"""The registry of replicated procedures that are written in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from masters.resolution.registry import Registry

#: Gets a connection in the transaction, and the arguments; its result is ignored.
Procedure = Callable[..., Any]

_Decorated = TypeVar("_Decorated", bound=Procedure)

#: Also holds the decorated functions of imported modules.
REGISTRY = Registry[Procedure]("snaptide.procedures", "procedure")


def procedure(name: str) -> Callable[[_Decorated], _Decorated]:
    """Decorate a function that `deferred.call` can name, here and at destinations.

    The function gets a connection in the transaction that calls it, and the arguments.
    It must not end that transaction, and should be quick: rows are locked meanwhile.

    Parameters:
        name: the name for calls, for example `billing.close_month`.

    Raises:
        UnusableRoutine: it is not a plain function, or the name is taken.
    """

    def known(function: _Decorated) -> _Decorated:
        REGISTRY.register(name, function)
        return function

    return known
