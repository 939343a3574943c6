"""The custom routines of this machine, by name."""

from __future__ import annotations

from collections.abc import Callable

from masters.errors import UnknownRoutine
from masters.resolution.conflict import Conflict, Resolution
from masters.resolution.registry import Registry

Routine = Callable[[Conflict], Resolution]

REGISTRY = Registry[Routine]("snaptide.resolution", "routine")


def register(name: str, routine: Routine | str) -> None:
    """Register a routine; it takes precedence over an entry point of that name.

    Parameters:
        name: the name that rules use.
        routine: the function, or `module:function` from the configuration.

    Raises:
        UnusableRoutine: it cannot be imported or called, or the name is taken by
            another routine.
    """
    REGISTRY.register(name, routine)


def find(name: str) -> Routine:
    """The routine of that name.

    Raises:
        UnknownRoutine: none was registered, and no installed package declares it.
        UnusableRoutine: the package that declares it cannot be imported.
    """
    routine = REGISTRY.find(name)
    if routine is None:
        known = REGISTRY.names()
        raise UnknownRoutine(
            f"No routine {name!r} is registered; the registered routines are: "
            f"{', '.join(known) or 'none'}.",
            routine=name,
            known=known,
        )
    return routine
