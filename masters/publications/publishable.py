"""Whether a table can be published, and values fit the parameters of its condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from psycopg import DataError, sql
from sqlalchemy import Connection, func, select

from masters import group_schema
from masters.catalog import publication_table
from masters.log import log_function, partition
from masters.log.catalog import find_logs, get_log
from masters.publications import following, template
from masters.publications import sql as sql_files
from masters.publications.errors import BadTemplate, CannotPublish, WrongParameters
from masters.publications.published import Published, PublishedTable
from sites import QualifiedName, names
from sites.catalog import SCHEMA
from sites.sessions.exchange import raw
from sites.tables.table import Table, describe, find_table
from sites.transfer.values import unsized

_FAMILY = (
    "SELECT EXISTS (SELECT FROM pg_inherits i"
    " WHERE i.inhparent = %(table)s OR i.inhrelid = %(table)s)"
)
_POLICIES = (
    "SELECT c.relrowsecurity OR"
    " EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid)"
    " FROM pg_class c WHERE c.oid = %(table)s"
)
#: Whether a text stands for one value of a type in every session. Names of enums do, of
#: which PostgreSQL does not say so.
_FIXED = (
    "SELECT p.provolatile = 'i' OR t.typtype = 'e'"
    " FROM pg_type t JOIN pg_proc p ON p.oid = t.typinput"
    " WHERE t.oid = CAST(%(kind)s AS regtype)"
)


def wanted(
    tables: Sequence[str],
    where: Mapping[str, str],
    columns: Mapping[str, Sequence[str]],
) -> list[PublishedTable]:
    """The tables that a publication is to have, as its owner gives them.

    Raises:
        CannotPublish: there is none, or rows or columns are of another table, or given
            twice.
    """
    chosen = {names.parse(one) for one in tables}
    conditions = names.by_table(where, chosen, CannotPublish)
    some = names.by_table(columns, chosen, CannotPublish)
    if not chosen:
        raise CannotPublish("A publication has at least one table: name it.")
    return [
        PublishedTable(
            table=str(one),
            where=conditions.get(one),
            columns=tuple(some[one]) if one in some else None,
        )
        for one in sorted(chosen)
    ]


def wait_turns(connection: Connection, wanted: Sequence[PublishedTable]) -> None:
    """Wait for those who alter or drop logs, before any table is locked.

    They look for publications in their own turn, and would not see this one.
    """
    log_function.wait_turn(connection, *(names.parse(one.table) for one in wanted))


def fitting(
    connection: Connection,
    publication_id: int,
    one: PublishedTable,
    among: Sequence[PublishedTable],
) -> Published:
    """A table of a publication as its policies need it.

    Parameters:
        among: all tables of the publication.

    Raises:
        UnknownTable, NoSnapshotLog: the table, or its log, is not there.
        CannotPublish, BadTemplate: it cannot be published like that.
    """
    name = names.parse(one.table)
    table, log = describe(connection, name), get_log(connection, name)
    made = Published(
        publication_id=publication_id,
        table=table,
        log=log.log_table,
        identity=tuple(log.identity_columns),
        template=template.read(one.where),
        follows=following.parents(connection, table, one.where, among),
        columns=one.columns,
        since=str(connection.scalar(select(func.pg_current_xact_id()))),
    )
    _refuse_unfit(connection, made)
    known = {*made.identity, *partition.of_log(connection, log.log_table)}
    for column in made.template.columns:
        _refuse_unbound(connection, table, column, known)
    _refuse_columns(made, known)
    return made


def existing(connection: Connection, table: QualifiedName) -> list[QualifiedName]:
    """A published table and its log, as far as they are there."""
    logs = [QualifiedName(SCHEMA, log) for log in find_logs(connection, [table])]
    return [one for one in (table, *logs) if find_table(connection, one)]


def refuse_unfit_values(
    connection: Connection, one: Published, values: Mapping[str, str]
) -> None:
    """Refuse values that the columns of a condition cannot have.

    Raises:
        WrongParameters.
    """
    for column, parameter in one.template.columns.items():
        kind = unsized(one.table.column(column).recorded)
        asked = sql.SQL("SELECT CAST({}::text AS {})::text")
        value = values[parameter]
        try:
            with connection.begin_nested():
                raw(connection).execute(asked.format(sql.Literal(value), sql.SQL(kind)))
        except DataError as error:
            raise WrongParameters(
                f"{parameter}={value} is no value for column {column} of "
                f"{one.table.qualified}, of type {kind}.",
                parameter=parameter,
            ) from error


def refuse_unfit_for_changes(connection: Connection, table: Table) -> None:
    """Refuse a table whose changes would have effects that its policies do not bind.

    Raises:
        CannotPublish.
    """
    found = connection.scalars(sa.text(sql_files.load("reaching")), {"oid": table.oid})
    if why := found.all():
        raise CannotPublish(
            f"Sites cannot change {table.qualified}: {'; '.join(why)}.",
            table=str(table.qualified),
        )


def _refuse_unfit(connection: Connection, one: Published) -> None:
    name, driver = one.table.qualified, raw(connection)
    asked = {"table": one.table.oid}
    why = None
    if one.table.kind != "r" or driver.execute(_FAMILY, asked).fetchone() == (True,):
        why = "has partitions or children, which policies do not reach"
    elif group_schema.versions(connection).get(name) is not None:
        why = "belongs to a replication group"
    elif _is_published(connection, one):
        why = "is in another publication"
    elif not _is_published(connection, one, other=False) and (
        driver.execute(_POLICIES, asked).fetchone() == (True,)
    ):
        why = "has row-level security of its own"
    if why:
        raise CannotPublish(f"{name} cannot be published: it {why}.", table=str(name))


def _refuse_unbound(
    connection: Connection, table: Table, column: str, known: set[str]
) -> None:
    name = table.qualified
    if column not in table.names:
        raise BadTemplate(f"{name} has no column {column}.", table=str(name))
    if column not in known:
        raise BadTemplate(
            f"The log of {name} does not record {column}, so it cannot tell whose rows "
            "have left: declare it a partition column (snaptide log alter SITE "
            f"{name} --partition-columns {column}).",
            table=str(name),
        )
    if not following.is_plain(table.column(column)):
        raise BadTemplate(
            f"Column {column} of {name} is compared by rules of its own "
            "(its collation, or its operator =).",
            table=str(name),
        )
    kind = unsized(table.column(column).recorded)
    if raw(connection).execute(_FIXED, {"kind": kind}).fetchone() != (True,):
        raise BadTemplate(
            f"Column {column} of {name} is of type {kind}: which value a text stands "
            "for depends on settings of the session, which a site makes for itself "
            "(its time zone, for one).",
            table=str(name),
        )


def _refuse_columns(one: Published, known: set[str]) -> None:
    if one.columns is None:
        return
    name = one.table.qualified
    unknown = [column for column in one.columns if column not in one.table.names]
    if unknown:
        raise CannotPublish(
            f"{name} has no column {', '.join(unknown)}.", table=str(name)
        )
    needed = dict.fromkeys(
        (*one.identity, *(c for k in one.follows for c in k.columns))
    )
    missing = [column for column in needed if column not in one.columns]
    if missing:
        raise CannotPublish(
            f"The columns of {name} must include {', '.join(missing)}: they are its "
            "key, or that of a parent that its rows follow.",
            table=str(name),
        )
    told = sorted(known - {*one.columns} - one.template.columns.keys())
    if told:
        raise CannotPublish(
            f"The columns of {name} must include {', '.join(told)}: its log shows "
            "hashes of the values, from which these can be found.",
            table=str(name),
        )


def _is_published(
    connection: Connection, one: Published, *, other: bool = True
) -> bool:
    """Whether a table is in another publication, or in this one."""
    at, name = publication_table.c, one.table.qualified
    this = at.publication_id == one.publication_id
    of = at.table_schema == name.schema, at.table_name == name.name
    found = sa.exists().where(*of, ~this if other else this)
    return bool(connection.scalar(select(found)))
