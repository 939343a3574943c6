"""What a publication of the master lets a site do, where its user is a login of a site.

The master enforces that in any case. Here it is said before a snapshot is made that
could not be refreshed or pushed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, text

from sites.conditions import subqueries, where
from sites.conditions.subqueries import Parts, Subquery, Unreadable
from sites.conditions.where import Condition
from sites.names import QualifiedName
from sites.tables.table import Table
from snapshots.definitions.errors import BeyondGrant
from snapshots.definitions.snapshot import Snapshot

#: A parent, and the columns that refer to it, each with the one of it that is equal.
Reference = tuple[QualifiedName, frozenset[tuple[str, str]]]

#: By table that is granted, the parents that its rows follow.
Follows = Mapping[QualifiedName, frozenset[Reference]]

_GRANTED = text(
    "SELECT ARRAY(SELECT c FROM unnest(CAST(:columns AS text[])) c"
    " WHERE NOT has_column_privilege(CAST(:table AS oid), c, 'SELECT')) AS unreadable,"
    " has_table_privilege(CAST(:table AS oid), 'DELETE') AS updatable FROM pg_roles"
    " WHERE rolname = 'snaptide_site' AND pg_has_role(oid, 'USAGE')"
)
#: Whether the master can say what rows follow; no row if the user is no such login.
_SAYS_MORE = text(
    "SELECT to_regprocedure('snaptide.granted_follows()') IS NOT NULL FROM pg_roles"
    " WHERE rolname = 'snaptide_site' AND pg_has_role(oid, 'USAGE')"
)
_FOLLOWS = text("SELECT snaptide.granted_follows()")


def refuse_beyond(
    connection: Connection, table: Table, columns: Sequence[str], *, updatable: bool
) -> None:
    """Refuse a snapshot that needs more than the master grants to its site.

    Parameters:
        connection: to the master. Any other user's rights are not asked for here.

    Raises:
        BeyondGrant: a column may not be read; or it is to be updatable, and the grant
            is not.
    """
    # A superuser is a member of every role, and bound by no policy.
    if not table.divided:
        return
    asked = {"columns": [*columns], "table": table.oid}
    granted = connection.execute(_GRANTED, asked).one_or_none()
    if granted is None:
        return
    wanted = [f"column {one}" for one in granted.unreadable]
    wanted += ["changes of rows"] if updatable and not granted.updatable else []
    if wanted:
        raise BeyondGrant(
            f"The master does not grant to this site, of {table.qualified}: "
            f"{', '.join(wanted)}.",
            table=str(table.qualified),
        )


def checked(
    connection: Connection, table: Table, condition: str | None
) -> Condition | None:
    """Have the master check the condition of a snapshot, and print it.

    PostgreSQL checks it with temporary tables, which a login of a site may not make.
    The publication chooses the rows of such a site, and the condition says only which
    parents they follow, in the form that `follow.composed` writes.

    Raises:
        BadCondition: as `where.canonical`.
        BeyondGrant: the site is granted rows that follow other parents, or it asks for
            anything else.
    """
    name = table.qualified
    its = follows(connection) if table.divided else None
    if its is None:
        return (
            None if condition is None else where.canonical(connection, name, condition)
        )
    try:
        parts = subqueries.parts(condition, name)
    except Unreadable:
        parts = None
    if parts is None or not _is_followed(name, parts, its):
        raise _refused(name, its)
    return None if condition is None else _followed(name, condition, parts)


def refuse_others(master: Connection, snapshots: Iterable[Snapshot]) -> None:
    """Refuse snapshots that follow other parents than the master says.

    Rows that leave with a parent are in the log of the parent alone, and rows that a
    condition leaves out and the grant does not would look deleted.

    Raises:
        BeyondGrant.
    """
    its = follows(master)
    for one in snapshots:
        if its is not None and not _is_followed(one.master, one.parts, its):
            raise _refused(one.master, its, one.key)


def follows(master: Connection) -> Follows | None:
    """What granted rows follow; None if the user is no login of a site."""
    says_more = master.scalar(_SAYS_MORE)
    if says_more is None:
        return None
    found = master.scalar(_FOLLOWS) if says_more else None
    return {
        QualifiedName(*one["table"]): frozenset(
            (
                QualifiedName(*key["table"]),
                frozenset(zip(key["columns"], key["parent_columns"], strict=True)),
            )
            for key in one["follows"]
        )
        for one in found or ()
    }


def _is_followed(table: QualifiedName, parts: Parts | Subquery, its: Follows) -> bool:
    """Whether a condition asks for the parents that rows follow, up to the top."""
    asked = [
        (one.table, frozenset(zip(one.columns, one.key, strict=True)))
        for one in parts.subqueries
        if one.required
    ]
    return (
        not parts.leaves
        and len({*asked}) == len(parts.subqueries)
        and {*asked} == its.get(table, frozenset())
        and all(_is_followed(one.table, one, its) for one in parts.subqueries)
    )


def _followed(table: QualifiedName, condition: str, parts: Parts) -> Condition:
    columns = {table: tuple(c for one in parts.subqueries for c in one.columns)}
    for one in parts.every():
        columns[one.table] = (*columns.get(one.table, ()), *sorted(one.uses))
    return Condition(text=condition, columns=columns, parts=parts)


def _refused(table: QualifiedName, its: Follows, key: str | None = None) -> BeyondGrant:
    parents = sorted(str(parent) for parent, _ in its.get(table, ()))
    needed = " ".join(f"--follow {one}" for one in parents) or "no condition"
    whose = f"{key} chooses its rows itself" if key else "it has another condition"
    return BeyondGrant(
        f"The master chooses the rows of {table} that it grants to this site, and "
        f"{whose}: a snapshot of them has {needed}.",
        table=str(table),
        follow=parents,
    )
