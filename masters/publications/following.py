"""Finds the parents that rows of a published table follow, and whether they can."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from masters.log import partition
from masters.log.catalog import get_log
from masters.publications import template
from masters.publications.errors import BadTemplate
from masters.publications.published import Followed, PublishedTable
from sites import QualifiedName, names
from sites.tables import named_key
from sites.tables.named_key import NotOneKey
from sites.tables.table import Column, ForeignKey, Table, describe
from sites.transfer.values import unsized

#: Types whose equal values have one hash in logs, by the first of them.
_SAME = {"smallint": "bigint", "integer": "bigint", "character varying": "text"}


def parents(
    connection: Connection,
    table: Table,
    text: str | None,
    among: Sequence[PublishedTable],
    below: tuple[QualifiedName, ...] = (),
) -> tuple[Followed, ...]:
    """The parents that a condition follows, and what these follow, up to the top.

    Parameters:
        text: the condition of the table.
        among: the tables of the publication.
        below: the tables that follow this one.

    Raises:
        BadTemplate: there is no such foreign key, or the master cannot bind it.
    """
    found = []
    path = (*below, table.qualified)
    for name in template.read(text).follows:
        key = _named(table, name)
        one = _published(key, table, among)
        if key.parent in path:
            raise _refused(table, key, "which follows it in turn")
        parent = describe(connection, key.parent)
        _refuse_unlogged(connection, table, key)
        _refuse_unlike(table, key, parent)
        found.append(
            Followed(
                reference=name,
                parent=parent,
                above=parents(connection, parent, one.where, among, path),
                columns=key.columns,
                parent_columns=key.parent_columns,
            )
        )
    return tuple(found)


def _named(table: Table, name: str) -> ForeignKey:
    try:
        return named_key.named(table, name)
    except NotOneKey as error:
        raise BadTemplate(str(error), table=str(table.qualified)) from None


def _published(
    key: ForeignKey, table: Table, among: Sequence[PublishedTable]
) -> PublishedTable:
    for one in among:
        if names.parse(one.table) == key.parent:
            return one
    raise _refused(table, key, "which is not in this publication")


def _refuse_unlogged(connection: Connection, table: Table, key: ForeignKey) -> None:
    """Refuse a reference that logs do not tell.

    The log of the parent has to name it by the columns that the reference has, so that
    refreshes find what followed it; and the log of the table has to record the
    reference, so that they find what has got another parent.
    """
    its = get_log(connection, key.parent)
    if {*its.identity_columns} != {*key.parent_columns}:
        raise _refused(
            table, key, f"whose log has {', '.join(its.identity_columns)} as its key"
        )
    log = get_log(connection, table.qualified)
    known = {*log.identity_columns, *partition.of_log(connection, log.log_table)}
    missing = [column for column in key.columns if column not in known]
    if missing:
        raise BadTemplate(
            f"The log of {table.qualified} does not record {', '.join(missing)}, so it "
            "cannot tell which rows have got another parent: declare partition columns "
            f"(snaptide log alter SITE {table.qualified} --partition-columns "
            f"{','.join(missing)}).",
            table=str(table.qualified),
        )


def _refuse_unlike(table: Table, key: ForeignKey, parent: Table) -> None:
    """Refuse columns that are equal where their hashes are not."""
    for mine, theirs in zip(key.columns, key.parent_columns, strict=True):
        one, other = table.column(mine), parent.column(theirs)
        if _kind(one) != _kind(other) or not (is_plain(one) and is_plain(other)):
            raise _refused(
                table,
                key,
                f"whose {theirs} is compared with {mine} by rules of its own",
            )


def _kind(column: Column) -> str:
    kind = unsized(column.recorded)
    return _SAME.get(kind, kind)


def is_plain(column: Column) -> bool:
    """Whether equal values of a column are equal in every comparison."""
    return column.deterministic and column.equality is None


def _refused(table: Table, key: ForeignKey, why: str) -> BadTemplate:
    return BadTemplate(
        f"{table.qualified} cannot follow {key.parent} ({', '.join(key.columns)}), "
        f"{why}.",
        table=str(table.qualified),
    )
