"""What our sessions set: when they begin, and for a transaction of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Double, Text, case, cast, func

#: With these settings all our connections read and write text the same way, so that a
#: value that is passed through as text arrives unchanged.
MEANINGS = {
    # Otherwise each end uses its database's own encoding, and bytes change meaning.
    "client_encoding": "UTF8",
    "timezone": "UTC",
    "datestyle": "ISO,YMD",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "xmloption": "content",
    # Otherwise NULL in the text of an array is read as a string of four letters.
    "array_nulls": "on",
    # Otherwise a backslash in our literals escapes, and x = NULL means x IS NULL.
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    # Types have the same names at both ends.
    "quote_all_identifiers": "off",
}

#: Of sessions that run the statements of programs.
FOR_PROGRAMS = {
    **MEANINGS,
    # If a crash lost a batch, a marker or a position that another site knows already,
    # changes would be applied twice or lost.
    "synchronous_commit": "on",
    # A server notices within a minute that our machine is gone, and releases the rows
    # that we had locked. By default it takes two hours.
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "60000",
    # With the default of 8 MB, PostgreSQL writes a work table of fifty thousand rows to
    # a file and reads it back for each statement. A session takes the memory only as it
    # fills such tables.
    "temp_buffers": "32MB",
    # Overrides the database's default: each statement of a merge must see the changes
    # committed before it, or it would overwrite a user's change.
    "default_transaction_isolation": "read committed",
    # Our triggers tell by the lines of their context which statements functions run. A
    # server that is to tell the parameters of errors adds a line to all statements.
    "log_parameter_max_length_on_error": "0",
    # The session that holds the database snapshot of a refresh is idle while rows are
    # compared, and a listener is idle while there are no changes: timeouts for users
    # would end both.
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}

#: Of the sessions that run our statements.
SETTINGS = {
    # No function of a user's is called instead of PostgreSQL's, and names are printed
    # with their schemas.
    "search_path": "pg_catalog",
    # A statement of a first load or a large merge takes longer than those of users.
    "statement_timeout": "0",
    **FOR_PROGRAMS,
}


def libpq_options(settings: Mapping[str, str] = SETTINGS) -> str:
    """Settings as command-line options that a server takes at connection time."""
    escaped = ((name, value.replace(" ", r"\ ")) for name, value in settings.items())
    return " ".join(f"-c {name}={value}" for name, value in escaped)


#: Has the transaction of the statement that returns it commit without a flush, which
#: takes longer than the statements of a small one. PostgreSQL writes its log in one
#: order: the next commit in the cluster that is flushed flushes this one, too. So use
#: it if nothing outside the cluster learns of the commit before
#: (docs/decisions/0015-flushes.md).
UNFLUSHED = func.set_config("synchronous_commit", "off", True)

#: With the default of 4 MB, a hundred thousand rows go to files; this is bounded, too.
ENOUGH = "32MB"


def raise_work_mem() -> ColumnElement[Any]:
    """Raise work_mem to `ENOUGH` for the rest of the transaction, if it is lower."""
    now = func.current_setting("work_mem")
    less = func.pg_size_bytes(now) < func.pg_size_bytes(ENOUGH)
    return func.set_config("work_mem", case((less, ENOUGH), else_=now), True)


def lookups() -> ColumnElement[Any]:
    """Let the planner prefer index lookups for the rest of the transaction.

    The default cost of a random page is that of a spinning disk: with it, a query for a
    twentieth of a table's rows reads the whole table, so that its time grows with the
    table.
    """
    cost = cast(func.current_setting("random_page_cost"), Double)
    return func.set_config("random_page_cost", cast(func.least(cost, 1.1), Text), True)
