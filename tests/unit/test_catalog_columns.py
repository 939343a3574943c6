"""No column of the catalog is only written: something reads it, or it goes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import sqlalchemy as sa

import deferred.catalog
import deferred.error_catalog
import groups.catalog
import masters.catalog
import masters.contract_catalog
import sites.catalog
import snapshots.catalog
import snapshots.spark.catalog

ROOT = Path(__file__).parent.parent.parent
CATALOGS = (
    deferred.catalog,
    deferred.error_catalog,
    groups.catalog,
    masters.catalog,
    masters.contract_catalog,
    sites.catalog,
    snapshots.catalog,
    snapshots.spark.catalog,
)
PACKAGES = (
    "deferred",
    "groups",
    "masters",
    "migrations/sql",
    "sites",
    "snapshots",
    "snaptide",
    "synchronous",
)

#: It holds its table to one row.
WITHOUT_READER = ["site_identity.one_row"]


def test_each_column_has_a_reader() -> None:
    """A file of the product that names the table also names the column to read it."""
    unread = [
        f"{table.name}.{column.name}"
        for catalog in CATALOGS
        for variable, table in vars(catalog).items()
        if isinstance(table, sa.Table)
        for column in table.columns
        if not _is_read(column.name, {variable, table.name})
    ]
    assert unread == WITHOUT_READER


def _is_read(column: str, table: set[str]) -> bool:
    return any(
        # The quick questions first: most files need not be parsed for any column.
        column in text and words & table and column in _reads(path)
        for path, text, words in _sources()
    )


@cache
def _sources() -> list[tuple[Path, str, set[str]]]:
    """The files of the product, each with its text and the words in it."""
    return [*_files()]


def _files() -> Iterator[tuple[Path, str, set[str]]]:
    own = {Path(catalog.__file__ or "") for catalog in CATALOGS}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.*"):
            if path.suffix not in {".py", ".sql"} or path in own:
                continue
            text = path.read_text("utf-8")
            if "CREATE TABLE" in text:  # what makes a column does not read it
                continue
            yield path, text, set(re.findall(r"\w+", text))


@cache
def _reads(path: Path) -> set[str]:
    """The words that may read a column: all of those in SQL.

    In Python, names of attributes and of fields of classes, and words of other strings.
    Left out are keyword arguments and keys of dictionaries, which give values, and
    docstrings.
    """
    text = path.read_text("utf-8")
    if path.suffix == ".sql":
        return set(re.findall(r"\w+", text))
    found, given = set(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.ClassDef):
            found |= {
                one.target.id
                for one in node.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            }
        elif isinstance(node, ast.Dict):
            given |= {id(key) for key in node.keys}
        elif isinstance(node, ast.Expr):
            given.add(id(node.value))
        elif isinstance(node, ast.Constant) and id(node) not in given:
            found |= set(re.findall(r"\w+", str(node.value)))
    return found
