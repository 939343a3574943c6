"""Which rows of a published table, and of its log, are a login's: parts of policies.

Subqueries of a policy are bound by the policies of the tables that they read. So a row
is the login's if it sees the parent: what that follows is asked by its own policy.
"""

from __future__ import annotations

from collections.abc import Iterator

from psycopg import sql

from masters.log import partition
from masters.publications.published import Followed, Published
from sites.names import comma, identifier
from sites.transfer.values import unsized


def granted(one: Published) -> sql.Composed:
    """Whether a row of the table is the login's."""
    values = [
        sql.SQL(" AND {} = (SELECT {})").format(
            sql.Identifier(column), _value(one, column)
        )
        for column in one.template.columns
    ]
    parents = [sql.SQL(" AND ") + _parent(one, key) for key in one.follows]
    return sql.SQL("").join([*values, *parents])


def changed(one: Published) -> sql.Composed:
    """Whether a row of the log is about a row that is the login's, or was.

    A mark of a TRUNCATE is everybody's. A row from before the policy is nobody's if its
    values are not known: whoever is granted a table compares all of it first. A later
    one is everybody's, because a site that does not see it would miss a row that left.

    A row that left with its parent is not here: the log of the parent has that one, and
    refreshes look for what followed it.
    """
    values = [_logged(one, column) for column in one.template.columns]
    parents = [_logged_parent(one, key) for key in one.follows]
    return sql.SQL("").join(sql.SQL(" AND ") + part for part in [*values, *parents])


def _parent(one: Published, key: Followed) -> sql.Composed:
    """Whether the login sees the parent of a row."""
    table, alias = one.table.qualified, sql.Identifier("snaptide$parent")
    same = [
        sql.SQL("{}.{} = {}").format(
            alias,
            sql.Identifier(theirs),
            sql.Identifier(table.schema, table.name, mine),
        )
        for mine, theirs in key.pairs
    ]
    return sql.SQL("EXISTS (SELECT FROM {} AS {} WHERE {})").format(
        identifier(key.parent.qualified), alias, sql.SQL(" AND ").join(same)
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


def _logged_parent(one: Published, key: Followed) -> sql.Composed:
    """Whether the login sees the parent that a row had when it was logged.

    PostgreSQL reads the keys of the parents once, if there is a row to compare.
    """
    mine: list[sql.Composable] = []
    theirs: list[sql.Composable] = []
    unknown: list[sql.Composable] = [sql.SQL("kind = 'T'")]
    for column, of_parent in key.pairs:
        place = sql.Identifier("snaptide$parent", of_parent)
        if column in one.identity:
            mine.append(sql.Identifier(f"k{one.identity.index(column) + 1}"))
            theirs.append(place)
            continue
        kind = unsized(one.table.column(column).recorded)
        hashed = sql.Identifier(partition.PREFIX + column)
        mine.append(hashed)
        theirs.append(partition.hashed(kind, place))
        unknown.append(
            sql.SQL("({} = {} AND xid >= {}::xid8)").format(
                hashed, sql.Literal(partition.UNKNOWN), sql.Literal(one.since)
            )
        )
    return sql.SQL("({} OR ({}) IN (SELECT {} FROM {}))").format(
        sql.SQL(" OR ").join(unknown), comma(mine), comma(theirs), _parents(key)
    )


def _parents(key: Followed) -> sql.Composed:
    """The parents, joined with what they follow: to read few rows, not to bind them."""
    alias = "snaptide$parent"
    first = sql.SQL("{} AS {}").format(
        identifier(key.parent.qualified), sql.Identifier(alias)
    )
    return sql.SQL(" ").join([first, *_above(key, alias)])


def _above(key: Followed, alias: str) -> Iterator[sql.Composed]:
    for number, above in enumerate(key.above):
        its = f"{alias}{number}"
        same = [
            sql.SQL("{} = {}").format(
                sql.Identifier(its, theirs), sql.Identifier(alias, mine)
            )
            for mine, theirs in above.pairs
        ]
        yield sql.SQL("JOIN {} AS {} ON {}").format(
            identifier(above.parent.qualified),
            sql.Identifier(its),
            sql.SQL(" AND ").join(same),
        )
        yield from _above(above, its)


def _value(one: Published, column: str) -> sql.Composed:
    return sql.SQL("CAST(snaptide.granted({}) ->> {} AS {})").format(
        sql.Literal(one.publication_id),
        sql.Literal(one.template.columns[column]),
        sql.SQL(unsized(one.table.column(column).recorded)),
    )
