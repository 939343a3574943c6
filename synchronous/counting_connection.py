"""Connections to the site itself that notice statements run past the coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow


class CountingConnection(psycopg.Connection[TupleRow]):
    """A connection that counts all its exchanges with the server.

    So the coordinator need not ask before each commit whether there was anything else.
    """

    used = 0

    def wait(self, *arguments: Any, **options: Any) -> Any:
        """Exchange something with the server; cursors of every kind call this."""
        self.used += 1
        return super().wait(*arguments, **options)

    def commit(self) -> None:
        """Commit, unless the coordinator has."""
        if self.pgconn.transaction_status != TransactionStatus.IDLE:
            super().commit()

    def rollback(self) -> None:
        """Roll back the open transaction, if there is one."""
        if self.pgconn.transaction_status != TransactionStatus.IDLE:
            super().rollback()


def connect(
    _dialect: object, _record: object, arguments: list[Any], named: dict[str, Any]
) -> CountingConnection:
    """Open a connection for a pool."""
    return cast("Callable[..., CountingConnection]", CountingConnection.connect)(
        *arguments, **named
    )


def used(driver: psycopg.Connection[Any]) -> int | None:
    """How often a connection was used; None if it does not count."""
    return driver.used if isinstance(driver, CountingConnection) else None
