"""Creates the roles of a site, and grants each role the rights for its work.

No role is a superuser or owns anything: the user who ran `site init` owns the
schema `snaptide`, and creates logs and snapshots. Applications need no rights in
it, because triggers run with the rights of their owner.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import Connection, select

from groups.catalog import group_table
from masters.catalog import snapshot_log
from sites import QualifiedName, Site
from sites.catalog import SCHEMA
from sites.sessions import identity
from sites.sessions.exchange import raw
from sites.tables import roles
from sites.tables.roles import CALL, COORDINATE, MONITOR, PURGE, PUSH, REFRESH
from snapshots import catalog as snapshots

#: The rights of each role on all tables of our schema, present and future.
_OURS = {
    PUSH: "SELECT, INSERT, UPDATE, DELETE",
    REFRESH: "SELECT, INSERT, UPDATE, DELETE",
    COORDINATE: "SELECT, INSERT, UPDATE, DELETE",
    PURGE: "SELECT, INSERT, UPDATE, DELETE, TRUNCATE",
    MONITOR: "SELECT",
}
#: All roles, except `snaptide_apply`.
ROLES = (*_OURS, CALL)

Statement = sql.Composed


def statements(connection: Connection) -> list[str]:
    """The statements that create the roles and grant them what they need here.

    Running them again only adds rights on logs and snapshots created since.
    """
    return [
        one.as_string(raw(connection))
        for one in (*_roles(), *_schema(connection), *_tables(connection))
    ]


def run(site: Site) -> list[str]:
    """Create the roles of a site and grant them what they need.

    Raises:
        SiteNotInitialised: there is no schema `snaptide` yet.
        sqlalchemy.exc.DBAPIError: the user of the site may not create roles, or
            does not own an object that the statements grant rights on.
    """
    with identity.initialised(site) as connection:
        found = statements(connection)
        for statement in found:
            connection.exec_driver_sql(statement.replace("%", "%%"))
    return found


def _roles() -> Iterator[Statement]:
    for role in ROLES:
        # Roles belong to the cluster: another site in it may have created them.
        yield sql.SQL(
            "DO $$ BEGIN IF to_regrole({0}) IS NULL THEN CREATE ROLE {1} NOLOGIN;"
            " END IF; END $$"
        ).format(sql.Literal(role), sql.Identifier(role))
    for role in (PUSH, REFRESH, COORDINATE):
        yield sql.SQL("GRANT snaptide_apply TO {}").format(sql.Identifier(role))
    # To see whether a session that recorded its work still exists.
    yield sql.SQL("GRANT pg_read_all_stats TO {}").format(sql.Identifier(MONITOR))


def _schema(connection: Connection) -> Iterator[Statement]:
    database = sql.Identifier(str(connection.engine.url.database))
    ours = sql.Identifier(SCHEMA)
    for role in ROLES:
        to = sql.Identifier(role)
        yield sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, to)
        yield sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(ours, to)
    yield sql.SQL("GRANT EXECUTE ON FUNCTION {}.defer_call TO {}").format(
        ours, sql.Identifier(CALL)
    )
    for role, rights in _OURS.items():
        to, on = sql.Identifier(role), sql.SQL(rights)
        for template in _TABLES_AND_SEQUENCES:
            yield sql.SQL(template).format(schema=ours, rights=on, to=to)
    for role in (PUSH, REFRESH, COORDINATE):
        to = sql.Identifier(role)
        # For work tables, and for the answers that a restored master gives.
        yield sql.SQL("GRANT TEMPORARY ON DATABASE {} TO {}").format(database, to)
    # For the stages of large refreshes and the work tables of prepared transactions.
    for role in (REFRESH, COORDINATE):
        yield sql.SQL("GRANT CREATE ON SCHEMA {} TO {}").format(
            ours, sql.Identifier(role)
        )


_ON_SEQUENCES = "GRANT SELECT, USAGE, UPDATE ON"
_TO_COME = "ALTER DEFAULT PRIVILEGES IN SCHEMA {schema}"
_TABLES_AND_SEQUENCES = (
    "GRANT {rights} ON ALL TABLES IN SCHEMA {schema} TO {to}",
    f"{_ON_SEQUENCES} ALL SEQUENCES IN SCHEMA {{schema}} TO {{to}}",
    f"{_TO_COME} GRANT {{rights}} ON TABLES TO {{to}}",
    f"{_TO_COME} {_ON_SEQUENCES} SEQUENCES TO {{to}}",
)


def _tables(connection: Connection) -> Iterator[Statement]:
    masters = sa.union(
        *(
            select(kind.c.table_schema, kind.c.table_name)
            for kind in (snapshot_log, group_table)
        )
    ).order_by("table_schema", "table_name")
    for row in connection.execute(masters):
        yield from roles.statements(QualifiedName(*row), roles.MASTER)
        yield from roles.drawing(connection, QualifiedName(*row), roles.MASTER)
    for row in connection.execute(
        select(snapshots.snapshot.c.schema, snapshots.snapshot.c.base_table).order_by(
            "schema", "base_table"
        )
    ):
        yield from roles.statements(QualifiedName(*row), roles.BASE)
