"""Which procedures of a site's database calls from other sites may run there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from deferred.catalog import allowed_procedure
from deferred.errors import ProcedureNotAllowed, UnknownProcedure
from sites import QualifiedName, Site, names
from sites.sessions import identity

_KINDS = sa.text(
    "SELECT DISTINCT p.prokind FROM pg_catalog.pg_proc p"
    " JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
    " WHERE n.nspname = :schema AND p.proname = :name AND p.prokind IN ('p', 'f')"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedProcedure:
    """A procedure or function that calls from other sites may run."""

    name: str
    allowed_by: str
    allowed_at: datetime
    #: False if it was dropped since
    present: bool


def allow_procedure(site: Site, name: str) -> AllowedProcedure:
    """Let calls from other sites run a procedure or function of a site's database.

    This allows all procedures and functions of the name, with any arguments, including
    later ones. They run with the rights of the role that pushes, or of their owner if
    they are SECURITY DEFINER.

    Parameters:
        name: `procedure` or `schema.procedure`, as names of tables are written.

    Raises:
        UnknownProcedure: the database has none of that name.
        BadName: it is not a valid name.
    """
    procedure = names.parse(name)
    with identity.initialised(site) as connection:
        if not kinds(connection, procedure):
            raise UnknownProcedure(
                f"Site {site.name} has no procedure {procedure}.",
                procedure=str(procedure),
            )
        connection.execute(
            insert(allowed_procedure)
            .values(schema_name=procedure.schema, procedure_name=procedure.name)
            .on_conflict_do_nothing()
        )
        found = select(allowed_procedure).where(_is(procedure))
        return _described(connection, connection.execute(found).one())


def revoke_procedure(site: Site, name: str) -> bool:
    """Forbid calls from other sites to run a procedure; return whether it was allowed.

    Raises:
        BadName: it is not a valid name.
    """
    procedure = names.parse(name)
    with identity.initialised(site) as connection:
        gone = connection.execute(sa.delete(allowed_procedure).where(_is(procedure)))
        return gone.rowcount > 0


def list_procedures(site: Site) -> list[AllowedProcedure]:
    """The procedures and functions that calls from other sites may run, by name."""
    with identity.initialised(site) as connection:
        rows = connection.execute(
            select(allowed_procedure).order_by("schema_name", "procedure_name")
        ).all()
        return [_described(connection, row) for row in rows]


def refuse(connection: Connection, procedure: QualifiedName) -> None:
    """Refuse a procedure that calls from other sites may not run.

    The login of a site that is granted a publication may run none: nothing would bind
    what it does to the rows of the site. A policy shows it an empty list.

    Raises:
        ProcedureNotAllowed: it is not on the list.
    """
    if not connection.scalar(select(sa.exists().where(_is(procedure)))):
        raise ProcedureNotAllowed(
            f"{procedure} is not allowed to run here.", procedure=str(procedure)
        )


def kinds(connection: Connection, procedure: QualifiedName) -> Sequence[str]:
    """The kinds of routines with that name: p a procedure, f a function, or both."""
    named = {"schema": procedure.schema, "name": procedure.name}
    return connection.scalars(_KINDS, named).all()


def _is(procedure: QualifiedName) -> sa.ColumnElement[bool]:
    return sa.and_(
        allowed_procedure.c.schema_name == procedure.schema,
        allowed_procedure.c.procedure_name == procedure.name,
    )


def _described(
    connection: Connection, row: sa.Row[*tuple[object, ...]]
) -> AllowedProcedure:
    procedure = QualifiedName(row.schema_name, row.procedure_name)
    return AllowedProcedure(
        name=str(procedure),
        allowed_by=row.allowed_by,
        allowed_at=row.allowed_at,
        present=bool(kinds(connection, procedure)),
    )
