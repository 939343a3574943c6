"""Making a view anew with other columns, and giving it back what it had of its users.

PostgreSQL replaces a view only by one that has its columns, of the same types. So it is
dropped, with the views that read it, and all of them are created again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg import errors, sql
from sqlalchemy import Connection, text

from sites.errors import StillNeeded
from sites.names import QualifiedName, identifier
from sites.sessions.exchange import raw
from sites.sql import load
from sites.tables import ddl

#: What PostgreSQL says of a view that needs a column, or its former type.
_UNFIT = (
    errors.UndefinedColumn,
    errors.UndefinedFunction,
    errors.DatatypeMismatch,
    errors.CannotCoerce,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """A view as it is before, with the statements that give it what it has."""

    name: QualifiedName
    query: str
    #: each with the column that it is about; None for the view as a whole
    statements: Sequence[tuple[str | None, str]]


@contextmanager
def kept(connection: Connection, view: QualifiedName) -> Iterator[None]:
    """Drop a view that the block creates again: with its owner, rights and comments.

    Views that read it are created again, too. What is kept of a column is lost with
    the column.

    Raises:
        StillNeeded: one of these views uses the column, or has triggers or rules, or
            something else than views depends on one of them.
    """
    main, *others = _views(connection, view)
    for one in reversed([main, *others]):
        with ddl.dropping(f"View {one.name}"):
            ddl.drop_view(connection, one.name)
    yield
    _give_back(connection, main)
    for one in others:
        create = sql.SQL("CREATE VIEW {} AS {}").format(
            identifier(one.name), sql.SQL(one.query)
        )
        try:
            raw(connection).execute(create)
        except _UNFIT as error:
            reason = error.diag.message_primary
            raise StillNeeded(f"View {one.name} uses it: {reason}.") from None
        _give_back(connection, one)


def _views(connection: Connection, view: QualifiedName) -> list[_View]:
    """A view, and those that read it, each after those that it reads.

    Raises:
        StillNeeded: one of them has triggers or rules of users.
    """
    found = connection.execute(text(_READERS), _asked(view)).all()
    made = []
    for schema, name, query, own in found:
        one = QualifiedName(schema, name)
        if own:
            raise StillNeeded(f"View {one} cannot be made anew: it has {own}.")
        rows = connection.execute(text(load("view_again")), _asked(one)).all()
        statements = [(row.about, row.statement) for row in rows]
        made.append(_View(name=one, query=query, statements=statements))
    return made


def _give_back(connection: Connection, view: _View) -> None:
    """Give a new view what it had, and nothing else."""
    asked = _asked(view.name)
    there = {*connection.execute(text(_COLUMNS), asked).scalars()}
    for statement in connection.execute(text(_REVOKED), asked).scalars().all():
        raw(connection).execute(statement)
    for column, statement in view.statements:
        if column is None or column in there:
            raw(connection).execute(statement)


def _asked(view: QualifiedName) -> dict[str, str]:
    return {"view": identifier(view).as_string()}


_READERS = """
WITH RECURSIVE reader AS (
    SELECT CAST(to_regclass(:view) AS oid) AS oid, 0 AS depth
  UNION
    SELECT r.ev_class, o.depth + 1
    FROM reader o
    JOIN pg_depend d ON d.refobjid = o.oid AND d.refclassid = 'pg_class'::regclass
         AND d.classid = 'pg_rewrite'::regclass
    JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_class <> o.oid
)
SELECT n.nspname, c.relname, pg_get_viewdef(c.oid) AS query,
       concat_ws(', ',
           (SELECT string_agg('trigger ' || tgname, ', ') FROM pg_trigger
            WHERE tgrelid = c.oid AND NOT tgisinternal),
           (SELECT string_agg('rule ' || rulename, ', ') FROM pg_rewrite
            WHERE ev_class = c.oid AND rulename <> '_RETURN'),
           CASE WHEN c.relkind <> 'v' THEN 'rows of its own' END) AS own
FROM (SELECT oid, max(depth) AS depth FROM reader GROUP BY oid) AS every
JOIN pg_class c ON c.oid = every.oid
JOIN pg_namespace n ON n.oid = c.relnamespace
ORDER BY every.depth, n.nspname, c.relname
"""

_COLUMNS = """
SELECT attname::text FROM pg_attribute
WHERE attrelid = to_regclass(:view) AND attnum > 0
"""

# Default privileges may have given rights that the view did not have.
_REVOKED = """
SELECT format('REVOKE ALL ON %s FROM %s', c.oid::regclass,
              CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END)
FROM pg_class c, aclexplode(c.relacl) a
WHERE c.oid = to_regclass(:view) AND a.grantee <> c.relowner
GROUP BY c.oid, a.grantee
"""
