"""Imports of Snaptide's packages: at the first use, and only of its own.

A program that wants one verb, or a command that looks at one table, does not wait for
what all others need: the names are imported below `if TYPE_CHECKING`, where a type
checker reads them, and otherwise when they are used.

An application may have a folder `sites` or `groups` that Python finds first. This
module stands outside the packages because it has to say so whichever of them is hidden.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

#: From the bottom of the stack to its top.
PACKAGES = (
    "sites",
    "masters",
    "deferred",
    "synchronous",
    "snapshots",
    "groups",
    "folders",
    "snaptide",
)

_FOLDER = Path(__file__).resolve().parent


class HiddenPackage(ImportError):
    """Python finds another module where a package of Snaptide is meant."""

    def __init__(self, package: str, found: Path) -> None:
        super().__init__(
            f"Snaptide needs its own package {package!r}, but Python finds {found} "
            f"first. {what_to_do(package)}",
            name=package,
            path=str(found),
        )


def what_to_do(package: str) -> str:
    """How to have Python find a package of ours."""
    return (
        f"Rename that folder or module, or have {_FOLDER} come first on sys.path. "
        f"Without its __init__.py a folder {package!r} is in nobody's way."
    )


def hidden(path: Sequence[str] | None = None) -> Iterator[tuple[str, Path]]:
    """The packages of ours that Python does not find, each with what it finds instead.

    A folder without `__init__.py` hides nothing: Python prefers packages that have one.

    Parameters:
        path: where to look; `sys.path` when not given.
    """
    for package in PACKAGES:
        if (other := _other(package, path)) is not None:
            yield package, other


def _other(package: str, path: Sequence[str] | None = None) -> Path | None:
    """What Python finds instead of a package of ours; None if it finds ours."""
    loaded = sys.modules.get(package) if path is None else None
    spec = loaded.__spec__ if loaded else PathFinder.find_spec(package, path)
    if spec is None or spec.origin is None:
        return None
    found = Path(spec.origin).resolve()
    return None if found == _FOLDER / package / "__init__.py" else found


def refuse_other(package: str) -> None:
    """Raise HiddenPackage if another module has the name of a package of ours."""
    if package in PACKAGES and (other := _other(package)) is not None:
        raise HiddenPackage(package, other)


def face(package: str) -> None:
    """Let a package import each of its public names when it is used.

    These are the names that its source imports `as` themselves, where type checkers
    find them, too; `__all__` lists them.

    Parameters:
        package: its `__name__`; its `__init__` calls this as its last statement.

    Raises:
        HiddenPackage: another module has the name of a package that all others need.
    """
    refuse_other("sites")
    sys.modules[package].__class__ = _Face


def lazily(name: str) -> Any:
    """A module that is imported when one of its attributes is first used.

    Parameters:
        name: name of the module.

    Raises:
        MissingExtra: when it is used, and comes with an extra that is not installed.
    """
    return _Module(name)


class _Module:
    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def _module(self) -> ModuleType:
        try:
            return import_module(self._name)
        except ModuleNotFoundError:
            from sites import extras

            if extras.is_of_one(self._name):
                raise extras.missing(self._name) from None
            raise

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._module, attribute)


class _Face(ModuleType):
    """A package that knows where its public names are defined."""

    @cached_property
    def _homes(self) -> dict[str, str]:
        """The module of each public name."""
        tree = ast.parse(Path(str(self.__file__)).read_text("utf-8"))
        return {
            alias.name: str(node.module)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if alias.asname == alias.name
        }

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return sorted(self._homes)
        if name not in self._homes:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(self._homes[name]), name)
        except ImportError as error:
            refuse_other(str(error.name).partition(".")[0])
            raise
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # The import system binds a module to its name in the package. Where a verb has
        # the name of its module, the name is the verb's.
        if not (isinstance(value, ModuleType) and name in self._homes):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self._homes})
