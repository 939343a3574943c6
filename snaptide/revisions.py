"""The revisions of the schema `snaptide`: which one a site has, and which is needed.

They are numbered, from the baseline on. Reading them needs no Alembic, whose import
takes as long as all that `snaptide status` does.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection

from sites.catalog import SCHEMA

#: Has one row: the site's revision.
VERSION = sa.table("alembic_version", sa.column("version_num", sa.Text), schema=SCHEMA)


def of_site(connection: Connection) -> str | None:
    """The revision of the site's schema; None if it has no schema."""
    there = sa.func.to_regclass(f"{SCHEMA}.{VERSION.name}", type_=sa.Text)
    if connection.scalar(sa.select(there)) is None:
        return None
    return connection.scalar(sa.select(VERSION.c.version_num))


@cache
def head() -> str:
    """The revision that this program needs."""
    return max(known())


def is_newer(revision: str | None) -> bool:
    """Whether a revision is newer than those that this program knows."""
    return revision is not None and revision > head()


def known() -> set[str]:
    """The revisions that this program can make."""
    return {file.name.partition("_")[0] for file in folder().glob("versions/0*.py")}


def folder() -> Path:
    """Where the migrations are."""
    # A wheel has them inside this package; a checkout has them beside it.
    inside = Path(__file__).parent / "migrations"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "migrations"
