"""The page of all fault points, from the calls in the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from docs.generator.markdown import cell, first_paragraph, table
from snaptide_imports import PACKAGES

ROOT = Path(__file__).parents[2]

FOLDERS = (*PACKAGES, "migrations")

_POINT = "faults.point"

_INTRO = """\
# Fault points

This page lists the named points at which a test can make Snaptide fail. Set
`SNAPTIDE_FAULT` to `name:action`; several are separated by commas. While the variable
is not set, nothing happens at any of them.

| action | what happens |
|---|---|
| `kill` | the process is killed, as by a power cut |
| `error` | an exception is raised |
| `stop` | the process stands still until it is sent `SIGCONT` |

A last number means the nth time that the point is reached:
`SNAPTIDE_FAULT=push.after_apply:kill:3`.
"""


def page() -> str:
    """Every place at which a test can make Snaptide die, fail or stall."""
    rows = [
        (f"`{name}`", f"`{where}`", cell(about))
        for name, where, about in sorted(calls())
    ]
    return f"{_INTRO}\n{table(['point', 'in', 'which is for'], rows)}"


def calls() -> Iterator[tuple[str, str, str]]:
    """Name, place and purpose of each call of `faults.point`."""
    for package in FOLDERS:
        for file in sorted((ROOT / package).rglob("*.py")):
            text = file.read_text("utf-8")
            if _POINT not in text:  # most have none, and a walk takes long
                continue
            tree = ast.parse(text)
            module = file.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
            for function in _functions(tree):
                about = ast.get_docstring(function) or ast.get_docstring(tree) or ""
                for name in _points_in(function):
                    yield name, f"{module}.{function.name}", first_paragraph(about)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Functions and methods, but none that stands inside another."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for body in (tree.body, *(c.body for c in classes)):
        yield from (node for node in body if isinstance(node, ast.FunctionDef))


def _points_in(function: ast.FunctionDef) -> Iterator[str]:
    for call in ast.walk(function):
        if (
            isinstance(call, ast.Call)
            and ast.unparse(call.func) == _POINT
            and isinstance(call.args[0], ast.Constant)
        ):
            yield str(call.args[0].value)
