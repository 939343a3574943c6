"""Sets the paths of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from groups import paths
from groups.change import Connections, change, lock_writers, refuse_busy, refuse_parked
from groups.group import Group, changed
from groups.paths import Path
from sites import Site

#: Makes paths for the masters of a group.
Shape = Callable[[Sequence[str]], Sequence[Path]]


def set_paths(home: Site, name: str, shape: Shape) -> Group:
    """Choose which master sends on to which, by where a change began.

    No change of the group may be on its way: it would go by old paths and new ones.

    Parameters:
        home: the master definition site.
        shape: makes the paths from the names of the masters: `full_mesh`, or
            `functools.partial(star, hub=...)`, or a function of yours.

    Raises:
        NoSuchGroup, NotDefinitionSite.
        BadPaths: a path is missing, doubled, or part of a circle, with a picture of
            it; or one leads on from a master that is joining.
        GroupBusy: changes are on their way, or wait in an error queue.
    """

    def with_paths(group: Group, connections: Connections) -> Group:
        chosen = tuple(
            path for path in shape(group.names) if path.source not in group.read_only
        )
        paths.check(group.names, chosen, group.read_only, group.joining)
        lock_writers(connections, group.tables)
        refuse_busy(connections, group.tables)
        refuse_parked(connections, group.tables)
        return changed(group, paths=chosen)

    return change(home, name, with_paths)
