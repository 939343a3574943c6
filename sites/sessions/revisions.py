"""The revisions of the schema `snaptide`: which one a site has, and which is needed.

They are numbered, from the baseline on, and their number is that of the protocol, too:
a program works at both sides of a contact with statements of its own, so both need the
tables that these statements name. Each contact compares it, in the statement that asks
who a database is (`sites.sessions.identity`).

Reading them needs no Alembic, whose import takes as long as all that `snaptide status`
does.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection

from sites.catalog import SCHEMA
from sites.errors import NewerSchema, OlderSchema

#: The oldest revision that the other side of a contact may have: a master that is
#: pushed to, refreshed from, checked against or changed synchronously.
#:
#: Raise it to a new revision whose tables, columns or functions such a contact uses at
#: the other side. A revision that concerns only what a site keeps for itself, as its
#: queue, its snapshots or the reports of its checks, leaves it. There is no newest one:
#: a program cannot know what a later version changes, so it refuses a newer schema.
OLDEST_PARTNER = "0071"

#: Has one row: the site's revision.
VERSION = sa.table("alembic_version", sa.column("version_num", sa.Text), schema=SCHEMA)

#: The revision of the site that is asked, as part of another statement.
OF_SITE = sa.select(VERSION.c.version_num).scalar_subquery().label("revision")


def of_site(connection: Connection) -> str | None:
    """The revision of the site's schema; None if it has no schema."""
    there = sa.func.to_regclass(f"{SCHEMA}.{VERSION.name}", type_=sa.Text)
    if connection.scalar(sa.select(there)) is None:
        return None
    return connection.scalar(sa.select(VERSION.c.version_num))


def refuse_other(site: str, revision: str, *, partner: bool = False) -> None:
    """Refuse a schema for which this program was not made.

    Parameters:
        site: the site that has it.
        partner: the site is the other side of a contact, so that `OLDEST_PARTNER` will
            do; else the schema has to be the one of this program.

    Raises:
        NewerSchema, OlderSchema: it is another one.
    """
    refuse_newer(site, revision)
    needed = OLDEST_PARTNER if partner else head()
    if revision < needed:
        raise OlderSchema(
            f"The schema of site {site} is at {revision}, but this program needs "
            f"{needed}: run snaptide site init {site}.",
            site=site,
            revision=revision,
            needed=needed,
        )


def refuse_newer(site: str, revision: str) -> None:
    """Refuse a schema that a newer program made.

    Raises:
        NewerSchema: it is one.
    """
    if is_newer(revision):
        raise NewerSchema(
            f"The schema of site {site} is at {revision}, but this program only knows "
            f"{head()}: install the newer Snaptide here.",
            site=site,
            revision=revision,
            known=head(),
        )


@cache
def head() -> str:
    """The revision that this program makes, and needs at a site that it works for."""
    return max(known())


def is_newer(revision: str | None) -> bool:
    """Whether a revision is newer than those that this program knows."""
    return revision is not None and revision > head()


def known() -> set[str]:
    """The revisions that this program can make."""
    return {file.name.partition("_")[0] for file in folder().glob("versions/0*.py")}


def folder() -> Path:
    """Where the migrations are."""
    # A wheel has them inside the package snaptide; a checkout has them beside it.
    root = Path(__file__).parents[2]
    inside = root / "snaptide" / "migrations"
    return inside if inside.is_dir() else root / "migrations"


def script(name: str) -> str:
    """The SQL of a migration, by the name of its file."""
    return (folder() / "sql" / f"{name}.sql").read_text("utf-8")


def run_script(connection: Connection, name: str) -> None:
    """Run the SQL of a migration; its percent signs and colons mean themselves."""
    options = {"no_parameters": True}
    connection.exec_driver_sql(script(name), execution_options=options)
