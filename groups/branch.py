"""The part of a master in a change of its group, as its server knows it: prepared."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

_PREFIX = "snaptide-group"


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One prepared transaction; its name says who decides it, and what it does."""

    group: uuid.UUID
    #: that the group is to have
    version: int
    #: the master is none any more then
    leaves: bool
    #: the master definition site
    home: str

    @property
    def gid(self) -> str:
        """Its name; prepared transactions of one server differ by it."""
        kind = "leave" if self.leaves else "arrange"
        number = uuid.uuid4().hex[:8]
        return f"{_PREFIX}:{self.group}:{self.version}:{kind}:{number}:{self.home}"


def prepared(connection: Connection) -> dict[str, Branch]:
    """What is prepared in this database, by its names."""
    gids = connection.scalars(
        sa.text(
            "SELECT gid FROM pg_prepared_xacts WHERE starts_with(gid, :prefix)"
            " AND database = current_database()"
        ),
        {"prefix": f"{_PREFIX}:"},
    )
    return {gid: _branch(gid) for gid in gids}


def _branch(gid: str) -> Branch:
    _, group, version, kind, _, home = gid.split(":", 5)
    return Branch(
        group=uuid.UUID(group), version=int(version), leaves=kind == "leave", home=home
    )
