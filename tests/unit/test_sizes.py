"""How long files and functions of the product may be."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    *("sites", "masters", "deferred", "synchronous", "snapshots", "groups"),
    *("folders", "snaptide", "migrations"),
)

#: Lines; a function's docstring does not count.
FILE, FUNCTION = 400, 60


def test_files_and_functions_can_be_read() -> None:
    long = [
        f"{file.relative_to(ROOT)}: {what} has {lines} lines"
        for package in PACKAGES
        for file in sorted((ROOT / package).rglob("*.py"))
        for what, lines, most in _sizes(file.read_text("utf-8"))
        if lines > most
    ]
    assert long == []


def _sizes(text: str) -> Iterator[tuple[str, int, int]]:
    yield "it", len(text.splitlines()), FILE
    for function in _functions(ast.parse(text)):
        yield function.name, _lines(function), FUNCTION


def _functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):  # no function is defined in one
            continue
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        yield from _functions(child)


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    said = function.body[0] if ast.get_docstring(function) is not None else None
    documented = said.end_lineno - said.lineno + 1 if said and said.end_lineno else 0
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1 - documented
