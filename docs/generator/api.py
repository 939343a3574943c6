"""The page of all public names, with signatures, docstrings and where examples are."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os.path
from collections import ChainMap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, is_typeddict

from deferred.options import Options
from docs.generator import examples
from docs.generator.errors import anchor
from docs.generator.markdown import code, code_cell, comments, docstring, prose, table
from docs.generator.settings import fields
from sites import SnaptideError
from snaptide_imports import PACKAGES

#: Packages with names that users import, in the order in which one needs them.
_PUBLIC = (
    "sites",
    "masters",
    "snapshots",
    "deferred",
    "synchronous",
    "groups",
    "folders",
    "snaptide.embedded",
)

_DOCS = Path(__file__).parents[1]

_INTRO = """\
# Python API

This page lists what may be imported and will stay. Verbs take a `Site`, own their
transactions and return a report; everything else in the packages may move. All of them
raise [errors](errors.md) that have a code and a hint.

A program gets its sites from a `Directory` of its own, or from `snaptide.toml` with
`Settings.load().install()` of `snaptide.settings`, which makes the custom routines,
procedures and options of that file known, too. A site gets its schema by
`snaptide.migrate.upgrade(site)`, as by `snaptide site init`.

In the examples `hq` and `jfk` are sites that [a program has
found](../howto/set-up-a-site.md#in-python).

A package or module of your own with the name of one of these (`sites.py`,
`groups/__init__.py`) hides Snaptide's if Python finds it first. The import then fails
and names it; `snaptide doctor` looks for such names in the folder where it is started.
Rename yours.
"""


def page() -> str:
    """Every public name with its signature and docstring."""
    parts = [_INTRO.strip()]
    for package in _PUBLIC:
        module = importlib.import_module(package)
        parts += [f"## {package}", prose(module.__doc__)]
        values = {name: getattr(module, name) for name in public_names()[package]}
        raised = {name: value for name, value in values.items() if _is_error(value)}
        for name, value in values.items():
            if name not in raised:
                parts += _public(package, name, value)
        if raised:
            parts += [
                f"### Errors of {package}",
                ", ".join(map(_linked, raised.values())),
            ]
    return "\n\n".join(parts)


def public_names() -> dict[str, list[str]]:
    """The names in `__all__` of each package with an API."""
    return {
        package: sorted(getattr(importlib.import_module(package), "__all__", ()))
        for package in _PUBLIC
    }


def public_functions() -> list[str]:
    """The dotted names of all public functions."""
    return [
        f"{package}.{name}"
        for package, names in public_names().items()
        for name in names
        if not inspect.isclass(getattr(importlib.import_module(package), name))
    ]


def _is_error(value: Any) -> bool:
    return inspect.isclass(value) and SnaptideError in value.__mro__[1:]


def _linked(error: type[SnaptideError]) -> str:
    return f"[`{error.__name__}`](errors.md#{anchor(error)})"


def _public(package: str, name: str, value: Any) -> list[str]:
    parts = [f"### {package}.{name}"]
    if inspect.isclass(value) and dataclasses.is_dataclass(value):
        parts += [*docstring(value.__doc__), _fields(value), *_methods(value)]
        return parts
    if inspect.isclass(value) and issubclass(value, Options):
        return [*parts, *docstring(value.__doc__), fields(value, "option")]
    if is_typeddict(value):
        return [*parts, *docstring(value.__doc__)]
    if callable(value):
        parts += [code(f"{name}{_signature(value)}"), *docstring(value.__doc__)]
    if not inspect.isclass(value):
        parts += _examples(f"{package}.{name}")
    if inspect.isclass(value) and not issubclass(value, Exception):
        parts += _methods(value)
    return parts


def _examples(name: str) -> Iterator[str]:
    """Links to the sections whose examples use a function."""
    used = [uses[name] for uses in _uses() if name in uses]
    if used:
        yield f"Example: {', '.join(map(_section, used))}."


@cache
def _uses() -> list[dict[str, examples.Example]]:
    """What the examples of each page use; the program's own pages alone."""
    return [examples.uses(page) for page in examples.pages() if _DOCS in page.parents]


def _section(example: examples.Example) -> str:
    page = os.path.relpath(example.page, _DOCS / "reference")
    title = example.page.read_text("utf-8").partition("\n")[0].removeprefix("# ")
    return f"[{title}]({page}#{example.anchor})"


def _methods(kind: type) -> list[str]:
    parts = []
    ours = [one for one in kind.__mro__ if one.__module__.split(".")[0] in PACKAGES]
    for name, value in ChainMap(*map(vars, ours)).items():
        function = value.__func__ if isinstance(value, classmethod) else value
        if inspect.isfunction(function) and not name.startswith("_"):
            parts.append(code(f"{kind.__name__}.{name}{_signature(function)}"))
            parts += docstring(function.__doc__)
    return parts


def _signature(value: Any) -> str:
    found = inspect.signature(value)
    lines, keyword_only = [], False
    for parameter in found.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            lines.append("*")
        if parameter.name not in ("self", "cls"):
            lines.append(_parameter(parameter))
    back = _annotation(found.return_annotation)
    end = f" -> {back}" if back and not inspect.isclass(value) else ""
    flat = f"({', '.join(lines)}){end}"
    if len(flat) <= 60:
        return flat
    return "(\n" + "".join(f"    {line},\n" for line in lines) + f"){end}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    text = stars + parameter.name
    annotation = _annotation(parameter.annotation)
    if annotation:
        text += f": {annotation}"
    if parameter.default is not parameter.empty:
        text += f" = {parameter.default!r}" if annotation else f"={parameter.default!r}"
    return text


def _annotation(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    return str(value) if isinstance(value, str) else inspect.formatannotation(value)


def _fields(value: Any) -> str:
    said = comments(value)
    rows = [
        (f"`{f.name}`", code_cell(_annotation(f.type)), said.get(f.name, ""))
        for f in dataclasses.fields(value)
        if not f.name.startswith("_")
    ]
    return table(["field", "type", "meaning"], rows)
