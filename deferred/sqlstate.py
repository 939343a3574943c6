"""Which failures are caused by the data, and which by the system.

A transaction that fails because of its data is parked, because trying again cannot
help. A failure of connections, locks, resources, the schema or rights leaves the batch
as it is, to be tried again.
"""

from __future__ import annotations

import psycopg
from psycopg.errors import Diagnostic
from sqlalchemy.exc import DataError, DBAPIError, ProgrammingError

from sites.catalog import SCHEMA

#: Classes of SQLSTATE of failures that do not come from the data.
_SYSTEM = {"08", "0A", "25", "40", "42", "53", "55", "57", "58", "XX"}

#: Row-level security refuses a row with the SQLSTATE of a missing right, and so may a
#: user's trigger. The message is in the server's language, or the user's; the functions
#: of PostgreSQL that raise it have one name each.
_BY_POLICY, _BY_TRIGGER = "ExecWithCheckOptions", "exec_stmt_raise"

_NO_SUCH_SIZE = "invalid memory alloc request size"

#: A lock was not free in time, there was a deadlock, or a purge came between the reads
#: of a transaction that has to see one moment.
_GAVE_WAY = {"55P03", "40P01", "40001"}

#: The classes of those that can hit any statement, and pass by themselves.
_PASSING = {"08", "40", "53", "57", "58", "XX"}
_HELD_UP = {"55P03", "55006", "25006"}

#: Errors that the driver raises without asking the database.
_UNCARRIED = (DataError, ProgrammingError)

UNIQUE_VIOLATION = "23505"
NO_RIGHT = "42501"
#: The second one is for RESTRICT, from PostgreSQL 18 on.
FOREIGN_KEY_VIOLATIONS = ("23503", "23001")
#: Also with the states of CHECK and exclusion constraints.
OF_CONSTRAINTS = (UNIQUE_VIOLATION, *FOREIGN_KEY_VIOLATIONS, "23514", "23P01")


def of(error: DBAPIError) -> str:
    """The SQLSTATE of an error.

    Without one it is 22000 for a value that the driver cannot carry, and 08000
    for a connection that broke.
    """
    state = getattr(error.orig, "sqlstate", None)
    return state or ("22000" if isinstance(error, _UNCARRIED) else "08000")


def caused_by_data(error: DBAPIError) -> bool:
    """Whether trying the same change again would fail in the same way."""
    state = of(error)
    if state == NO_RIGHT:
        return _is_of_a_row(error)
    return not error.connection_invalidated and state[:2] not in _SYSTEM


def too_large(error: DBAPIError) -> bool:
    """Whether PostgreSQL cannot put a value together, as it is larger than 1 GB.

    It says so with the state of errors that nobody expects, and never in another
    language than English.
    """
    return of(error) == "XX000" and message(error).startswith(_NO_SUCH_SIZE)


def _is_of_a_row(error: DBAPIError) -> bool:
    """Whether a right is missing for a row, and not for what a push does at all."""
    told = getattr(error.orig, "diag", None)
    if not isinstance(told, Diagnostic):
        return False
    if told.source_function == _BY_POLICY:
        return True
    # Functions of ours tell a login that nothing is granted to it any more.
    innermost, _, _ = (told.context or "").partition("\n")
    ours = f" {SCHEMA}." in innermost
    return told.source_function == _BY_TRIGGER and not ours


def caused_by_transaction(error: DBAPIError) -> bool:
    """Whether another transaction may succeed: errors of data, schema and rights."""
    return caused_by_data(error) or of(error)[:2] in ("0A", "42")


def of_a_value(error: DBAPIError) -> bool:
    """Whether a column or its domain refused a value."""
    diagnostics = getattr(error.orig, "diag", None)
    of_domain = bool(getattr(diagnostics, "datatype_name", None))
    return of(error)[:2] == "22" or (of(error)[:2] == "23" and of_domain)


def passes(error: DBAPIError) -> bool:
    """Whether a procedure that failed with this error may succeed the next time.

    Missing rights or objects are the procedure's own problem: waiting for them would
    stop the queue.
    """
    state = of(error)
    return error.connection_invalidated or state[:2] in _PASSING or state in _HELD_UP


def gave_way(error: DBAPIError) -> bool:
    """Whether another session works on the same rows, and may soon be done."""
    return of(error) in _GAVE_WAY


def held_up(error: DBAPIError) -> bool:
    """Whether it has to wait: for another session's locks, or for a closed table."""
    return gave_way(error) or of(error) in _HELD_UP


def message(error: DBAPIError | psycopg.Error) -> str:
    """The database's message and detail, on one line."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    diagnostics = getattr(cause, "diag", None)
    parts = [
        getattr(diagnostics, name, None)
        for name in ("message_primary", "message_detail")
    ]
    return " ".join(part for part in parts if part) or str(cause).strip()
