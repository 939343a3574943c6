"""Letting foreign code use a connection whose transaction is not its to end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from sqlalchemy import Connection, event

from deferred.control import ends_transaction
from deferred.errors import ProcedureEndsTransaction

_VERBS = ("commit", "rollback", "close", "invalidate")


@contextmanager
def kept_open(connection: Connection) -> Iterator[None]:
    """Refuse to end the transaction of a connection, for a while.

    Raises:
        ProcedureEndsTransaction: in whoever tries.
    """
    # Before SQLAlchemy takes note: the transaction goes on for those around it.
    for verb in _VERBS:
        setattr(connection, verb, _refuse)
    event.listen(connection, "before_cursor_execute", _watch)
    try:
        yield
    finally:
        event.remove(connection, "before_cursor_execute", _watch)
        for verb in _VERBS:
            delattr(connection, verb)


def _refuse(*_: object, **__: object) -> NoReturn:
    raise ProcedureEndsTransaction


def _watch(_connection: Any, _cursor: Any, statement: str, *_: Any, **__: Any) -> None:
    if ends_transaction(statement):
        raise ProcedureEndsTransaction
