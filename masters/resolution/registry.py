"""Functions that the operator of this machine installed, by name.

An installed package declares them in an entry point group, or the configuration names
them as `module:function`. Databases and messages hold only their names.
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
        kind: the noun for one of them in error messages.
    """

    def __init__(self, group: str, kind: str) -> None:
        self.group = group
        self._kind = kind
        self._registered: dict[str, _Function] = {}

    def register(self, name: str, function: _Function | str) -> None:
        """Register a function; it takes precedence over an entry point of that name.

        Parameters:
            name: its name from now on.
            function: the function, or `module:function` from the configuration.

        Raises:
            UnusableRoutine: it cannot be imported or called, or the name is taken by
                another function.
        """
        checked: _Function = usable(name, function)
        if self._registered.setdefault(name, checked) is not checked:
            raise UnusableRoutine(
                f"Another {self._kind} is already registered as {name!r}.",
                routine=name,
            )

    def forget(self, name: str) -> None:
        """Undo `register`; do nothing if the name is not known."""
        self._registered.pop(name, None)

    def find(self, name: str) -> _Function | None:
        """The function of that name; None if this machine has none.

        Raises:
            UnusableRoutine: the package that declares it cannot be imported.
        """
        if name in self._registered:
            return self._registered[name]
        entry = installed(self.group).get(name)
        return None if entry is None else usable(name, entry.value)

    def names(self) -> list[str]:
        """The names of all functions, sorted."""
        return sorted({*self._registered, *installed(self.group)})


@cache
def installed(group: str) -> dict[str, EntryPoint]:
    """The entry points that installed packages declare in a group, by name."""
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
            f"Routine {name!r} is not a plain function: {function!r}.", routine=name
        )
    return cast(Callable[..., Any], function)


@cache
def _import(name: str, reference: str) -> object:
    """Import `module:function`; any error of the module makes the routine unusable."""
    if ":" not in reference:
        raise UnusableRoutine(
            f"Routine {name!r}: {reference!r} does not have the form module:function.",
            routine=name,
        )
    try:
        return pkgutil.resolve_name(reference)
    except Exception as error:
        raise UnusableRoutine(
            f"Routine {name!r}: {reference} cannot be imported: {error}", routine=name
        ) from error
