"""The roles of Snaptide's processes, and their rights on tables of users.

`snaptide site init --grants` creates them. If a site has them, a table that gets a log
or belongs to a new snapshot is opened to them at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from psycopg import sql
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from sites.catalog import SCHEMA
from sites.names import QualifiedName, identifier
from sites.sessions.exchange import raw
from sites.sql import load

#: Reads calls at their origin, and applies them at their destination.
PUSH = "snaptide_push"
#: Reads masters, and writes the base tables of snapshots.
REFRESH = "snaptide_refresh"
#: Changes site and master in one transaction: coordinators and their recovery.
COORDINATE = "snaptide_coordinate"
#: Removes rows of logs and queues that are no longer needed.
PURGE = "snaptide_purge"
#: Defers calls of procedures: applications that use `deferred.call`.
CALL = "snaptide_call"
#: Only reads: `snaptide status`, `snaptide doctor`, lists.
MONITOR = "snaptide_monitor"

#: Rights of each role on a master table; below, on the base table of a snapshot.
MASTER: Mapping[str, str] = {
    PUSH: "SELECT, INSERT, UPDATE, DELETE",
    COORDINATE: "SELECT, INSERT, UPDATE, DELETE",
    REFRESH: "SELECT",
}
#: Rights on a work table that one coordinator made and others use.
WORK: Mapping[str, str] = {COORDINATE: "SELECT, INSERT, UPDATE, DELETE"}
BASE: Mapping[str, str] = {REFRESH: "SELECT, INSERT, UPDATE, DELETE"}

_HERE = text(
    "SELECT rolname FROM pg_roles r WHERE rolname = ANY (:roles)"
    # Granted to the role itself: rights of PUBLIC on the schema do not count.
    " AND EXISTS (SELECT FROM pg_namespace n, aclexplode(n.nspacl) AS granted"
    " WHERE n.nspname = :schema AND granted.grantee = r.oid"
    " AND granted.privilege_type = 'USAGE')"
)


_OWNED = text(
    "SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = :schema AND c.relname = :name"
)


def owns(connection: Connection, table: QualifiedName) -> bool:
    """Whether the user of the site has the rights of a table's owner."""
    asked = {"schema": table.schema, "name": table.name}
    return bool(connection.scalar(_OWNED, asked))


def open_to(
    connection: Connection, to: Mapping[str, str], *tables: QualifiedName
) -> None:
    """Grant the roles of this site the rights that they need on new tables.

    If the user of the site may not grant those on a table, none is granted there:
    `--grants print` shows the statements for an administrator.
    """
    here = set(connection.scalars(_HERE, {"roles": list(to), "schema": SCHEMA}).all())
    granted = {role: rights for role, rights in to.items() if role in here}
    for table in tables if granted else ():
        with suppress(DBAPIError), connection.begin_nested():
            for statement in (
                *statements(table, granted),
                *drawing(connection, table, granted),
            ):
                text_ = statement.as_string(raw(connection))
                connection.exec_driver_sql(text_.replace("%", "%%"))


def statements(table: QualifiedName, to: Mapping[str, str]) -> Iterator[sql.Composed]:
    """The statements that grant roles the rights that they need on a table."""
    for role, rights in to.items():
        yield sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(
            sql.Identifier(table.schema), sql.Identifier(role)
        )
        yield sql.SQL("GRANT {} ON {} TO {}").format(
            sql.SQL(rights),
            identifier(table),
            sql.Identifier(role),
        )


def drawing(
    connection: Connection, table: QualifiedName, to: Mapping[str, str]
) -> Iterator[sql.Composed]:
    """The statements that let roles lease numbers of a master table to sites.

    Parameters:
        to: the roles, of which those that push or refresh need it.
    """
    drawn = connection.execute(
        text(load("drawn_sequences")), {"table": identifier(table).as_string()}
    )
    for schema, name in drawn.all():
        for role in sorted({PUSH, REFRESH} & to.keys()):
            yield sql.SQL("GRANT USAGE ON SEQUENCE {} TO {}").format(
                sql.Identifier(schema, name), sql.Identifier(role)
            )
