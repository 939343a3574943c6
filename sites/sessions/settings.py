"""What our sessions set when they begin."""

from __future__ import annotations

from collections.abc import Mapping

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
    # The session that holds the database snapshot of a refresh is idle while rows are
    # compared, and a listener is idle while there are no changes: timeouts for users
    # would end both.
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}

#: Of the sessions that run our statements. There no function of a user's is called
#: instead of PostgreSQL's, and names are printed with their schemas.
SETTINGS = {"search_path": "pg_catalog", **FOR_PROGRAMS}


def libpq_options(settings: Mapping[str, str] = SETTINGS) -> str:
    """Settings as command-line options that a server takes at connection time."""
    escaped = ((name, value.replace(" ", r"\ ")) for name, value in settings.items())
    return " ".join(f"-c {name}={value}" for name, value in escaped)
