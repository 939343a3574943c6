"""Values for the `${name}` in a site's file.

In a condition they become SQL literals, never SQL: `store_id = ${store}` with the value
`1 OR true` compares the column with that text. Everywhere else they are text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from psycopg import sql

from snaptide.plan.errors import BadSiteFile, UnsetParameter, UnusedParameter
from snaptide.plan.source import Path, Source

#: `${name}`, or `$${name}` where the text itself is meant.
_PARAMETER = re.compile(r"\$(\$?)\{([^}]*)\}")

#: What PostgreSQL reads as one piece, in which no literal may be put: strings, quoted
#: names and comments.
_PIECE = r"""
    [eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
  | \$(?P<tag>[A-Za-z_]?\w*)\$.*?\$(?P=tag)\$ | --[^\n]* | /\*.*?\*/
"""
_IN_SQL = re.compile(rf"(?P<piece>{_PIECE})|\$(\$?)\{{([^}}]*)\}}", re.VERBOSE | re.S)

#: The keys whose values are SQL.
_SQL = re.compile(r"snapshots/.*/where")


class Parameters:
    """The values that were given, and which of them a file has used."""

    def __init__(self, values: Mapping[str, str], source: Source) -> None:
        self._values = values
        self._source = source
        self._used: set[str] = set()

    def put_in(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document with the values in place of the parameters.

        Raises:
            UnsetParameter: the file names a parameter that was not given.
            UnusedParameter: a parameter was given that the file does not name.
            BadSiteFile: a parameter stands within a string or a name of a condition.
        """
        made = {n: self._in_value(value, (n,)) for n, value in document.items()}
        self._refuse_unused()
        return made

    def _refuse_unused(self) -> None:
        unused = sorted(set(self._values) - self._used)
        if unused:
            known = ", ".join(sorted(self._used)) or "none"
            raise UnusedParameter(
                f"{self._source.file}: nothing uses {', '.join(unused)}; the file's "
                f"parameters are: {known}.",
                parameters=unused,
            )

    def _in_value(self, value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            for name in value:
                if _PARAMETER.search(name):
                    raise self._source.error(
                        (*path, name), "a name of the file cannot have a parameter"
                    )
            return {k: self._in_value(v, (*path, k)) for k, v in value.items()}
        if isinstance(value, list):
            return [self._in_value(v, (*path, n)) for n, v in enumerate(value)]
        if not isinstance(value, str):
            return value
        if _SQL.fullmatch("/".join(map(str, path))):
            return _IN_SQL.sub(lambda found: self._literal(found, path), value)
        return _PARAMETER.sub(lambda one: self._text(one[1], one[2], path), value)

    def _text(self, escaped: str, name: str, path: Path) -> str:
        if escaped:
            return f"${{{name}}}"
        if name not in self._values:
            where = self._source.place(path)
            raise UnsetParameter(f"{where}: ${{{name}}} has no value.", parameter=name)
        self._used.add(name)
        return self._values[name]

    def _literal(self, found: re.Match[str], path: Path) -> str:
        piece, _, escaped, name = found.groups()
        if piece is None:
            text = self._text(escaped, name, path)
            return text if escaped else literal(text)
        for inner in _PARAMETER.finditer(piece):
            if not inner[1]:
                raise self._source.error(
                    path,
                    f"{inner[0]} stands within {piece}; it is a literal by itself, so "
                    "leave out the quotes",
                )
        return _PARAMETER.sub(lambda one: one[0][1:], piece)


def literal(value: str) -> str:
    """A value as an SQL literal, whose type PostgreSQL takes from its context.

    Raises:
        BadSiteFile: PostgreSQL has no such text.
    """
    if "\0" in value:
        raise BadSiteFile("A parameter has a character that PostgreSQL cannot store.")
    return sql.Literal(value).as_string(None)


def setting(values: Mapping[str, str]) -> list[str]:
    """The words of a command that give parameters their values."""
    return [w for name, value in values.items() for w in ("--set", f"{name}={value}")]


def named_in(document: Any) -> set[str]:
    """The parameters that the texts of a document name."""
    if isinstance(document, dict):
        document = list(document.values())
    if isinstance(document, list):
        return {name for value in document for name in named_in(value)}
    if isinstance(document, str):
        return {one[2] for one in _PARAMETER.finditer(document) if not one[1]}
    return set()


def escaped(document: Any) -> Any:
    """A document whose texts mean themselves, whatever they hold."""
    if isinstance(document, dict):
        return {name: escaped(value) for name, value in document.items()}
    if isinstance(document, list):
        return [escaped(value) for value in document]
    if isinstance(document, str):
        return re.sub(r"\$\{([^}]*)\}", r"$${\1}", document)
    return document
