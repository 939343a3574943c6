"""Runs the statements that `policies` builds, and binds tables of ours by them."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy import Connection, select

from masters.catalog import publication
from masters.publications import policies
from sites.sessions.exchange import raw


def run(connection: Connection, statements: Iterable[sql.Composed]) -> None:
    """Run statements, one after the other."""
    for statement in statements:
        raw(connection).execute(statement)


def open_role(connection: Connection) -> None:
    """Make the role of logins, and bind tables of ours, before the first publication.

    Does nothing if the master has a publication.
    """
    if connection.scalar(select(sa.exists().select_from(publication))):
        return
    made = sql.SQL(
        "DO $$ BEGIN IF to_regrole({}) IS NULL THEN CREATE ROLE {} NOLOGIN;"
        " END IF; END $$"
    )
    role = sql.Literal(policies.ROLE), sql.Identifier(policies.ROLE)
    run(connection, [made.format(*role)])
    run(connection, policies.binding_ours())


def bind_ours(connection: Connection) -> None:
    """Bind tables of ours as this version does, if an earlier one has bound them."""
    if raw(connection).execute(policies.BOUND).fetchone() != (True,):
        run(connection, policies.unbinding_ours())
        run(connection, policies.binding_ours())
