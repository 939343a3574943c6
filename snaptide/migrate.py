"""Brings a site's own schema to the version of this program, and back."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from deferred.queues import define
from masters import snapshot_log
from sites import faults, identity, locks
from sites.catalog import SCHEMA
from sites.errors import SnaptideError
from sites.site import Site

#: One key for all sites: whoever upgrades a database locks it for others.
_UPGRADE_LOCK = 0x534E4150


class SchemaInUse(SnaptideError):
    """The site still has snapshot logs, snapshots or replication groups."""

    code = "SNP-401"
    hint = "Drop them first, and take it out of its groups; queues would be lost."


def upgrade(site: Site, revision: str = "head") -> None:
    """Create or upgrade the schema `snaptide` at a site, and record who it is.

    What logs and queues record, they record as this version does from then on.

    Raises:
        SiteUnreachable: the database cannot be reached.
    """
    # Logs are written in the transactions of users, who wait behind whoever waits.
    for attempt in locks.patiently():
        with attempt, site.begin() as connection:
            _lock(connection)
            locks.briefly(connection)
            _upgrade(connection, site.name, revision)


def _upgrade(connection: Connection, name: str, revision: str) -> None:
    connection.execute(text("CREATE SCHEMA IF NOT EXISTS snaptide"))
    connection.execute(text(_CREATE_ROLE))
    connection.execute(text(_JOIN_ROLE))
    faults.point("site_upgrade.before_revisions")
    command.upgrade(_config(connection), revision)
    if revision == "head":
        snapshot_log.replace_functions(connection)
        define.replace_functions(connection)
    identity.record(connection, name)
    faults.point("site_upgrade.before_commit")


def downgrade(site: Site, revision: str) -> None:
    """Take the schema back to an older revision; `base` removes it.

    Raises:
        SchemaInUse: logs or snapshots would be lost.
    """
    with site.begin() as connection:
        _lock(connection)
        if revision == "base" and _in_use(connection):
            raise SchemaInUse(
                f"Site {site.name} still has snapshot logs, snapshots or groups."
            )
        command.downgrade(_config(connection), revision)
        if revision == "base":
            connection.execute(text("DROP SCHEMA snaptide CASCADE"))


def check(connection: Connection) -> None:
    """Raise when the schema differs from what the catalogs declare (for tests)."""
    command.check(_config(connection))


def current_revision(connection: Connection) -> str | None:
    """The revision that the site's schema is at; None without one."""
    options = {"version_table_schema": SCHEMA}
    return MigrationContext.configure(connection, opts=options).get_current_revision()


def head_revision() -> str:
    """The revision that this program needs."""
    return str(ScriptDirectory(str(_folder())).get_current_head())


def _lock(connection: Connection) -> None:
    connection.execute(
        text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADE_LOCK}
    )


def _in_use(connection: Connection) -> bool:
    """Whether there is anything to lose; older revisions lack the tables."""
    kinds = ("snapshot_log", "snapshot", "replication_group")
    catalogs = [sa.table(name, schema=SCHEMA) for name in kinds]
    return any(
        sa.inspect(connection).has_table(catalog.name, schema=SCHEMA)
        and connection.scalar(sa.select(sa.exists().select_from(catalog)))
        for catalog in catalogs
    )


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_folder()))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _folder() -> Path:
    # In a wheel the chain lies inside this package; in a checkout beside it.
    inside = Path(__file__).parent / "migrations"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "migrations"


#: Roles belong to the whole cluster: two sites in one cluster may create it at once.
_CREATE_ROLE = """
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'snaptide_apply') THEN
        CREATE ROLE snaptide_apply NOLOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END $$
"""

_JOIN_ROLE = """
DO $$
BEGIN
    IF NOT pg_has_role(current_user, 'snaptide_apply', 'MEMBER') THEN
        EXECUTE format('GRANT snaptide_apply TO %I', current_user);
    END IF;
END $$
"""
