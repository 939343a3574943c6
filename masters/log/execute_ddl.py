"""Runs DDL at a master, and has the sites of its tables follow."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from psycopg.errors import Error, LockNotAvailable
from sqlalchemy import Connection, Row, func, select

from masters import group_schema
from masters.catalog import (
    publication_grant,
    publication_table,
    registered_snapshot,
    snapshot_log,
)
from masters.catalog import (
    site_ddl as ddl_catalog,
)
from masters.errors import DdlRefused
from masters.log import partition, registration, site_ddl
from sites import QualifiedName, Site, faults
from sites.sessions import identity
from sites.sessions.exchange import raw
from sites.tables import locks, lossy
from sites.tables.glance import glance
from sites.tables.table import Column, Table, describe
from sites.writing.triggered import users_search_path


@dataclass(frozen=True, slots=True, kw_only=True)
class DdlReport:
    """What sites will do because of DDL at their master."""

    master: str
    #: the tables whose columns were added, renamed, dropped or widened
    tables: tuple[str, ...]
    #: the sites that have snapshots of them, and follow
    sites: tuple[str, ...]
    #: those that do not, because of a publication without DDL
    staying: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PastDdl:
    """DDL that sites have followed, or will by their next refresh."""

    at: datetime
    tables: tuple[str, ...]
    statements: str
    #: the sites that have snapshots of the tables, and have not refreshed them since
    sites: tuple[str, ...]
    #: those that do not follow, because of a publication without DDL
    staying: tuple[str, ...] = ()


def list_ddl(master: Site) -> list[PastDdl]:
    """The DDL that a master has for its sites, the latest first.

    Raises:
        SiteUnreachable, SiteChanged: the master is away or another database.
    """
    with identity.confirmed(master) as connection:
        found = connection.execute(_PAST).all()
    return [_one(list(rows)) for _, rows in groupby(found, key=lambda row: row.id)]


def _one(rows: Sequence[Row[Any]]) -> PastDdl:
    tables = dict.fromkeys(QualifiedName(r.table_schema, r.table_name) for r in rows)
    return PastDdl(
        at=rows[0].made_at,
        tables=tuple(map(str, tables)),
        statements=rows[0].statements,
        sites=_named(row for row in rows if not row.stays),
        staying=_named(row for row in rows if row.stays),
    )


def _named(rows: Iterable[Row[Any]]) -> tuple[str, ...]:
    return tuple(sorted({row.site_name for row in rows} - {None}))


def execute_ddl(master: Site, statements: str) -> DdlReport:
    """Run DDL at a master, and have sites make their snapshots' columns the same.

    Columns that are added, renamed or dropped come, get the name or go at each site by
    its next refresh, before rows are written there, however long it was away and
    whatever else was changed meanwhile (Virtuoso: DDL in publications). Those with a
    wider type get it, where a site can give it to them without writing many rows anew.
    What a site has queued before is pushed as `snapshots.alter_columns` does it. Sites
    that are granted a publication without DDL keep the columns that they have.

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
            report = _report(connection, master.name, tables)
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
    # What another one does meanwhile would be taken for part of this.
    locks.wait_turn(connection, "snaptide.ddl")
    before = _logged(connection)
    altered: list[QualifiedName] = []
    yield altered
    after = _logged(connection)
    for name in sorted(before.keys() & after.keys()):
        then, now = before[name], after[name]
        changed = {n for n in then.keys() | now.keys() if then.get(n) != now.get(n)}
        if changed:
            table = describe(connection, name)
            _refuse_others(connection, table, then, now, changed)
            new, gone = changed - then.keys(), changed - now.keys()
            site_ddl.note(connection, id_, table, changed, new, gone, statements)
            altered.append(name)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A column as it is at one moment."""

    name: str
    state: str
    #: with its length
    type: str

    def holds_all_of(self, before: _Seen) -> bool:
        """Whether it differs in nothing but a type that is wider, or in its name."""
        same = self.type == before.type and self.state == before.state
        _, _, collation, *generated = self.state.split(" ", 3)
        _, _, its_collation, *_ = before.state.split(" ", 3)
        plain = collation == its_collation and not generated
        return same or (plain and lossy.widens(self.type, before.type))


#: Columns by their numbers.
_Columns = Mapping[int, _Seen]

_TYPES = sa.text("""
SELECT l.table_schema, l.table_name, json_object_agg(
    a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod)) AS types
FROM snaptide.snapshot_log l
JOIN pg_catalog.pg_attribute a ON a.attnum > 0 AND NOT a.attisdropped AND a.attrelid
    = to_regclass(format('%I.%I', l.table_schema, l.table_name))
GROUP BY l.table_schema, l.table_name
""")


def _logged(connection: Connection) -> dict[QualifiedName, _Columns]:
    """The columns of all tables with a snapshot log."""
    types = {
        QualifiedName(row.table_schema, row.table_name): row.types
        for row in connection.execute(_TYPES)
    }
    return {
        table: {
            int(state.partition(" ")[0]): _Seen(
                name=name, state=state, type=types[table][name]
            )
            for name, state in seen.columns.items()
        }
        for table, seen in glance(connection, [*types], []).items()
    }


def _refuse_others(
    connection: Connection,
    table: Table,
    then: _Columns,
    now: _Columns,
    changed: set[int],
) -> None:
    """Refuse what sites could not follow, or would lose changes that wait there by.

    Parameters:
        table: as it is now.
        then, now: its columns before and now.
        changed: the numbers of those that are others now, or are gone.
    """
    name = table.qualified
    _refuse_key(connection, name, {then[n].name for n in changed if n in then})
    for number in changed & then.keys() & now.keys():
        column = now[number]
        if not column.holds_all_of(then[number]):
            why = (
                f"column {column.name} gets another collation or expression, or a type "
                "that does not hold all values of the former one"
            )
            raise _refused(connection, name, why)
    new = [column for column in table.columns if column.number not in then]
    _refuse_unfit(connection, name, new)


def _refuse_key(connection: Connection, table: QualifiedName, names: set[str]) -> None:
    at = snapshot_log.c
    key = connection.execute(
        select(
            at.identity_columns,
            partition.of_row(at.log_table).label("partition_columns"),
        ).where(at.table_schema == table.schema, at.table_name == table.name)
    ).one_or_none()
    if key is None:
        return
    if its := names & {*key.identity_columns}:
        what = f"column {', '.join(sorted(its))} identifies its rows"
        raise _refused(connection, table, what)
    if its := names & {*key.partition_columns}:
        what = (
            f"{', '.join(sorted(its))} is a partition column of its log; take it from "
            f"there first (snaptide log alter SITE {table} --partition-columns)"
        )
        raise _refused(connection, table, what)


def _refuse_unfit(
    connection: Connection, table: QualifiedName, new: Collection[Column]
) -> None:
    """Refuse new columns that sites cannot add, or their rows have no value for."""
    for column in new:
        if column.generated:
            why = f"column {column.name} is generated"
            raise _refused(connection, table, why)
        if column.refuses_by_domain:
            why = f"the domain of column {column.name} checks its values"
            raise _refused(connection, table, why)
        has_value = column.nullable or column.default is not None or column.identity
        if not has_value and _of_table(connection, table, updatable=True):
            why = f"column {column.name} is NOT NULL and has no default"
            raise _refused(connection, table, why, updatable=True)


def _refuse_of_group(connection: Connection, tables: list[QualifiedName]) -> None:
    if its := group_schema.versions(connection).keys() & {*tables}:
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


def _report(
    connection: Connection, master: str, tables: list[QualifiedName]
) -> DdlReport:
    follow, stay = set[str](), set[str]()
    for table in tables:
        its = {*_of_table(connection, table)}
        kept = site_ddl.staying(connection, table)
        follow |= its - kept
        stay |= its & kept
    return DdlReport(
        master=master,
        tables=tuple(map(str, tables)),
        sites=tuple(sorted(follow)),
        staying=tuple(sorted(stay)),
    )


def _of_table(
    connection: Connection, table: QualifiedName, *, updatable: bool = False
) -> tuple[str, ...]:
    """The sites that have snapshots of a table."""
    at = registered_snapshot.c
    wanted = select(at.site_name).where(
        at.table_schema == table.schema,
        at.table_name == table.name,
        registration.OF_SITE,
    )
    if updatable:
        wanted = wanted.where(at.updatable)
    return tuple(connection.scalars(wanted.distinct().order_by(at.site_name)))


def _past() -> sa.Select[Any]:
    """Each entry, with a site that does not show it, or none; by statement.

    Such a site has not refreshed since, or stays as it is by its publication.
    """
    at, seen, of = ddl_catalog.c, registered_snapshot.c, publication_table.c
    granted = sa.exists().where(
        of.table_schema == at.table_schema,
        of.table_name == at.table_name,
        of.publication_id == publication_grant.c.publication_id,
        publication_grant.c.site_name == seen.site_name,
    )
    stays = sa.and_(at.withheld, granted)
    behind = sa.and_(
        seen.table_schema == at.table_schema,
        seen.table_name == at.table_name,
        sa.or_(stays, func.coalesce(seen.refreshed_at < at.made_at, sa.true())),
        registration.OF_SITE,
    )
    return (
        select(
            at.id,
            func.max(at.made_at).over(partition_by=at.id).label("made_at"),
            at.table_schema,
            at.table_name,
            at.statements,
            seen.site_name,
            stays.label("stays"),
        )
        .select_from(ddl_catalog.outerjoin(registered_snapshot, behind))
        .order_by(sa.desc("made_at"), at.id, at.table_schema, at.table_name)
    )


_PAST = _past()
