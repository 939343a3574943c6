"""Adds the foreign keys between snapshots, once both of the two are filled."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from psycopg import errors as pg
from sqlalchemy import func, select

from sites.sessions.site import Site
from snapshots.creating import base_table
from snapshots.differences.window import Member

#: PostgreSQL refuses the foreign key: the parent lacks a unique constraint that the
#: master got later, a column has another type, a constraint of the site's own has the
#: name, or our user does not own the table.
_CANNOT_LINK = (
    pg.InvalidForeignKey,
    pg.DatatypeMismatch,
    pg.DuplicateObject,
    pg.InsufficientPrivilege,
)


def link(site: Site, members: Sequence[Member]) -> None:
    """Add the foreign keys whose two snapshots are there now; commits.

    Each key is added in a transaction of its own: if the table cannot be locked within
    500 ms, because users write to it, a later refresh adds the key. A second
    transaction checks the rows, while users go on writing. A key that the site cannot
    have does not fail the refresh, whose rows are written already.
    """
    for reference in base_table.missing_references(members):
        with suppress(pg.LockNotAvailable, *_CANNOT_LINK):
            for step in (base_table.add_reference, base_table.check_reference):
                with site.transaction() as connection:
                    brief = func.set_config("lock_timeout", "500ms", True)
                    connection.execute(select(brief))
                    step(connection, reference)
