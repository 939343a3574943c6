"""Runs DDL at a master, and has the sites of its tables follow."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from psycopg import sql
from psycopg.errors import Error, LockNotAvailable
from sqlalchemy import ARRAY, Connection, Text, func, select

from masters.catalog import (
    group_schema,
    registered_snapshot,
    snapshot_log,
)
from masters.catalog import (
    site_ddl as ddl_catalog,
)
from masters.errors import DdlRefused
from masters.log import site_ddl
from sites import QualifiedName, Site, faults
from sites.sessions import identity
from sites.tables import locks
from sites.tables.table import Glance, describe, glance, with_tuples
from sites.transfer.transport import raw
from sites.writing.triggered import users_search_path


@dataclass(frozen=True, slots=True, kw_only=True)
class DdlReport:
    """What sites will do because of DDL at their master."""

    master: str
    #: the tables whose columns were added, renamed or dropped
    tables: tuple[str, ...]
    #: the sites that have snapshots of them
    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastDdl:
    """DDL that sites have followed, or will by their next refresh."""

    at: datetime
    tables: tuple[str, ...]
    statements: str
    #: the sites that have snapshots of the tables and have not refreshed them since
    sites: tuple[str, ...]


def list_ddl(master: Site) -> list[PastDdl]:
    """The DDL that a master has for its sites, the latest first.

    Raises:
        SiteUnreachable, SiteChanged: the master is away or another database.
    """
    with identity.confirmed(master) as connection:
        found = connection.execute(_PAST).all()
    return [PastDdl(**with_tuples(row._mapping)) for row in found]


def execute_ddl(master: Site, statements: str) -> DdlReport:
    """Run DDL at a master, and have sites make their snapshots' columns the same.

    Columns that are added, renamed or dropped come, get the name or go at each site by
    its next refresh, before rows are written there, however long it was away and
    whatever else was changed meanwhile (Virtuoso: DDL in publications). What a site has
    queued before is pushed as `snapshots.alter_columns` does it.

    Tables of a replication group are changed by `groups.execute_ddl`.

    Parameters:
        statements: SQL, as a user with the usual search path would write it.

    Raises:
        DdlRefused: PostgreSQL refuses a statement, no column of a table with a snapshot
            log is another one afterwards, or sites could not follow; nothing was
            changed.
        SiteUnreachable, SiteChanged: the master is away or another database.
    """
    for attempt in locks.patiently():
        with attempt, master.transaction() as connection:
            identity.confirm(connection, master.name)
            locks.briefly(connection)
            with following(connection, uuid.uuid4(), statements) as tables:
                run(connection, master.name, statements)
            refuse_nothing(tables)
            report = DdlReport(
                master=master.name,
                tables=tuple(map(str, tables)),
                sites=_sites(connection, tables),
            )
            _refuse_of_group(connection, tables)
            faults.point("site_ddl.before_commit")
    return report


@contextmanager
def following(
    connection: Connection, id_: uuid.UUID, statements: str
) -> Iterator[list[QualifiedName]]:
    """Have sites follow what the block does to columns of tables with a log.

    Parameters:
        id_: of the entries, the same at all masters of a group.
        statements: what the block runs, for those who look at the entries.

    Returns:
        The tables with other columns; filled by the end of the block.

    Raises:
        DdlRefused: sites could not follow.
    """
    before = _logged(connection)
    changed: list[QualifiedName] = []
    yield changed
    after = _logged(connection)
    for table in sorted(before.keys() & after.keys()):
        columns, added = _changed(connection, table, before[table], after[table])
        if columns:
            now = describe(connection, table)
            site_ddl.note(connection, id_, now, columns, added, statements)
            changed.append(table)


def refuse_nothing(tables: Collection[QualifiedName]) -> None:
    """Refuse DDL for sites that changes none of their columns.

    Raises:
        DdlRefused: there is no such table.
    """
    if not tables:
        raise DdlRefused(
            "No table with a snapshot log has other columns afterwards, so there is "
            "nothing for sites to follow."
        )


def run(connection: Connection, master: str, statements: str) -> None:
    """Run statements in a DO block, where they cannot end the transaction.

    Raises:
        DdlRefused: PostgreSQL refuses one.
    """
    driver = raw(connection)
    block = sql.SQL("BEGIN EXECUTE {}; END").format(sql.Literal(statements))
    try:
        with users_search_path(connection):
            driver.execute(
                sql.SQL("DO {}").format(sql.Literal(block.as_string(driver)))
            )
    except LockNotAvailable:
        raise  # to be tried again
    except Error as error:
        reason = error.diag.message_primary or str(error)
        raise DdlRefused(f"{master}: {reason}", master=master) from error


def _logged(connection: Connection) -> Mapping[QualifiedName, Glance]:
    at = snapshot_log.c
    found = connection.execute(select(at.table_schema, at.table_name))
    return glance(connection, [QualifiedName(*row) for row in found], [])


def _changed(
    connection: Connection, table: QualifiedName, before: Glance, after: Glance
) -> tuple[set[int], set[int]]:
    """The numbers of the columns that are others than before, and of those added.

    Raises:
        DdlRefused: they could not, or would lose changes that wait there.
    """
    then, now = _by_number(before), _by_number(after)
    changed = {n for n in then.keys() | now.keys() if then.get(n) != now.get(n)}
    if changed:
        _refuse_key(connection, table, {then[n][0] for n in changed & then.keys()})
        for number in changed & then.keys() & now.keys():
            if then[number][1] != now[number][1]:
                raise _refused(
                    connection,
                    table,
                    f"column {now[number][0]} gets another type, collation or "
                    "expression",
                )
        _refuse_unfit(connection, table, changed - then.keys())
    return changed, changed - then.keys()


def _by_number(seen: Glance) -> dict[int, tuple[str, str]]:
    """The name and the state of each column, by its number."""
    return {
        int(state.partition(" ")[0]): (name, state)
        for name, state in seen.columns.items()
    }


def _refuse_key(connection: Connection, table: QualifiedName, names: set[str]) -> None:
    at = snapshot_log.c
    key = connection.scalar(
        select(at.identity_columns).where(
            at.table_schema == table.schema, at.table_name == table.name
        )
    )
    if its := names & {*(key or ())}:
        what = f"column {', '.join(sorted(its))} identifies its rows"
        raise _refused(connection, table, what)


def _refuse_unfit(connection: Connection, table: QualifiedName, new: set[int]) -> None:
    """Refuse new columns that sites cannot add, or their rows have no value for."""
    writable = bool(_of_table(connection, table, updatable=True))
    for column in describe(connection, table).columns:
        if column.number not in new:
            continue
        if column.generated:
            why = f"column {column.name} is generated"
            raise _refused(connection, table, why)
        is_domain = column.type != column.recorded
        if column.checked or (is_domain and not column.takes_null):
            why = f"the domain of column {column.name} checks its values"
            raise _refused(connection, table, why)
        has_value = column.default is not None or column.identity
        if writable and not column.nullable and not has_value:
            why = f"column {column.name} is NOT NULL and has no default"
            raise _refused(connection, table, why, updatable=True)


def _refuse_of_group(connection: Connection, tables: list[QualifiedName]) -> None:
    at = group_schema.c
    found = {
        QualifiedName(*row)
        for row in connection.execute(select(at.table_schema, at.table_name))
    }
    if its := found & {*tables}:
        raise DdlRefused(
            f"{', '.join(map(str, sorted(its)))} is in a replication group: "
            "snaptide group execute-ddl --and-sites changes it at all masters."
        )


def _refused(
    connection: Connection, table: QualifiedName, why: str, *, updatable: bool = False
) -> DdlRefused:
    sites = _of_table(connection, table, updatable=updatable)
    whose = f" ({', '.join(sites)})" if sites else ""
    return DdlRefused(
        f"Sites{whose} cannot follow this DDL of {table}: {why}.",
        table=str(table),
        sites=list(sites),
    )


def _sites(connection: Connection, tables: list[QualifiedName]) -> tuple[str, ...]:
    found = {one for table in tables for one in _of_table(connection, table)}
    return tuple(sorted(found))


def _of_table(
    connection: Connection, table: QualifiedName, *, updatable: bool = False
) -> tuple[str, ...]:
    """The sites that have snapshots of a table."""
    at = registered_snapshot.c
    wanted = select(at.site_name).where(
        at.table_schema == table.schema, at.table_name == table.name
    )
    if updatable:
        wanted = wanted.where(at.updatable)
    return tuple(connection.scalars(wanted.distinct().order_by(at.site_name)))


def _past() -> sa.Select[tuple[datetime, list[str], str, list[str]]]:
    at, seen = ddl_catalog.c, registered_snapshot.c
    behind = sa.and_(
        seen.table_schema == at.table_schema,
        seen.table_name == at.table_name,
        sa.func.coalesce(seen.refreshed_at < at.made_at, sa.true()),
    )
    name = func.concat(
        sa.case((at.table_schema == "public", ""), else_=at.table_schema + "."),
        at.table_name,
    )
    sites = func.array_agg(seen.site_name.distinct())
    return (
        select(
            at.made_at.label("at"),
            func.array_agg(name.distinct()).label("tables"),
            at.statements,
            func.coalesce(
                sites.filter(seen.site_name.is_not(None)), sa.cast([], ARRAY(Text))
            ).label("sites"),
        )
        .select_from(ddl_catalog.outerjoin(registered_snapshot, behind))
        .group_by(at.id, at.made_at, at.statements)
        .order_by(at.made_at.desc())
    )


_PAST = _past()
