"""Making groups quiet after one of their transactions could not be applied."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

from deferred.options import ErrorAction
from deferred.parked import group_hold
from deferred.parked.parking import Parked
from deferred.pushing.sender import Sender
from sites import QualifiedName


def make_quiet(
    connection: Connection,
    sender: Sender,
    parked: Parked,
    tables: Iterable[QualifiedName],
    asked: ErrorAction,
) -> None:
    """Make those groups of the tables quiet whose error action asks for it."""
    wanted = [
        table
        for table in tables
        if sender.action([table], asked) is ErrorAction.QUIET_GROUP
    ]
    why = f"Transaction {parked.origin_transaction} of {parked.origin} was parked:"
    group_hold.begin(
        connection,
        group_hold.groups(connection, wanted),
        f"{why} {parked.error_message}",
        by=f"the push of {sender.name}",
    )
