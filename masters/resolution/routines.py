"""The custom routines of this machine, by name.

A routine is Python code that the operator installed: the entry point group
`snaptide.resolution` of an installed package, or a name that the configuration
gives as `module:function`. A database or a message holds the name at most.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from masters.conflict import Conflict, Resolution
from masters.errors import UnknownRoutine, UnusableRoutine

Routine = Callable[[Conflict], Resolution]

GROUP = "snaptide.resolution"

_registered: dict[str, Routine] = {}


def register(name: str, routine: Routine | str) -> None:
    """Make a routine known under a name; it goes before an entry point of that name.

    Parameters:
        name: what rules call it.
        routine: the function, or `module:function` from the configuration.

    Raises:
        UnusableRoutine: it cannot be imported or called, or the name stands for
            another routine already.
    """
    checked: Routine = usable(name, routine)
    if _registered.setdefault(name, checked) is not checked:
        raise UnusableRoutine(
            f"Another routine is already registered as {name!r}.", routine=name
        )


def find(name: str) -> Routine:
    """The routine of that name.

    Raises:
        UnknownRoutine: none was registered, and no installed package declares it.
        UnusableRoutine: the package that declares it cannot be imported.
    """
    if name in _registered:
        return _registered[name]
    if name not in installed(GROUP):
        raise UnknownRoutine(
            f"No routine {name!r} is registered; there are: "
            f"{', '.join(names()) or 'none'}.",
            routine=name,
            known=names(),
        )
    return _loaded(name)


def names() -> list[str]:
    """The names of all routines, sorted."""
    return sorted({*_registered, *installed(GROUP)})


@cache
def installed(group: str) -> dict[str, EntryPoint]:
    """What installed packages declare in an entry point group, by name."""
    return {entry.name: entry for entry in entry_points(group=group)}


def usable(name: str, function: object) -> Callable[..., Any]:
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
def _loaded(name: str) -> Routine:
    return usable(name, installed(GROUP)[name].value)


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
