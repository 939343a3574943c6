"""Functions that the operator of this machine installed, by name.

By the entry point group of an installed package, or under a name that the
configuration gives as `module:function`. A database or a message holds the name at
most.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar, cast

from masters.errors import UnusableRoutine

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Registry(Generic[_Function]):
    """The functions of one kind.

    Parameters:
        group: the entry point group of packages that declare some.
        kind: what messages call one of them.
    """

    def __init__(self, group: str, kind: str) -> None:
        self.group = group
        self._kind = kind
        self._registered: dict[str, _Function] = {}

    def register(self, name: str, function: _Function | str) -> None:
        """Make a function known; it goes before an entry point of that name.

        Parameters:
            name: what it is called from now on.
            function: it, or `module:function` from the configuration.

        Raises:
            UnusableRoutine: it cannot be imported or called, or the name stands for
                another one already.
        """
        checked: _Function = usable(name, function)
        if self._registered.setdefault(name, checked) is not checked:
            raise UnusableRoutine(
                f"Another {self._kind} is already registered as {name!r}.",
                routine=name,
            )

    def forget(self, name: str) -> None:
        """Undo `register`; nothing happens where the name is not known."""
        self._registered.pop(name, None)

    def find(self, name: str) -> _Function | None:
        """The function of that name; None where this machine knows none.

        Raises:
            UnusableRoutine: the package that declares it cannot be imported.
        """
        if name in self._registered:
            return self._registered[name]
        entry = installed(self.group).get(name)
        return None if entry is None else usable(name, entry.value)

    def names(self) -> list[str]:
        """The names of all of them, sorted."""
        return sorted({*self._registered, *installed(self.group)})


@cache
def installed(group: str) -> dict[str, EntryPoint]:
    """What installed packages declare in an entry point group, by name."""
    return {entry.name: entry for entry in entry_points(group=group)}


def usable(name: str, function: object) -> Any:
    """A plain function, imported if `module:function` names it.

    Raises:
        UnusableRoutine: it cannot be imported or called.
    """
    if isinstance(function, str):
        function = _import(name, function)
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise UnusableRoutine(
            f"Routine {name!r} is no plain function: {function!r}.", routine=name
        )
    return cast(Callable[..., Any], function)


@cache
def _import(name: str, reference: str) -> object:
    """What `module:function` stands for; whatever the module raises is its fault."""
    if ":" not in reference:
        raise UnusableRoutine(
            f"Routine {name!r}: {reference!r} is not module:function.", routine=name
        )
    try:
        return pkgutil.resolve_name(reference)
    except Exception as error:
        raise UnusableRoutine(
            f"Routine {name!r}: {reference} cannot be imported: {error}", routine=name
        ) from error
