"""A master's part in a change of its group: a prepared transaction."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

_PREFIX = "snaptide-group"


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One prepared transaction; its name says what it does and which site decides."""

    group: uuid.UUID
    #: the version that the group is to have
    version: int
    #: whether the master leaves the group
    leaves: bool
    #: the master definition site
    home: str

    @property
    def gid(self) -> str:
        """Its name, which no other prepared transaction of the server has."""
        kind = "leave" if self.leaves else "arrange"
        number = uuid.uuid4().hex[:8]
        return f"{_PREFIX}:{self.group}:{self.version}:{kind}:{number}:{self.home}"


def prepared(connection: Connection) -> dict[str, Branch]:
    """The branches that are prepared in this database, by name."""
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
