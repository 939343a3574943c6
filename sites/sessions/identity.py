"""The identity of a database, which tells it from restored, cloned, promoted copies."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa
from psycopg.errors import (
    InsufficientPrivilege,
    UndefinedColumn,
    UndefinedFunction,
    UndefinedTable,
)
from sqlalchemy import ColumnElement, Connection, Row, func, select, text
from sqlalchemy.exc import ProgrammingError

from sites.catalog import site_identity
from sites.errors import (
    ActsAsAnotherRole,
    NotAMember,
    NotGranted,
    SiteChanged,
    SiteNotInitialised,
    TriggersSwitchedOff,
    UnsupportedDatabase,
)
from sites.sessions import revisions
from sites.sessions.prepared import Prepared
from sites.sessions.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The facts that identify a database (docs/explanation/identity.md).

    `pg_upgrade` changes the system identifier, a promotion the timeline, a
    restore into another database of the same cluster only the database's oid.
    """

    site_id: uuid.UUID
    name: str
    system_identifier: int
    timeline: int
    database_oid: int
    #: each repair makes a new one
    incarnation: uuid.UUID
    #: number of repairs
    generation: int


def read(connection: Connection, *, partner: bool = False) -> Identity:
    """The identity that `site init` recorded.

    Parameters:
        partner: the database is the other side of a contact, so that its schema may be
            a little older: see `revisions.OLDEST_PARTNER`.

    Raises:
        SiteNotInitialised: there is no schema `snaptide`, or no row in it.
        OlderSchema, NewerSchema: another version of Snaptide made the schema.
    """
    return _of(_one(connection, _RECORDED_ALONE, partner=partner))


def record(connection: Connection, name: str) -> None:
    """Write the identity of this database, unless an earlier `site init` did."""
    if connection.scalar(select(site_identity.c.site_id)) is None:
        connection.execute(
            sa.insert(site_identity).values(name=name, **_now(connection))
        )


def renew(connection: Connection, name: str) -> Identity:
    """Record the present identity anew; earlier positions mean nothing any more.

    A database with another name than recorded is a copy, and becomes a new site.
    """
    recorded = read(connection)
    values: dict[str, object] = {
        **_now(connection),
        "name": name,
        "incarnation": uuid.uuid4(),
        "generation": recorded.generation + 1,
    }
    if name != recorded.name:
        values["site_id"] = uuid.uuid4()
    connection.execute(sa.update(site_identity).values(values))
    return read(connection)


def differences(
    connection: Connection, *, partner: bool = False
) -> dict[str, tuple[int, int]]:
    """The recorded facts that no longer hold: name -> (recorded, now)."""
    return _differences(_one(connection, _with(()), partner=partner))


def refuse_changed(connection: Connection, name: str) -> None:
    """Refuse a database that is no longer what it was, whatever its user may do.

    Raises:
        SiteChanged: it was restored, cloned or promoted since.
    """
    _refuse_changed(name, differences(connection))


def _refuse_changed(name: str, changed: Mapping[str, tuple[int, int]]) -> None:
    if changed:
        what = ", ".join(f"{k.replace('_', ' ')}" for k in changed)
        raise SiteChanged(
            f"The database of site {name} has changed: {what}.", **changed
        )


def confirm(connection: Connection, name: str, *, partner: bool = False) -> Identity:
    """Read the identity, and make sure that it is still true.

    Parameters:
        partner: as for `read`.

    Raises:
        SiteNotInitialised: there is none.
        OlderSchema, NewerSchema: another version of Snaptide made the schema.
        NotAMember: our triggers would take applied changes for those of users.
        TriggersSwitchedOff: what we write would meet no foreign key, and no trigger.
        SiteChanged: the database was restored, cloned or promoted since, or
            the URL leads to another site.
    """
    return confirm_and_read(connection, name, partner=partner)[0]


def confirm_and_read(
    connection: Connection,
    name: str,
    also: tuple[ColumnElement[Any], ...] = (),
    values: Mapping[str, object] | None = None,
    *,
    partner: bool = False,
) -> tuple[Identity, Row[Any]]:
    """As `confirm`, and read other values in the same round trip.

    Parameters:
        also: what else to read: constants, as the statement is kept for each.
        values: the parameters of these.
        partner: as for `read`.

    Returns:
        The identity, and a row that has the values.
    """
    row = _one(connection, _with(also), values, partner=partner)
    if not row.may_apply:
        raise NotAMember(
            f"The user of site {name} is not a member of the role snaptide_apply.",
            site=name,
        )
    if row.replication_role == "replica":
        raise TriggersSwitchedOff(
            f"Sessions of Snaptide at site {name} have session_replication_role = "
            "replica.",
            site=name,
        )
    _refuse_changed(name, _differences(row))
    if row.name != name:
        raise SiteChanged(f"The database of site {name} says that it is {row.name}.")
    return _of(row), row


def refuse_other_role(connection: Connection) -> None:
    """Refuse sessions that begin in another role than the login's, without its rights.

    Raises:
        ActsAsAnotherRole.
    """
    if row := connection.execute(_OTHER_ROLE).one_or_none():
        raise ActsAsAnotherRole(
            f"Sessions of {row.login} in database {connection.engine.url.database} "
            f"begin in the role {row.role}, which may not read whose database it is.",
            login=row.login,
            role=row.role,
        )


@contextmanager
def initialised(site: Site, *, partner: bool = False) -> Iterator[Connection]:
    """Open a transaction at a site, as `Site.transaction` does, if it is one of ours.

    Parameters:
        partner: as for `read`.

    Raises:
        SiteUnreachable.
        SiteNotInitialised, OlderSchema, NewerSchema: as `read` raises them.
    """
    with site.transaction() as connection:
        read(connection, partner=partner)
        yield connection


@contextmanager
def confirmed(site: Site, *, partner: bool = False) -> Iterator[Connection]:
    """Open a transaction at a site whose identity is still true.

    Parameters:
        partner: as for `read`.

    Raises:
        SiteUnreachable.
        SiteNotInitialised, OlderSchema, NewerSchema, NotAMember, SiteChanged: as
            `confirm` raises them.
    """
    with site.transaction() as connection:
        confirm(connection, site.name, partner=partner)
        yield connection


#: The identity, and the revision of the schema: neither is read without the other.
_RECORDED = [
    *(site_identity.c[name] for name in Identity.__slots__),
    revisions.OF_SITE,
]

#: Facts of a database now. A standby has no timeline: it writes no WAL of its own.
_NOW = {
    "system_identifier": "(SELECT system_identifier FROM pg_control_system())",
    "timeline": (
        "CASE WHEN NOT pg_is_in_recovery() THEN"
        " ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int4 END"
    ),
    "database_oid": (
        "(SELECT oid::int8 FROM pg_database WHERE datname = current_database())"
    ),
}

_MAY_APPLY = (
    "COALESCE(pg_has_role(session_user, to_regrole('snaptide_apply'), 'MEMBER'), false)"
)


_OTHER_ROLE = text("""
SELECT session_user::text AS login, current_user::text AS role
WHERE current_user <> session_user
  AND NOT has_table_privilege(to_regclass('snaptide.site_identity'), 'SELECT')
""")

_RECORDED_ALONE = Prepared(select(*_RECORDED))

_RECORDED_AND_NOW = (
    *_RECORDED,
    *(sa.literal_column(sql).label(f"{name}_now") for name, sql in _NOW.items()),
    sa.literal_column(_MAY_APPLY).label("may_apply"),
    func.current_setting("session_replication_role").label("replication_role"),
)


@cache
def _with(also: tuple[ColumnElement[Any], ...]) -> Prepared:
    return Prepared(select(*_RECORDED_AND_NOW, *also))


def _one(
    connection: Connection,
    query: Prepared,
    values: Mapping[str, object] | None = None,
    *,
    partner: bool,
) -> Row[Any]:
    try:
        row = query.run(connection, **(values or {})).one_or_none()
    except ProgrammingError as error:
        if isinstance(error.orig, _MISSING):
            _refuse_other(connection, partner=partner)
        if isinstance(error.orig, InsufficientPrivilege):
            with connection.engine.connect() as apart:
                refuse_other_role(apart)
        if partner and isinstance(error.orig, InsufficientPrivilege):
            raise NotGranted(
                f"The user of database {connection.engine.url.database}, "
                f"{connection.engine.url.username}, may not read who that is."
            ) from error
        raise
    if row is None:
        raise _not_initialised(connection)
    if row.revision != revisions.head():
        revisions.refuse_other(row.name, row.revision, partner=partner)
    return row


#: What a statement meets in a schema that is not there, or of another version.
_MISSING = (UndefinedTable, UndefinedColumn, UndefinedFunction)


def _refuse_other(connection: Connection, *, partner: bool) -> None:
    """Raise if a schema lacks what was asked because of its revision.

    The transaction that has met it can ask nothing any more: another one does.
    """
    with connection.engine.connect() as apart:
        revision = revisions.of_site(apart)
        if revision is None:
            raise _not_initialised(connection)
        name = apart.scalar(select(site_identity.c.name))
    revisions.refuse_other(str(name), revision, partner=partner)


def _not_initialised(connection: Connection) -> SiteNotInitialised:
    return SiteNotInitialised(
        f"Database {connection.engine.url.database} has no schema snaptide yet."
    )


def _of(row: Row[Any]) -> Identity:
    return Identity(**{name: row._mapping[name] for name in Identity.__slots__})


def _differences(row: Row[Any]) -> dict[str, tuple[int, int]]:
    pairs = {name: (getattr(row, name), getattr(row, f"{name}_now")) for name in _NOW}
    _refuse_standby(pairs["timeline"][1])
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _now(connection: Connection) -> dict[str, int]:
    now: list[ColumnElement[Any]] = [
        sa.literal_column(sql).label(name) for name, sql in _NOW.items()
    ]
    row = connection.execute(select(*now)).one()
    _refuse_standby(row.timeline)
    return dict(row._mapping)


def _refuse_standby(timeline: int | None) -> None:
    if timeline is None:
        raise UnsupportedDatabase("The server is a standby.")
