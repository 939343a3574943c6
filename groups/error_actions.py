"""Chooses how masters treat transactions that they cannot apply; pauses pushes."""

from __future__ import annotations

from deferred.options import ErrorAction
from deferred.queues.backlog import set_disabled
from groups.change import Connections, administered, change
from groups.group import Group, changed
from groups.relay import holds
from groups.relay.holds import QuietGroup
from groups.relay.release import Unquieted, unquiet
from sites import Site
from sites.sessions import identity


def set_error_action(home: Site, name: str, action: ErrorAction) -> Group:
    """Choose how a master treats a transaction that it cannot apply.

    (Ingres: error mode.) It holds for pushes that are not told otherwise.

    Parameters:
        home: the master definition site.
        action: as `error_action` of a push.

    Raises:
        NoSuchGroup, NotDefinitionSite, SiteUnreachable.
    """

    def with_action(group: Group, connections: Connections) -> Group:
        return changed(group, error_action=action)

    return change(home, name, with_action)


def set_quiet(home: Site, name: str, master: str, *, quiet: bool) -> list[str]:
    """Pause all pushes of a group's masters to one of them, or let them go on.

    Returns:
        The masters that push to it.

    Raises:
        NoSuchGroup, NotDefinitionSite, NoSuchMaster, SiteUnreachable.
    """
    group = administered(home, name)
    group.master(master)
    senders = sorted({path.local for path in group.paths if path.target == master})
    for sender in senders if group.tables else ():
        set_disabled(home.peer(sender), master, disabled=quiet)
    return senders


def quiet_group(home: Site, name: str, master: str, *, why: str = "") -> QuietGroup:
    """Hold back all transactions for a group at one master (Ingres: QuietCDDS).

    Whichever site pushes them, they wait in the master's error queue, with those that
    depend on them; pushes of other groups go on. A transaction that is being applied
    at this moment is not held back.

    Parameters:
        why: the reason, for others to see.

    Returns:
        Since when it is quiet, and why; unchanged if it was quiet already.

    Raises:
        NoSuchGroup, NotDefinitionSite, NoSuchMaster, SiteUnreachable.
    """
    group = administered(home, name)
    group.master(master)
    with identity.confirmed(home.peer(master)) as connection:
        holds.begin(connection, [group.id], why or "by hand")
        [found] = holds.listed(connection, group.id)
        return found


def unquiet_group(home: Site, name: str, master: str) -> Unquieted:
    """Let a group go on at a master, and apply held-back transactions in order.

    Raises:
        NoSuchGroup, NotDefinitionSite, NoSuchMaster, SiteUnreachable.
    """
    group = administered(home, name)
    group.master(master)
    return unquiet(home.peer(master), group.id)
