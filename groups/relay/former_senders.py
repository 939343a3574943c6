"""Refusing pushes from masters that a group has forgotten.

A master that was given up as dead does not know this when it comes back.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from deferred.errors import NoMasterAnyMore
from groups.catalog import former_sender
from groups.group import name_of
from sites.sessions.prepared import as_json


def forbid(connection: Connection, group: uuid.UUID, sender: str) -> None:
    """Take no more changes of a group from a site that was its master."""
    new = insert(former_sender).values(group_id=group, sender=sender)
    connection.execute(new.on_conflict_do_nothing())


def admit(connection: Connection, group: uuid.UUID, senders: Iterable[str]) -> None:
    """Take changes of a group from these masters, even if they were forbidden."""
    connection.execute(
        sa.delete(former_sender).where(
            former_sender.c.group_id == group,
            former_sender.c.sender.in_(list(senders)),
        )
    )


def forget(connection: Connection, group: uuid.UUID) -> None:
    """Delete the record of a group's former masters, when this site leaves it."""
    mine = former_sender.c.group_id == group
    connection.execute(sa.delete(former_sender).where(mine))


def forgotten_by(
    connection: Connection, groups: Iterable[uuid.UUID], sender: str
) -> uuid.UUID | None:
    """One of these groups that has forgotten the sender; None if there is none."""
    return connection.scalar(
        select(former_sender.c.group_id).where(
            former_sender.c.sender == sender,
            former_sender.c.group_id.in_(sorted(set(groups))),
        )
    )


#: The groups that have forgotten `its_sender`, for statements that read more.
FORGOTTEN = as_json(
    select(former_sender.c.group_id).where(
        former_sender.c.sender == sa.bindparam("its_sender", type_=sa.Text)
    ),
    "forgotten",
)


def refuse(
    connection: Connection,
    found: Sequence[Mapping[str, str]] | None,
    groups: Iterable[uuid.UUID],
    sender: str,
) -> None:
    """Make sure that a site is not a former master of the groups that it will push.

    Parameters:
        found: what the destination has in `FORGOTTEN`.
        groups: those that it pushes as one of their masters.

    Raises:
        NoMasterAnyMore: it is one.
    """
    gone = {uuid.UUID(one["group_id"]) for one in found or ()}
    for group in sorted(gone.intersection(groups)):
        name = name_of(connection, group)
        raise NoMasterAnyMore(
            f"{sender} is no longer a master of group {name}.",
            group=name,
            master=sender,
        )
