"""Create a snapshot: empty, registered at its master, ready for its first refresh."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from psycopg import errors as pg
from sqlalchemy import Connection, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import ProgrammingError

from masters.log import registration
from sites import faults, names
from sites.names import QualifiedName
from sites.sessions import granted, identity
from sites.sessions.site import Site
from sites.tables import ddl, definitions
from sites.tables.table import describe
from snapshots import catalog
from snapshots.creating import base_table
from snapshots.definitions import parents, refresh_group, snapshot
from snapshots.definitions.definition import Definition, define
from snapshots.definitions.errors import (
    DifferentTypes,
    MissingAtSite,
    MixedMasters,
    NameTaken,
)
from snapshots.definitions.follow import composed
from snapshots.definitions.left_out import references
from snapshots.definitions.policy import Leaving
from snapshots.definitions.snapshot import Snapshot
from snapshots.reports import CreateReport


def create(
    site: Site,
    name: str,
    *,
    master: str,
    table: str | None = None,
    group: str | None = None,
    where: str | None = None,
    follow: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    updatable: bool = False,
    leaving: Leaving | str = Leaving.DRAIN,
    numbers: Mapping[str, str] | None = None,
) -> CreateReport:
    """Create a snapshot of a master table (Oracle: CREATE SNAPSHOT ... FOR UPDATE).

    It is filled by its first refresh, and cannot be used before. If anything
    fails, nothing is left at the site or its master.

    Parameters:
        site: where the snapshot is to be.
        name: of the view that users see: `name` or `schema.name`.
        master: name of the site that has the master table.
        table: the master table; by default the one called like the snapshot.
        group: refresh group, created when there is none; by default one of its own.
        where: which rows: an immutable expression over the table's columns, and
            EXISTS or IN over other tables that have a snapshot log.
        follow: foreign keys of the table, by parent, column or constraint: only rows
            whose parent is in the snapshot of the same group, now and later.
        columns: which columns; all of them by default.
        updatable: users may change it, and the changes are pushed to the master.
        leaving: what becomes of a row that leaves the condition (`Leaving`).
        numbers: by column, how an insert at the site gets a value that it does not
            give: `lease` (numbers leased out of the master's sequence), `uuidv7` or
            `none`. By default serial, identity and nextval columns lease theirs.

    Raises:
        UnknownSite, SiteUnreachable, SiteChanged: one of the two cannot take part.
        UnknownTable, NoSnapshotLog, BadCondition: the master table is not suitable.
        SnapshotRefused: the subclass and the message name the obstacle.
        UnknownPolicy: there is no such policy for rows that leave.
        CannotLease: the master has no sequence to lease such numbers from.
        NotGranted: the site's login at the master was granted to another site.
    """
    policy = Leaving.named(leaving, updatable=updatable)
    qualified = names.parse(name)
    source = names.parse(table or name)
    home = site.peer(master)
    group = group or str(qualified)
    with site.session() as connection:
        identity.read(connection)
        members = snapshot.members(connection, group)
    condition = composed(home, source, group, members, follow, where)
    definition = define(
        home,
        source,
        columns=columns,
        condition=condition,
        updatable=updatable,
        numbers=numbers,
    )
    made = _describe(qualified, group, definition, updatable, policy)
    with site.session() as connection:
        who = identity.confirm(connection, site.name)
        _refuse_taken(connection, made)
    with _registered(home, made, who), site.transaction() as connection:
        faults.point("snapshot_create.after_register")
        refresh_group.ensure(
            connection, made.refresh_group, home.name, definition.master_id
        )
        _build(connection, made, definition, home.name)
        left_out = (
            *definition.left_out,
            *references(connection, made, definition.table),
        )
        _refuse_switched(connection, made, home.name, definition.master_id)
        faults.point("snapshot_create.before_commit")
    faults.point("snapshot_create.after_commit")
    return _report(made, home.name, definition, left_out)


def _describe(
    name: QualifiedName,
    group: str,
    definition: Definition,
    updatable: bool,
    leaving: Leaving,
) -> Snapshot:
    return Snapshot(
        schema=name.schema,
        name=name.name,
        refresh_group=group,
        base_table=names.derived("snap$_", name),
        extra_table=names.derived("extra$_", name),
        log_view=names.derived("uslog$_", name),
        master_schema=definition.table.schema,
        master_table=definition.table.name,
        columns=definition.columns,
        identity_columns=definition.identity,
        condition=definition.condition,
        updatable=updatable,
        leaving=leaving,
        loaded=False,
        # If the master renames columns before the first refresh, it follows; and an
        # image of other columns is refused.
        master_columns=tuple(
            definition.table.column(name).state for name in definition.columns
        ),
        ddl_followed=definition.ddl,
    )


def _taken(made: Snapshot) -> NameTaken:
    return NameTaken(f"A snapshot {made.key} already exists.", name=made.key)


def _refuse_taken(connection: Connection, made: Snapshot) -> None:
    if snapshot.find(connection, made.qualified) is not None:
        raise _taken(made)
    for name in (made.qualified, made.base):
        if ddl.exists(connection, name):
            raise NameTaken(f"The site already has a relation {name}.", name=str(name))
    schema = connection.scalar(
        text("SELECT to_regnamespace(quote_ident(:schema)) IS NULL"),
        {"schema": made.schema},
    )
    if schema:
        raise MissingAtSite(
            f"The site has no schema {made.schema}.", schema=made.schema
        )


def _refuse_switched(
    connection: Connection, made: Snapshot, master: str, master_id: uuid.UUID
) -> None:
    """Refuse a snapshot whose group has got another master while it was created.

    Raises:
        MixedMasters: it has; the snapshot is registered at the former one.
    """
    if not refresh_group.still_has(connection, made.refresh_group, master_id):
        raise MixedMasters(
            f"Refresh group {made.refresh_group} has another master than {master} now.",
            group=made.refresh_group,
        )


def _build(
    connection: Connection, made: Snapshot, definition: Definition, master: str
) -> None:
    """Create the tables, and rehearse the steps after the load, which may fail."""
    values = {name: getattr(made, name) for name in Snapshot.__slots__}
    lists = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
    noted = insert(catalog.snapshot).values(**lists).on_conflict_do_nothing()
    if not connection.execute(noted).rowcount:
        raise _taken(made)  # meanwhile
    parents.refuse_hiding(connection, made)
    with naming_what_is_missing(made):
        base_table.create(connection, made, definition, master)
        refuse_other_types(connection, made, definition)
        with connection.begin_nested() as rehearsal:
            base_table.constrain(connection, made, definition)
            base_table.create_user_view(connection, made)
            rehearsal.rollback()


def refuse_other_types(
    connection: Connection, made: Snapshot, definition: Definition
) -> None:
    """Refuse a base table with a type that is another one at the master.

    Raises:
        DifferentTypes: the message says what differs.
    """
    base = describe(connection, made.base)
    here = definitions.type_definitions(connection, base, made.columns)
    for difference in definitions.differing(definition.types, here):
        raise DifferentTypes(f"Snapshot {made.key}: {difference}.", snapshot=made.key)


@contextmanager
def naming_what_is_missing(made: Snapshot) -> Iterator[None]:
    """Translate PostgreSQL's error about an object that the site lacks.

    Raises:
        MissingAtSite: the message names it.
    """
    lacking = (
        pg.UndefinedObject,
        pg.UndefinedFunction,
        pg.InvalidSchemaName,
        pg.UndefinedTable,
    )
    try:
        yield
    except (*lacking, ProgrammingError) as error:
        cause = getattr(error, "orig", error)
        if not isinstance(cause, lacking):
            raise
        reason = cause.diag.message_primary
        raise MissingAtSite(
            f"Snapshot {made.key}: {reason}.", snapshot=made.key
        ) from None


@contextmanager
def _registered(home: Site, made: Snapshot, who: identity.Identity) -> Iterator[None]:
    """Register at the master first; unregister if the block fails.

    After a crash in between, the master knows a snapshot that does not exist;
    its log keeps nothing for it, and the next attempt registers it again.

    Raises:
        NoSnapshotLog: a log was dropped meanwhile.
        NotGranted.
    """
    with home.transaction() as connection:
        granted.refuse_other_name(connection, who, home.name)
        registration.keep_logs(connection, snapshot.tables_of([made]))
        registration.register(
            connection,
            site_id=who.site_id,
            site_name=who.name,
            snapshot=made.key,
            table=made.master,
            parents=[*made.asked],
            updatable=made.updatable,
        )
    try:
        yield
    except BaseException:
        _take_back(home, who.site_id, made)
        raise


def _take_back(home: Site, site_id: uuid.UUID, made: Snapshot) -> None:
    with home.transaction() as connection:
        registration.unregister(connection, site_id, [made.key])


def _report(
    made: Snapshot, master: str, definition: Definition, left_out: tuple[str, ...]
) -> CreateReport:
    return CreateReport(
        snapshot=made.key,
        group=made.refresh_group,
        master=master,
        table=str(made.master),
        columns=made.columns,
        identity=made.identity_columns,
        condition=made.condition,
        updatable=made.updatable,
        leaving=made.leaving,
        numbers={name: str(how) for name, how in definition.numbers.items()},
        left_out=left_out,
    )
