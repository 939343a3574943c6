"""Publications of a master: named sets of tables, rows and columns for sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, select

from masters.catalog import (
    publication,
    publication_grant,
    publication_table,
    registered_snapshot,
)
from masters.log import site_ddl
from masters.publications import bound, policies, publishable, template
from masters.publications.errors import (
    CannotPublish,
    PublicationExists,
    PublicationGranted,
    UnknownPublication,
)
from masters.publications.published import Published, PublishedTable
from masters.publications.template import Template
from sites import QualifiedName, Site, names
from sites.catalog import SCHEMA
from sites.sessions import identity
from sites.tables import locks
from sites.tables.table import describe


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A publication that a site may read."""

    publication: str
    site: str
    #: the role as which the site connects
    login: str
    #: the values of the parameters of the publication's conditions
    parameters: Mapping[str, str]
    granted_at: datetime
    #: its pushes may change the rows that it reads
    updatable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A named set of tables that sites may be given."""

    name: str
    tables: tuple[PublishedTable, ...]
    grants: tuple[Grant, ...]
    #: whether the sites to which it is granted follow `masters.execute_ddl`
    ddl: bool

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that each grant has values for."""
        return tuple(
            dict.fromkeys(
                one
                for table in self.tables
                for one in template.read(table.where).parameters
            )
        )


def create_publication(
    master: Site,
    name: str,
    tables: Sequence[str],
    *,
    where: Mapping[str, str] | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
    ddl: bool = True,
) -> Publication:
    """Name a set of tables, rows and columns that sites may be given.

    Nobody may read anything more by it until it is granted (Virtuoso: REPL_PUBLISH,
    REPL_PUB_ADD). Row-level security is switched on for the tables; it shows every row
    to all but logins of sites. A table is in one publication.

    Parameters:
        master: as the user who owns the tables.
        tables: each `name` or `schema.name`; they have snapshot logs.
        where: by table, which rows a site gets: columns and parameters, as in
            `store_id = :store AND region = :region`, and `follows customer` for those
            whose parent it gets, too, of another table here. The columns, also those of
            the foreign key, are of the table's key, or partition columns of its log.
        columns: by table, the columns that may be read; by default all.
        ddl: the sites to which it is granted follow `execute_ddl`; else they keep the
            columns that they have until `snapshots.alter_columns` gives them others.

    Raises:
        PublicationExists: the master has one of that name.
        CannotPublish, BadTemplate: a table cannot be published like that.
        UnknownTable, NoSnapshotLog: a table, or its log, is not there.
    """
    wanted = publishable.wanted(tables, where or {}, columns or {})
    if not name.strip():
        raise CannotPublish("The name of the publication is empty: give it one.")
    for attempt in locks.patiently():
        with attempt, identity.confirmed(master) as connection:
            locks.briefly(connection)
            alone(connection)
            if connection.scalar(select(publication.c.id).where(_named(name))):
                raise PublicationExists(
                    f"{master.name} has a publication called {name} already.",
                    publication=name,
                )
            publishable.wait_turns(connection, wanted)
            bound.open_role(connection)
            new = {"name": name, "ddl": ddl}
            made = sa.insert(publication).values(new).returning(publication.c.id)
            id_ = connection.scalar(made)
            _publish(connection, id_, wanted)
            site_ddl.withhold(connection, id_)
    return show_publication(master, name)


def alter_publication(
    master: Site,
    name: str,
    tables: Sequence[str] = (),
    *,
    where: Mapping[str, str] | None = None,
    columns: Mapping[str, Sequence[str]] | None = None,
    ddl: bool | None = None,
) -> Publication:
    """Give a publication other tables, rows or columns, in the place of those it has.

    Sites to which it is granted may read just these from then on, and their next
    refresh compares all rows.

    Parameters:
        master, tables, where, columns: as for `create_publication`. If only `ddl` is
            given, these stay as they are.
        ddl: by default as before. Sites that begin to follow do so with DDL that is run
            from then on; for DDL from before, use `snapshots.alter_columns`.

    Raises:
        UnknownPublication: the master has none of that name.
        WrongParameters: a condition has a parameter for which a grant has no value, or
            not a fitting one.
        CannotPublish: as for `create_publication`; also if a grant is updatable, and
            changes of a table would reach other rows.
        BadTemplate, UnknownTable, NoSnapshotLog: as there.
    """
    given = tables or where or columns or ddl is None
    wanted = publishable.wanted(tables, where or {}, columns or {}) if given else []
    for attempt in locks.patiently():
        with attempt, identity.confirmed(master) as connection:
            locks.briefly(connection)
            row = find(connection, master, name)
            if ddl is not None:
                changed = sa.update(publication).where(_named(name)).values(ddl=ddl)
                connection.execute(changed)
            if wanted:
                publishable.wait_turns(connection, wanted)
                _replace(connection, row, wanted)
            site_ddl.withhold(connection, row.id)
    return show_publication(master, name)


def drop_publication(master: Site, name: str) -> None:
    """Forget a publication.

    Row-level security is switched off for its tables.

    Raises:
        UnknownPublication: the master has none of that name.
        PublicationGranted: it is granted to a site.
    """
    for attempt in locks.patiently():
        with attempt, identity.confirmed(master) as connection:
            locks.briefly(connection)
            alone(connection)
            row = find(connection, master, name)
            granted = grants_of(connection, row.id)
            if granted:
                sites = ", ".join(one.site for one in granted)
                raise PublicationGranted(
                    f"{name} is granted to {sites}.", publication=name
                )
            _unpublish(connection, row.id, [])
            connection.execute(sa.delete(publication).where(_named(name)))
            if not connection.scalar(select(sa.exists().select_from(publication))):
                bound.run(connection, policies.unbinding_ours())


def list_publications(master: Site) -> list[Publication]:
    """The publications of a master, by name, and the sites to which they are granted.

    Raises:
        SiteUnreachable, SiteNotInitialised, OlderSchema, NewerSchema: the master cannot
            be asked.
    """
    with identity.initialised(master) as connection:
        rows = connection.execute(select(publication).order_by(publication.c.name))
        return [described(connection, row) for row in rows.all()]


def show_publication(master: Site, name: str) -> Publication:
    """A publication of a master, and the sites to which it is granted.

    Raises:
        UnknownPublication: the master has none of that name.
    """
    with identity.initialised(master) as connection:
        return described(connection, find(connection, master, name))


def alone(connection: Connection) -> None:
    """Wait until no other session makes, drops, grants or revokes a publication.

    Otherwise a first one could be made while the last is dropped, and tables of ours be
    left without policies; or a login be granted to two sites.
    """
    locks.against_writers(connection, QualifiedName(SCHEMA, publication.name))


def find(connection: Connection, master: Site, name: str) -> Row[Any]:
    """The catalog row of a publication, which nobody else changes until the commit.

    Raises:
        UnknownPublication: the master has none of that name.
    """
    wanted = select(publication).where(_named(name)).with_for_update()
    row = connection.execute(wanted).one_or_none()
    if row is None:
        raise UnknownPublication(
            f"{master.name} has no publication called {name}.", publication=name
        )
    return row


def tables_of(connection: Connection, publication_id: int) -> list[PublishedTable]:
    """The tables of a publication, by name."""
    at = publication_table.c
    wanted = select(publication_table).where(at.publication_id == publication_id)
    rows = connection.execute(wanted.order_by(at.table_schema, at.table_name))
    return [
        PublishedTable(
            table=str(QualifiedName(row.table_schema, row.table_name)),
            where=template.written(
                Template(row.condition, tuple(f["reference"] for f in row.follows))
            ),
            columns=None if row.columns is None else tuple(row.columns),
        )
        for row in rows
    ]


def grants_of(connection: Connection, publication_id: int) -> list[Grant]:
    """The grants of a publication, by site."""
    at = publication_grant.c
    wanted = (
        select(publication_grant, publication.c.name)
        .join(publication)
        .where(at.publication_id == publication_id)
        .order_by(at.site_name)
    )
    return [
        Grant(
            publication=row.name,
            site=row.site_name,
            login=row.login,
            parameters=row.parameters,
            granted_at=row.granted_at,
            updatable=row.updatable,
        )
        for row in connection.execute(wanted)
    ]


def let_read(connection: Connection, publication_id: int, grant: Grant) -> None:
    """Give a login the rights of a grant, once its row is there.

    Raises:
        WrongParameters: a value does not fit the column that it is compared with.
        CannotPublish: a table is not fit for changes of sites.
    """
    for one in published(connection, publication_id):
        publishable.refuse_unfit_values(connection, one, grant.parameters)
        if grant.updatable:
            publishable.refuse_unfit_for_changes(connection, one.table)
        bound.run(
            connection, policies.opening(one, grant.login, updatable=grant.updatable)
        )
        compare_all(connection, grant.site, one.table.qualified)


def compare_all(connection: Connection, site: str, table: QualifiedName) -> None:
    """Have the next refresh of a site's snapshots of a table compare all rows.

    What the site may read of the table has changed, which no log tells. Until the
    commit, no refresh can register a snapshot: it would show what was granted before,
    and the next one would be fast. Writes `registered_snapshot`.
    """
    at = registered_snapshot.c
    locks.against_writers(connection, QualifiedName(SCHEMA, registered_snapshot.name))
    connection.execute(
        sa.delete(registered_snapshot).where(
            at.site_name == site,
            at.table_schema == table.schema,
            at.table_name == table.name,
        )
    )


def published(connection: Connection, publication_id: int) -> list[Published]:
    """The tables of a publication as their policies need them."""
    every = tables_of(connection, publication_id)
    return [
        publishable.fitting(connection, publication_id, one, every) for one in every
    ]


def _publish(
    connection: Connection, publication_id: int, wanted: Sequence[PublishedTable]
) -> None:
    for one in wanted:
        name = names.parse(one.table)
        describe(connection, name)
        # Wait for sessions that write: they fill the log as it was before.
        locks.against_writers(connection, name)
        made = publishable.fitting(connection, publication_id, one, wanted)
        bound.run(connection, policies.guarding([name, made.log_name]))
        connection.execute(
            sa.insert(publication_table).values(
                publication_id=publication_id,
                table_schema=name.schema,
                table_name=name.name,
                columns=None if one.columns is None else [*one.columns],
                condition=dict(made.template.columns),
                follows=[key.kept for key in made.follows],
            )
        )
        bound.run(connection, policies.binding(made))


def _replace(
    connection: Connection, row: Row[Any], wanted: Sequence[PublishedTable]
) -> None:
    granted = grants_of(connection, row.id)
    former = {each.table for each in tables_of(connection, row.id)}
    _unpublish(connection, row.id, [one.login for one in granted])
    _publish(connection, row.id, wanted)
    for one in granted:
        let_read(connection, row.id, one)
        # Of tables that are gone from it, too: logs keep nothing for them.
        for gone in former - {each.table for each in wanted}:
            compare_all(connection, one.site, names.parse(gone))


def _unpublish(
    connection: Connection, publication_id: int, logins: Sequence[str]
) -> None:
    at = publication_table.c
    for one in tables_of(connection, publication_id):
        name = names.parse(one.table)
        there = publishable.existing(connection, name)
        bound.run(connection, policies.unbinding(publication_id, there))
        for login in logins:
            bound.run(connection, policies.closing(there, login))
        connection.execute(
            sa.delete(publication_table).where(
                at.publication_id == publication_id,
                at.table_schema == name.schema,
                at.table_name == name.name,
            )
        )
        bound.run(connection, policies.unguarding(there))


def described(connection: Connection, row: Row[Any]) -> Publication:
    """The publication of a catalog row."""
    return Publication(
        name=row.name,
        tables=tuple(tables_of(connection, row.id)),
        grants=tuple(grants_of(connection, row.id)),
        ddl=row.ddl,
    )


def _named(name: str) -> sa.ColumnElement[bool]:
    return publication.c.name == name
