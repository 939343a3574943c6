"""One transaction at each master of a group, committed when all of them are ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import sqlalchemy as sa
from sqlalchemy import Connection

from groups.errors import OtherSchema
from sites import Site, faults, identity, locks


@contextmanager
def at_all(home: Site, masters: Sequence[str]) -> Iterator[Mapping[str, Connection]]:
    """Open a transaction at each of these masters; all commit at the end, or none.

    They wait for no lock longer than a moment. Each that fails before the first commit
    rolls all back. After it, what the master definition site has, the others are given
    by the next command (`groups.arrange`).

    Parameters:
        masters: in the order of their commits.

    Raises:
        SiteUnreachable, SiteChanged: one of them cannot take part.
        OtherSchema: they cannot read what the others write.
    """
    with ExitStack() as stack:
        connections: dict[str, Connection] = {}
        for name in masters:
            connection = stack.enter_context(home.peer(name).connect())
            identity.confirm(connection, name)
            locks.briefly(connection)
            connections[name] = connection
        _refuse_other_schema(connections)
        yield connections
        for connection in connections.values():
            faults.point("group.before_commit")
            connection.commit()


def _refuse_other_schema(connections: Mapping[str, Connection]) -> None:
    asked = sa.text("SELECT version_num FROM snaptide.alembic_version")
    versions = {name: str(c.scalar(asked)) for name, c in connections.items()}
    if len(set(versions.values())) > 1:
        told = ", ".join(f"{name} has {version}" for name, version in versions.items())
        raise OtherSchema(f"The masters have different schemas: {told}.")
