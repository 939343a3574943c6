"""The page of all errors, from their classes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator

from docs.generator.markdown import prose
from sites.errors import SnaptideError
from snaptide_imports import PACKAGES

#: Importing these does something.
_NOT_IMPORTED = {"snaptide.celery", "snaptide.__main__"}

_ROOMS = {
    "0": "Sites and settings",
    "1": "Masters",
    "2": "Snapshots",
    "3": "Deferred transactions",
    "4": "The program",
    "5": "Replication groups",
    "6": "Folders",
}


_INTRO = """\
# Errors

This page says for each error what it means and what to do. The command line prints the
code first; in Python every error is a `sites.SnaptideError` with the attributes
`code`, `message`, `hint` and `facts`. Numbers that begin with ORA are Oracle's for the
same thing.
"""


def page() -> str:
    """Every error class, by its code."""
    parts = [_INTRO.strip()]
    room = ""
    for error in error_classes():
        if room != _ROOMS[error.code[4]]:
            room = _ROOMS[error.code[4]]
            parts.append(f"## {room}")
        parts += _error(error)
    return "\n\n".join(parts)


def error_classes() -> list[type[SnaptideError]]:
    """All error classes of all packages, by code and name."""
    for package in PACKAGES:
        _import_all(package)
    found = {
        error
        for error in _descendants(SnaptideError)
        if error.__module__.partition(".")[0] in PACKAGES
        and not error.__name__.startswith("_")
    }
    return sorted(found, key=lambda e: (e.code, e.__module__, e.__name__))


def anchor(error: type[SnaptideError]) -> str:
    """Where the section of an error begins."""
    return f"{error.code}-{error.__name__}".lower()


def _error(error: type[SnaptideError]) -> list[str]:
    where = f"`{_home(error)}.{error.__name__}`"
    parent = error.__bases__[0]
    if parent is not SnaptideError:
        where += f", a kind of [{parent.__name__}](#{anchor(parent)})"
    oracle = re.search(r"#\s*Oracle:\s*(.+)", _own_source(error))
    if oracle:
        where += f". Oracle: {oracle[1].strip()}"
    return [
        f"### {error.code} {error.__name__} {{ #{anchor(error)} }}",
        prose(error.__doc__),
        f"**What to do:** {error.hint}" if error.hint else "",
        where,
    ]


def _home(error: type[SnaptideError]) -> str:
    """Where a program imports an error from."""
    package = error.__module__.partition(".")[0]
    exported = getattr(importlib.import_module(package), "__all__", ())
    return package if error.__name__ in exported else error.__module__


def _own_source(error: type) -> str:
    # Up to the first method, so that comments in code do not count.
    return inspect.getsource(error).partition("\n    def ")[0]


def _import_all(package: str) -> None:
    root = importlib.import_module(package)
    for found in pkgutil.walk_packages(root.__path__, f"{package}."):
        if found.name not in _NOT_IMPORTED:
            importlib.import_module(found.name)


def _descendants(root: type[SnaptideError]) -> Iterator[type[SnaptideError]]:
    for child in root.__subclasses__():
        yield child
        yield from _descendants(child)
