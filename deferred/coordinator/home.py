"""Connections to the site itself, that notice what is run past the coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import psycopg
from psycopg.rows import TupleRow


class Home(psycopg.Connection[TupleRow]):
    """A connection that counts what its cursors were asked for, whoever asked.

    So that nobody has to ask before each commit whether there was anything else.
    """

    used = 0


class Counted(psycopg.Cursor[TupleRow]):
    """A cursor of such a connection."""

    def execute(self, *arguments: Any, **options: Any) -> Any:
        """Run a statement."""
        _count(self)
        return super().execute(*arguments, **options)

    def executemany(self, *arguments: Any, **options: Any) -> None:
        """Run a statement many times."""
        _count(self)
        super().executemany(*arguments, **options)

    def stream(self, *arguments: Any, **options: Any) -> Any:
        """Run a query, and give its rows one by one."""
        _count(self)
        return super().stream(*arguments, **options)

    def copy(self, *arguments: Any, **options: Any) -> Any:
        """Begin a COPY."""
        _count(self)
        return super().copy(*arguments, **options)


def connect(
    _dialect: object, _record: object, arguments: list[Any], named: dict[str, Any]
) -> Home:
    """For a pool: how its connections are opened."""
    made = cast("Callable[..., Home]", Home.connect)(*arguments, **named)
    made.cursor_factory = Counted
    return made


def used(driver: psycopg.Connection[Any]) -> int | None:
    """How often a connection was used; None where nobody counts."""
    return driver.used if isinstance(driver, Home) else None


def _count(cursor: Counted) -> None:
    cast("Home", cursor.connection).used += 1
