"""What a publication of the master lets a site do, where its user is a login of a site.

The master enforces that in any case. Here it is said before a snapshot is made that
could not be refreshed or pushed.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

from sites.tables.table import Table
from snapshots.definitions.errors import BeyondGrant

_GRANTED = text(
    "SELECT ARRAY(SELECT c FROM unnest(CAST(:columns AS text[])) c"
    " WHERE NOT has_column_privilege(CAST(:table AS oid), c, 'SELECT')) AS unreadable,"
    " has_table_privilege(CAST(:table AS oid), 'DELETE') AS updatable FROM pg_roles"
    " WHERE rolname = 'snaptide_site' AND pg_has_role(oid, 'USAGE')"
)


def refuse_beyond(
    connection: Connection,
    table: Table,
    columns: Sequence[str],
    condition: str | None,
    *,
    updatable: bool,
) -> None:
    """Refuse a snapshot that needs more than the master grants to its site.

    Parameters:
        connection: to the master. Any other user's rights are not asked for here.

    Raises:
        BeyondGrant: a column may not be read; it is to be updatable, and the grant is
            not; or it has a condition, which the master would check in a temporary
            table.
    """
    # A superuser is a member of every role, and bound by no policy.
    if not table.divided:
        return
    asked = {"columns": [*columns], "table": table.oid}
    granted = connection.execute(_GRANTED, asked).one_or_none()
    if granted is None:
        return
    wanted = [f"column {one}" for one in granted.unreadable]
    wanted += ["a condition of its own"] if condition is not None else []
    wanted += ["changes of rows"] if updatable and not granted.updatable else []
    if wanted:
        raise BeyondGrant(
            f"The master does not grant to this site, of {table.qualified}: "
            f"{', '.join(wanted)}.",
            table=str(table.qualified),
        )
