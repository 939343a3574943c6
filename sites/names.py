"""Names: reading them as users write them, and deriving Snaptide's own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from psycopg import sql

from sites.errors import BadName, SnaptideError

_Given = TypeVar("_Given")

#: PostgreSQL silently cuts names beyond 63 bytes; three bytes are left for suffixes.
LIMIT = 60

#: The names that a site may have, as a regular expression; queues are named by them.
SITE = r"^[A-Za-z0-9_][A-Za-z0-9_-]*$"


@dataclass(frozen=True, slots=True, order=True)
class QualifiedName:
    """A table's schema and name, both as the catalog holds them (not quoted)."""

    schema: str
    name: str

    def __str__(self) -> str:
        shown = f"{_shown(self.schema)}.{_shown(self.name)}"
        return shown.removeprefix("public.")


def parse(text: str, default_schema: str = "public") -> QualifiedName:
    """Read a name as a user writes it: `orders`, `sales.orders` or `"My.Table"`.

    Unlike in SQL, case is kept: users type names exactly as the catalog has them.
    Only parts that hold a dot or a quote need quotes around them.

    Raises:
        BadName: empty parts, more than two parts, or a quote that is not closed.
    """
    parts = _split(text)
    if not 1 <= len(parts) <= 2 or not all(parts) or "\0" in text:
        raise BadName(f"{text!r} is not a table name.", name=text)
    return (
        QualifiedName(*parts)
        if len(parts) == 2
        else QualifiedName(default_schema, parts[0])
    )


def by_table(
    given: Mapping[str, _Given],
    tables: Collection[QualifiedName],
    refuse: Callable[..., SnaptideError],
) -> dict[QualifiedName, _Given]:
    """Read what a user gives for some of the tables that were named before.

    Parameters:
        refuse: makes an error of what is wrong, and of the `table`.

    Raises:
        BadName: one is not a table name.
        SnaptideError: the error of `refuse`: something is given for another table, or
            twice for one.
    """
    found = {parse(name): value for name, value in given.items()}
    for other in found:
        if other not in tables:
            raise refuse(f"{other} is not among the tables.", table=str(other))
    if len(found) != len(given):
        raise refuse(
            "Rows or columns of a table are given twice, with its schema and without."
        )
    return found


def derived(prefix: str, table: QualifiedName) -> str:
    """Name an object of ours after a user's table, within the limit of 63 bytes.

    For tables outside the schema public the name contains the schema. A name that is
    too long, or could be that of another table, ends in a hash of the full name.
    """
    plain = table.name if table.schema == "public" else f"{table.schema}.{table.name}"
    name = prefix + plain
    ambiguous = "." in table.name or "." in table.schema
    if len(name.encode()) <= LIMIT and not ambiguous:
        return name
    digest = hashlib.sha256(f"{table.schema}\0{table.name}".encode()).hexdigest()[:10]
    room = LIMIT - len(digest) - 1
    return f"{name.encode()[:room].decode(errors='ignore')}#{digest}"


def identifier(name: QualifiedName) -> sql.Identifier:
    """Both parts of a name as an identifier, for composed SQL."""
    return sql.Identifier(name.schema, name.name)


def quoted(name: str) -> str:
    """Quote one identifier for SQL text."""
    return '"' + name.replace('"', '""') + '"'


def _shown(part: str) -> str:
    return quoted(part) if "." in part or '"' in part else part


def divided(text: str, at: str, most: int = -1) -> list[str]:
    """Split a text at each `at` outside quotes; the parts keep their quotes.

    Parameters:
        most: split at most this often and leave the rest as it is; -1 for no limit.

    Raises:
        BadName: a quote is not closed.
    """
    parts: list[str] = []
    start, inside = 0, False
    for place, char in enumerate(text):
        if len(parts) == most:
            break
        inside = inside is not (char == '"')
        if char == at and not inside:
            parts.append(text[start:place].strip())
            start = place + 1
    if inside:
        raise BadName(f"{text!r} has a quote that is not closed.", name=text)
    return [*parts, text[start:] if len(parts) == most else text[start:].strip()]


def plain(part: str) -> str:
    """The name that a user wrote, without its quotes.

    Raises:
        BadName: it is not one name.
    """
    parts = [part] if '"' not in part else _split(part)
    if len(parts) != 1 or not parts[0]:
        raise BadName(f"{part!r} is not a name.", name=part)
    return parts[0]


def _split(text: str) -> list[str]:
    parts, current, inside, closed = [], "", False, False
    i = 0
    while i < len(text):
        char = text[i]
        if inside and text[i : i + 2] == '""':
            current, i = current + '"', i + 1
        elif char == '"':
            inside, closed = not inside, inside
        elif char == "." and not inside:
            parts.append(current)
            current, closed = "", False
        elif closed:
            return []
        else:
            current += char
        i += 1
    return [] if inside else [*parts, current]


def numbered(prefix: str, columns: Sequence[object]) -> tuple[str, ...]:
    """Names of recorded columns, k1, k2, ...: independent of the user's names."""
    return tuple(f"{prefix}{n}" for n in range(1, len(columns) + 1))


def identifiers(names: Sequence[str]) -> list[sql.Identifier]:
    """Names of columns, quoted."""
    return [sql.Identifier(name) for name in names]


def comma(parts: Iterable[sql.Composable]) -> sql.Composed:
    """Join parts of a statement by commas."""
    return sql.SQL(", ").join(parts)
