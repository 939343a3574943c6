"""Letting users' code use a connection, but not end its transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, event

from deferred.control import ends_transaction
from deferred.errors import ProcedureEndedTransaction, ProcedureEndsTransaction
from sites.sessions.exchange import raw

_VERBS = ("commit", "rollback", "close", "invalidate")
_ANSWERING = (TransactionStatus.IDLE, TransactionStatus.INTRANS)


@contextmanager
def kept_open(connection: Connection) -> Iterator[None]:
    """Refuse to end the transaction of a connection while the block runs.

    Blocks can be nested: the refusal lasts until the outermost block ends.

    Raises:
        ProcedureEndsTransaction: in the code that tries.
    """
    if _VERBS[0] in vars(connection):
        yield
        return
    # Refuse before SQLAlchemy changes its state: the caller's transaction goes on.
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
    """Detect that the block ended its caller's transaction, bypassing `kept_open`.

    A rollback to a savepoint of the caller is detected too.

    Parameters:
        setting, value: a setting that the caller has made for this transaction only.

    Raises:
        ProcedureEndedTransaction: the setting is gone, and with it the transaction.
    """
    try:
        yield
    finally:
        if not connection.invalidated and _is_gone(raw(connection), setting, value):
            raise ProcedureEndedTransaction


def _is_gone(driver: psycopg.Connection[Any], setting: str, value: str) -> bool:
    """Ask the driver, because SQLAlchemy does not see what bypassed it."""
    if driver.info.transaction_status not in _ANSWERING:
        return False  # a statement failed: nothing can be committed
    row = driver.execute("SELECT current_setting(%s, true)", [setting]).fetchone()
    return row != (value,)


def _refuse(*_: object, **__: object) -> NoReturn:
    raise ProcedureEndsTransaction


def _watch(_connection: Any, _cursor: Any, statement: str, *_: Any, **__: Any) -> None:
    if ends_transaction(statement):
        raise ProcedureEndsTransaction
