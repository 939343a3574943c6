"""The policies that bind what logins of sites read, as statements.

PostgreSQL adds them to every statement of such a login, whatever it asks. They restrict
members of `snaptide_site`; a policy that is always true lets all others see every row,
at no cost to them. Were there one policy for sites and one for others, PostgreSQL would
join them by OR, and use no index for either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from psycopg import sql

from masters.log import partition
from masters.publications.template import Template
from sites import QualifiedName
from sites.catalog import SCHEMA
from sites.names import identifier
from sites.tables.table import Table
from sites.transfer.values import unsized

#: The role whose members are logins of sites; it has no right itself.
ROLE = "snaptide_site"
#: What the names of policies begin with, as `sites/sql/described.sql` knows it.
PREFIX = "snaptide$"
_OTHERS = sql.Identifier(f"{PREFIX}others")
_MINE = sql.Identifier(f"{PREFIX}site")
_ROLE = sql.Identifier(ROLE)

#: What a login may do with tables of ours, and in which rows of them.
_CONTACT = "name = (SELECT snaptide.granted_site()) AND role = 'site'"
_PUBLISHED = "snaptide.is_granted(table_schema, table_name)"
_REGISTERED = f"site_name = (SELECT snaptide.granted_site()) AND {_PUBLISHED}"
_OF_SITE = "{} IN (SELECT p.site_id FROM snaptide.peer p)"
OURS: dict[str, tuple[str, str]] = {
    "peer": ("SELECT, INSERT, UPDATE", _CONTACT),
    "registered_snapshot": ("SELECT, INSERT, UPDATE, DELETE", _REGISTERED),
    "push_marker": ("SELECT", _OF_SITE.format("origin_id")),
    "error_footprint": ("SELECT", "false"),
    "snapshot_log": ("SELECT", _PUBLISHED),
    "site_ddl": ("SELECT", f"{_PUBLISHED} AND NOT withheld"),
    "lens": ("SELECT", _PUBLISHED),
    "group_schema": ("SELECT", _PUBLISHED),
    "second_way": ("SELECT", "false"),
    "image": ("SELECT", "false"),
    "snapshot": ("SELECT", "false"),
}
#: What it may read as a whole: who the master is.
FACTS = ("site_identity", "alembic_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A table of a publication, as its policies need it."""

    publication_id: int
    table: Table
    log: str
    #: the columns that identify its rows
    identity: tuple[str, ...]
    template: Template
    #: the columns that may be read; None for all
    columns: tuple[str, ...] | None
    #: the transaction that makes the policies
    since: str

    @property
    def log_name(self) -> QualifiedName:
        return QualifiedName(SCHEMA, self.log)


def guarding(tables: Iterable[QualifiedName]) -> Iterator[sql.Composed]:
    """The statements that let policies decide, and one that lets all see each row."""
    for name in map(identifier, tables):
        yield sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(name)
        yield sql.SQL("CREATE POLICY {} ON {} USING (true)").format(_OTHERS, name)


def unguarding(tables: Iterable[QualifiedName]) -> Iterator[sql.Composed]:
    """The statements that undo these."""
    for name in map(identifier, tables):
        yield sql.SQL("DROP POLICY IF EXISTS {} ON {}").format(_OTHERS, name)
        yield sql.SQL("ALTER TABLE {} DISABLE ROW LEVEL SECURITY").format(name)


def binding(one: Published) -> Iterator[sql.Composed]:
    """The statements that show logins their rows of a table, and of its log."""
    yield _policy(one, identifier(one.table.qualified), _rows(one))
    yield _policy(one, identifier(one.log_name), _changes(one))


def unbinding(
    publication_id: int, tables: Iterable[QualifiedName]
) -> Iterator[sql.Composed]:
    """The statements that undo these, for tables and logs that are there."""
    for name in map(identifier, tables):
        yield sql.SQL("DROP POLICY IF EXISTS {} ON {}").format(
            _named(publication_id), name
        )


def binding_ours() -> Iterator[sql.Composed]:
    """The statements that show logins their site's rows of tables of ours."""
    yield from guarding(_ours())
    for table, (_, condition) in zip(_ours(), OURS.values(), strict=True):
        yield sql.SQL("CREATE POLICY {} ON {} AS RESTRICTIVE TO {} USING ({})").format(
            _MINE, identifier(table), _ROLE, sql.SQL(condition)
        )


def unbinding_ours() -> Iterator[sql.Composed]:
    """The statements that undo these."""
    for table in _ours():
        yield sql.SQL("DROP POLICY IF EXISTS {} ON {}").format(_MINE, identifier(table))
    yield from unguarding(_ours())


def opening(one: Published, login: str) -> Iterator[sql.Composed]:
    """The statements that give a login its rights on a table and its log."""
    to, name = sql.Identifier(login), identifier(one.table.qualified)
    yield sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(
        sql.Identifier(one.table.schema), to
    )
    if one.columns is None:
        yield sql.SQL("GRANT SELECT ON {} TO {}").format(name, to)
    else:
        # A refresh of all rows reads them page by page.
        read = dict.fromkeys(("ctid", *one.columns))
        columns = sql.SQL(", ").join(map(sql.Identifier, read))
        # A refresh locks the table against DDL, for which PostgreSQL wants a right on
        # the whole of it. No policy lets a login insert any row.
        yield sql.SQL("GRANT SELECT ({}), INSERT ON {} TO {}").format(columns, name, to)
    yield sql.SQL("GRANT SELECT ON {} TO {}").format(identifier(one.log_name), to)


def closing(tables: Iterable[QualifiedName], login: str) -> Iterator[sql.Composed]:
    """The statements that take rights on tables away; that on the schema stays."""
    for name in map(identifier, tables):
        yield sql.SQL("REVOKE ALL ON {} FROM {}").format(name, sql.Identifier(login))


def opening_ours(login: str) -> Iterator[sql.Composed]:
    """The statements that give a login its rights on tables of ours."""
    to = sql.Identifier(login)
    # Policies bind those who inherit, which a role made with NOINHERIT does not by
    # itself. By SET ROLE it would be a member of none.
    yield sql.SQL("GRANT {}, snaptide_apply TO {} WITH INHERIT TRUE, SET FALSE").format(
        _ROLE, to
    )
    for name, (rights, _) in OURS.items():
        yield sql.SQL("GRANT {} ON {} TO {}").format(
            sql.SQL(rights), sql.Identifier(SCHEMA, name), to
        )
    for name in FACTS:
        yield sql.SQL("GRANT SELECT ON {} TO {}").format(
            sql.Identifier(SCHEMA, name), to
        )


def closing_ours(login: str) -> Iterator[sql.Composed]:
    """The statements that take these rights away; the login stays in its roles."""
    return closing(_ours(*OURS, *FACTS), login)


def _ours(*names: str) -> list[QualifiedName]:
    return [QualifiedName(SCHEMA, name) for name in names or OURS]


def _named(publication_id: int) -> sql.Identifier:
    return sql.Identifier(f"{PREFIX}{publication_id}")


def _policy(
    one: Published, table: sql.Composable, condition: sql.Composable
) -> sql.Composed:
    return sql.SQL(
        "CREATE POLICY {} ON {} AS RESTRICTIVE TO {}"
        " USING ((SELECT snaptide.granted({}) IS NOT NULL){}) WITH CHECK (false)"
    ).format(
        _named(one.publication_id),
        table,
        _ROLE,
        sql.Literal(one.publication_id),
        condition,
    )


def _rows(one: Published) -> sql.Composed:
    """Whether a row of the table is the login's."""
    return sql.SQL("").join(
        sql.SQL(" AND {} = (SELECT {})").format(
            sql.Identifier(column), _value(one, column)
        )
        for column in one.template
    )


def _changes(one: Published) -> sql.Composable:
    """Whether a row of the log is about a row that is the login's, or was.

    A mark of a TRUNCATE is everybody's. A row from before the policy is nobody's if its
    values are not known: whoever is granted a table compares all of it first. A later
    one is everybody's, because a site that does not see it would miss a row that left.
    """
    if not one.template:
        return sql.SQL("")
    return sql.SQL("").join(
        sql.SQL(" AND ") + _logged(one, column) for column in one.template
    )


def _logged(one: Published, column: str) -> sql.Composed:
    if column in one.identity:
        key = sql.Identifier(f"k{one.identity.index(column) + 1}")
        return sql.SQL("({} = (SELECT {}) OR kind = 'T')").format(
            key, _value(one, column)
        )
    kind = unsized(one.table.column(column).recorded)
    # The first part is for the index; a mark of a TRUNCATE has no values.
    return sql.SQL(
        "{0} = ANY (ARRAY[{2}, (SELECT {1})])"
        " AND ({0} <> {2} OR kind = 'T' OR xid >= {3}::xid8)"
    ).format(
        sql.Identifier(partition.PREFIX + column),
        partition.hashed(kind, _value(one, column)),
        sql.Literal(partition.UNKNOWN),
        sql.Literal(one.since),
    )


def _value(one: Published, column: str) -> sql.Composed:
    return sql.SQL("CAST(snaptide.granted({}) ->> {} AS {})").format(
        sql.Literal(one.publication_id),
        sql.Literal(one.template[column]),
        sql.SQL(unsized(one.table.column(column).recorded)),
    )
