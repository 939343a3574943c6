"""Letting foreign code use a connection whose transaction is not its to end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, event

from deferred.control import ends_transaction
from deferred.errors import ProcedureEndedTransaction, ProcedureEndsTransaction
from sites.transport import raw

_VERBS = ("commit", "rollback", "close", "invalidate")
_ANSWERING = (TransactionStatus.IDLE, TransactionStatus.INTRANS)


@contextmanager
def kept_open(connection: Connection) -> Iterator[None]:
    """Refuse to end the transaction of a connection, for a while.

    Where that is refused already, it stays so until the outermost block is left.

    Raises:
        ProcedureEndsTransaction: in whoever tries.
    """
    if _VERBS[0] in vars(connection):
        yield
        return
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


@contextmanager
def noticed(connection: Connection, setting: str, value: str) -> Iterator[None]:
    """Notice that the transaction was ended after all, past `kept_open`.

    Or taken back to a savepoint of those around it.

    Parameters:
        setting, value: what the transaction has set, for itself alone.

    Raises:
        ProcedureEndedTransaction: the setting is gone, and all that stood with it.
    """
    try:
        yield
    finally:
        if not connection.invalidated and _is_gone(raw(connection), setting, value):
            raise ProcedureEndedTransaction


def _is_gone(driver: psycopg.Connection[Any], setting: str, value: str) -> bool:
    """Asked past SQLAlchemy, which does not know of what went past it."""
    if driver.info.transaction_status not in _ANSWERING:
        return False  # a statement failed: nothing can be committed
    row = driver.execute("SELECT current_setting(%s, true)", [setting]).fetchone()
    return row != (value,)


def _refuse(*_: object, **__: object) -> NoReturn:
    raise ProcedureEndsTransaction


def _watch(_connection: Any, _cursor: Any, statement: str, *_: Any, **__: Any) -> None:
    if ends_transaction(statement):
        raise ProcedureEndsTransaction
