"""Makes sure that whoever alters snapshots has read them as they still are."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from snapshots.definitions import snapshot
from snapshots.definitions.refresh_group import RefreshGroup, find, lock_at
from snapshots.definitions.snapshot import Snapshot
from snapshots.errors import PositionMoved


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """A refresh group and its snapshots, as whoever alters them has read them."""

    head: RefreshGroup
    members: tuple[Snapshot, ...]

    def lock(self, connection: Connection, *, new_matters: bool = False) -> None:
        """Lock the group's row until the commit, and check that all is as it was.

        The session that keeps others away (`exclusively`) may have been ended.

        Parameters:
            new_matters: refuse also if a snapshot was created in the group meanwhile.

        Raises:
            PositionMoved: the group was refreshed or altered in between.
        """
        lock_at(connection, self.head)
        now = snapshot.members(connection, self.head.name)
        others = [one for one in self.members if one not in now]
        if others or (new_matters and len(now) > len(self.members)):
            raise PositionMoved(
                f"Snapshots of group {self.head.name} were altered in the meantime.",
                group=self.head.name,
            )


def read(connection: Connection, name: str) -> Before:
    """A group as it is; call it inside `refresh_group.exclusively`.

    Raises:
        PositionMoved: it was dropped in the meantime.
    """
    group = find(connection, name)
    if group is None:
        raise PositionMoved(f"Refresh group {name} was dropped.", group=name)
    return Before(head=group, members=tuple(snapshot.members(connection, name)))
