"""Upgrades the schema `snaptide` of a site to this program's version, and back."""

from __future__ import annotations

import threading

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

from deferred.queues import define
from groups import guard
from masters.log import snapshot_log
from sites import faults
from sites.catalog import SCHEMA
from sites.errors import SiteNotInitialised, SnaptideError, StillNeeded
from sites.sessions import identity, revisions
from sites.sessions.site import Site
from sites.tables import ddl, locks
from snapshots.creating import base_table
from snaptide.errors import BadArgument

#: The advisory lock that an upgrade holds, so that a database has one at a time.
_UPGRADE_LOCK = 0x534E4150

#: Alembic keeps its state in its modules: a process can run one upgrade at a time.
_ALEMBIC = threading.Lock()

#: Tables and views whose rows exist nowhere else: a downgrade refuses to drop them
#: while they hold any.
_LIVING = {
    "snapshot_log": "snapshot logs",
    "snapshot": "snapshots",
    "replication_group": "replication groups",
    "deftrandest": "changes that are waiting for a push",
    "error_transaction": "parked transactions",
    "kept_row": "rows that left snapshots and are kept",
    "decision": "transactions in doubt",
}


class SchemaInUse(SnaptideError):
    """The site's schema holds what exists nowhere else, so it is not dropped."""

    code = "SNP-401"
    hint = (
        "Before that, drop its logs and snapshots, remove rows that snapshots kept "
        "(snaptide snapshot remove-kept), take the site out of its groups, and settle "
        "what its error queue holds. `snaptide site retire` does it for a site that "
        "goes out of service."
    )


class SchemaBeforeBaseline(SnaptideError):
    """A development version made the schema of the site, before the first release."""

    code = "SNP-420"
    hint = (
        "Upgrade the site once with the last of those versions, then with this one: "
        "see 'Sites of a development version' in the how-to guide on sites."
    )


def upgrade(site: Site, revision: str = "head") -> None:
    """Create or upgrade the schema `snaptide` at a site, and record its identity.

    From then on, the triggers of logs, queues and guards are those of this version.

    Raises:
        SiteUnreachable: the database cannot be reached.
        NewerSchema: a newer program upgraded the site before.
        SchemaBeforeBaseline: a development version made it, before the first release.
    """
    # Users write logs in their transactions, and would queue behind a waiting upgrade.
    for attempt in locks.patiently():
        with attempt, site.transaction() as connection:
            _lock(connection)
            locks.briefly(connection)
            _upgrade(connection, site.name, revision)


def _upgrade(connection: Connection, name: str, revision: str) -> None:
    _current(connection, name)
    connection.execute(text("CREATE SCHEMA IF NOT EXISTS snaptide"))
    connection.execute(text(_CREATE_ROLE))
    connection.execute(text(_JOIN_ROLE))
    faults.point("site_upgrade.before_revisions")
    with _ALEMBIC:
        command.upgrade(_config(connection), revision)
    if revision == "head":
        snapshot_log.replace_functions(connection)
        define.replace_functions(connection)
        base_table.replace_log_views(connection)
        base_table.replace_guards(connection)
        guard.replace(connection, name)
    identity.record(connection, name)
    faults.point("site_upgrade.before_commit")


def downgrade(site: Site, revision: str) -> None:
    """Take the schema back to an older revision; `base` removes it.

    Raises:
        SchemaInUse: logs, snapshots, or changes that wait or are parked would be lost.
        StillNeeded: a view or another object of the user's depends on a dropped one.
        BadArgument: there is no such revision, or the site is at an older one.
        SiteNotInitialised, NewerSchema, SchemaBeforeBaseline.
    """
    with site.transaction() as connection:
        _lock(connection)
        current = _current(connection, site.name)
        if current is None:
            raise SiteNotInitialised(f"Site {site.name} has no schema snaptide.")
        _refuse_unknown(revision, site.name, current)
        filled = _filled(connection)
        try:
            with _ALEMBIC, ddl.dropping(f"Part of site {site.name}'s schema"):
                command.downgrade(_config(connection), revision)
        except StillNeeded:
            # If the site has rows to lose, our own views may be the dependent objects:
            # report the rows, which the user can do something about.
            if not filled:
                raise
            lost = [what for _, what in filled]
        else:
            lost = [what for name, what in filled if not _has(connection, name)]
        if lost:
            raise SchemaInUse(f"Site {site.name} still has {', '.join(lost)}.")
        if revision == "base":
            connection.execute(text("DROP SCHEMA snaptide CASCADE"))


def _refuse_unknown(revision: str, name: str, current: str) -> None:
    if revision == "base":
        return
    below = sorted(one for one in revisions.known() if one <= current)
    if revision not in below:
        raise BadArgument(
            f"The schema of site {name} is at {current} and cannot be taken back to "
            f"{revision!r}: base, {', '.join(below)}."
        )


def check(connection: Connection) -> None:
    """Raise if the schema differs from what the catalogs declare (for tests)."""
    command.check(_config(connection))


def _lock(connection: Connection) -> None:
    connection.execute(
        text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADE_LOCK}
    )


def _current(connection: Connection, name: str) -> str | None:
    """The revision of the schema; raises an error if this program does not know it."""
    current = revisions.of_site(connection)
    if current is None:
        return None
    revisions.refuse_newer(name, current)
    if current not in revisions.known():
        raise SchemaBeforeBaseline(
            f"The schema of site {name} is at {current}, and this program knows "
            f"{min(revisions.known())} and later ones."
        )
    return current


def _filled(connection: Connection) -> list[tuple[str, str]]:
    """Tables and views that hold what exists nowhere else."""
    return [
        (name, what)
        for name, what in _LIVING.items()
        if _has(connection, name)
        and connection.scalar(
            sa.select(sa.exists().select_from(sa.table(name, schema=SCHEMA)))
        )
    ]


def _has(connection: Connection, name: str) -> bool:
    return sa.inspect(connection).has_table(name, schema=SCHEMA)


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(revisions.folder()))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


#: Roles belong to the cluster: two sites in one cluster may create the role at once.
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
