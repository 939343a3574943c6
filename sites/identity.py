"""Who a database is: told apart from its restored, cloned or promoted copies."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from sqlalchemy import Connection, insert, inspect, select, text, update

from sites.catalog import SCHEMA, site_identity
from sites.errors import (
    NotAMember,
    SiteChanged,
    SiteNotInitialised,
    UnsupportedDatabase,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What makes a database itself (docs/explanation/identity.md).

    `pg_upgrade` changes the system identifier, a promotion the timeline, a
    restore into another database of the same cluster only the database's oid.
    """

    site_id: uuid.UUID
    name: str
    system_identifier: int
    timeline: int
    database_oid: int
    #: made anew by each repair
    incarnation: uuid.UUID
    #: how often it was repaired
    generation: int


def read(connection: Connection) -> Identity:
    """The identity that `site init` recorded.

    Raises:
        SiteNotInitialised: there is no schema `snaptide`, or no row in it.
    """
    row = None
    if inspect(connection).has_table(site_identity.name, schema=SCHEMA):
        wanted = select(*(site_identity.c[name] for name in Identity.__slots__))
        row = connection.execute(wanted).one_or_none()
    if row is None:
        raise SiteNotInitialised
    return Identity(**row._mapping)


def record(connection: Connection, name: str) -> None:
    """Write the identity of this database, unless an earlier `site init` did."""
    if connection.scalar(select(site_identity.c.site_id)) is None:
        connection.execute(insert(site_identity).values(name=name, **_now(connection)))


def renew(connection: Connection, name: str) -> Identity:
    """Take on what this database is now; positions of before mean nothing any more.

    One that is called otherwise than before is a copy, and a site of its own.
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
    connection.execute(update(site_identity).values(values))
    return read(connection)


def differences(connection: Connection) -> dict[str, tuple[int, int]]:
    """What of the recorded identity no longer holds: name -> (recorded, now)."""
    recorded = read(connection)
    now = _now(connection)
    return {
        name: (getattr(recorded, name), value)
        for name, value in now.items()
        if getattr(recorded, name) != value
    }


def confirm(connection: Connection, name: str) -> Identity:
    """Read the identity, and make sure that it is still true.

    Raises:
        SiteNotInitialised: there is none.
        NotAMember: what we apply would be taken for changes of users.
        SiteChanged: the database was restored, cloned or promoted since, or
            the URL leads to another site.
    """
    recorded = read(connection)
    if not connection.scalar(text(_MAY_APPLY)):
        raise NotAMember(
            f"The user of site {name} is no member of the role snaptide_apply.",
            site=name,
        )
    changed = differences(connection)
    if changed:
        what = ", ".join(f"{k.replace('_', ' ')}" for k in changed)
        raise SiteChanged(f"Site {name}: {what} is not what it was.", **changed)
    if recorded.name != name:
        raise SiteChanged(
            f"The database of site {name} says that it is {recorded.name}."
        )
    return recorded


_MAY_APPLY = (
    "SELECT COALESCE(pg_has_role(session_user, to_regrole('snaptide_apply'),"
    " 'MEMBER'), false)"
)


def _now(connection: Connection) -> dict[str, int]:
    if connection.scalar(text("SELECT pg_is_in_recovery()")):
        raise UnsupportedDatabase("The server is a standby.")
    row = connection.execute(
        text(
            "SELECT s.system_identifier,"
            " ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int4"
            " AS timeline, d.oid::int8 AS database_oid"
            " FROM pg_control_system() s, pg_database d"
            " WHERE d.datname = current_database()"
        )
    ).one()
    return dict(row._mapping)
