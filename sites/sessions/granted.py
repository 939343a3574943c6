"""What a site's login at a master was granted, and to a site of which name."""

from __future__ import annotations

from collections.abc import Iterable

from psycopg.errors import InsufficientPrivilege, UndefinedFunction, UndefinedObject
from sqlalchemy import Connection, text
from sqlalchemy.exc import ProgrammingError

from sites.errors import NotGranted
from sites.names import QualifiedName
from sites.sessions.identity import Identity

_GRANTED = text("SELECT session_user::text, snaptide.granted_site()")


def refuse_other_name(master: Connection, site: Identity, name: str) -> None:
    """Refuse a login that was granted to a site of another name.

    The policies of the master show the login only what is known of the other site. So
    site and master would seem not to remember each other.

    Parameters:
        master: in autocommit, or of this program's revision: an older one may lack the
            function that is asked.
        site: the site that connects.
        name: the name of the master.

    Raises:
        NotGranted: the login is another site's.
    """
    try:
        login, granted = master.execute(_GRANTED).one()
    except ProgrammingError as error:
        if isinstance(error.orig, UndefinedFunction):
            return
        raise
    if granted not in (None, site.name):
        raise NotGranted(
            f"{login}, as which this site connects to {name}, is the login of site "
            f"{granted}, but this site is called {site.name}. If both names mean this "
            f"site, run at {name}: snaptide revoke {name} PUBLICATION {granted}, then "
            f"snaptide grant {name} PUBLICATION {site.name} --login {login}; else have "
            f"the URL of {name} name the login of {site.name}.",
            site=site.name,
            granted=granted,
        )


_UNREADABLE = text(
    "SELECT n.nspname, c.relname"
    " FROM unnest(CAST(:schemas AS text[]), CAST(:names AS text[])) t (schema, name)"
    " JOIN pg_namespace n ON n.nspname = t.schema"
    " JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.name"
    " WHERE NOT (has_schema_privilege(n.oid, 'USAGE')"
    "            AND has_any_column_privilege(c.oid, 'SELECT')) ORDER BY 1, 2"
)


def unreadable(
    master: Connection, tables: Iterable[QualifiedName]
) -> list[QualifiedName]:
    """Those of these tables that are there, and of which our user may read nothing."""
    asked = sorted({*tables})
    values = {
        "schemas": [one.schema for one in asked],
        "names": [one.name for one in asked],
    }
    return [QualifiedName(*row) for row in master.execute(_UNREADABLE, values)]


_HIDDEN = text(
    "SELECT attname::text FROM pg_attribute WHERE attrelid = :oid AND attnum > 0"
    " AND NOT attisdropped AND NOT has_column_privilege(attrelid, attnum, 'SELECT')"
)


def hidden_columns(master: Connection, oid: int) -> set[str]:
    """The columns of a table that our user may not read."""
    return set(master.scalars(_HIDDEN, {"oid": oid}))


_WAS_GRANTED = text(
    "SELECT snaptide.granted_site() AS site FROM pg_roles"
    " WHERE rolname = session_user AND NOT rolsuper"
    " AND pg_has_role(oid, 'snaptide_site', 'USAGE') AND EXISTS (SELECT"
    "   FROM pg_namespace n, aclexplode(n.nspacl) given"
    "   WHERE n.nspname = ANY (CAST(:schemas AS text[]))"
    "   AND given.grantee = pg_roles.oid)"
)


def taken_back(
    master: Connection, name: str, tables: Iterable[QualifiedName]
) -> list[QualifiedName]:
    """Those of these tables that were granted to a site's login, and are no more.

    A revoke leaves the right to use the schema, which a login has in this database only
    if it once had a grant. One that has got another site's grants says nothing of this
    one's.

    Parameters:
        name: of the site that connects.
    """
    try:
        schemas = sorted({one.schema for one in tables})
        row = master.execute(_WAS_GRANTED, {"schemas": schemas}).one_or_none()
    except ProgrammingError as error:
        if isinstance(error.orig, _NEVER_GRANTED):
            return []
        raise
    if row is None or row.site not in (None, name):
        return []
    return unreadable(master, tables)


#: There is no such function, role or right to call it.
_NEVER_GRANTED = (UndefinedFunction, UndefinedObject, InsufficientPrivilege)
