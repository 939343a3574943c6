"""Imports at the first use: of a package's public names, and of single modules.

A program that wants one verb, or a command that looks at one table, does not wait for
what all others need. In both cases the names are imported below `if TYPE_CHECKING`,
where a type checker reads them.
"""

from __future__ import annotations

import ast
import sys
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from sites import extras


def face(package: str) -> None:
    """Let a package import each name of its `__all__` when it is used.

    Parameters:
        package: its `__name__`; its `__init__` calls this as its last statement.
    """
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
            if extras.is_of_one(self._name):
                raise extras.missing(self._name) from None
            raise

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._module, attribute)


class _Face(ModuleType):
    """A package that knows where its names are defined."""

    @cached_property
    def _homes(self) -> dict[str, str]:
        """The module of each public name: what its source imports."""
        tree = ast.parse(Path(str(self.__file__)).read_text("utf-8"))
        return {
            alias.asname or alias.name: str(node.module)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def __getattr__(self, name: str) -> Any:
        if name not in self.__dict__.get("__all__", ()):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(self._homes[name]), name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # The import system binds a module to its name in the package. Where a verb has
        # the name of its module, the name is the verb's.
        if not (isinstance(value, ModuleType) and name in self.__dict__["__all__"]):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self.__dict__["__all__"]})
