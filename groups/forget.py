"""Takes a master that is gone for good out of its group."""

from __future__ import annotations

from groups import redirect
from groups.change import (
    Connections,
    administered,
    change,
    lock_writers,
    refuse_busy,
    refuse_parked,
)
from groups.errors import MasterAnswers
from groups.group import Group, is_sent_on, refuse_definition_site, without_master
from groups.relay import former_senders
from sites import Site, faults
from sites.errors import SiteUnreachable


def forget_master(home: Site, name: str, master: str) -> Group:
    """Take a master that does not answer, and never will, out of a group.

    Changes that it has not sent on are lost, and changes that wait for it are not sent.
    Changes that it has brought to one of the others and not to another do not get
    there: compare the masters (`check`), and let one that lacks rows join again. If the
    lost master comes back, its pushes are refused: it has to join again. If the command
    is interrupted, run it again.

    Parameters:
        home: the master definition site.

    Raises:
        NoSuchGroup, NotDefinitionSite.
        SiteUnreachable: another master does not answer.
        MasterAnswers: the master answers, and can be removed.
        CannotReplicate: it is the master definition site.
        GroupBusy: other masters still have changes of it on their way.
    """
    group = administered(home, name)
    refuse_definition_site(group, master)
    if master in group.names:
        _refuse_alive(home, name, master)

        def without(before: Group, connections: Connections) -> Group:
            lock_writers(connections, before.tables)
            if is_sent_on(before, master):
                refuse_busy(connections, before.tables, besides=master)
                refuse_parked(connections, before.tables)
            for connection in connections.values():
                former_senders.forbid(connection, before.id, master)
            return without_master(before, master)

        group = change(home, name, without, gone=[master], here_first=True)
        faults.point("group_forget.after_change")
    for one in group.names:
        with home.peer(one).transaction() as connection:
            redirect.forget_destination(connection, master)
    return group


def _refuse_alive(home: Site, name: str, master: str) -> None:
    try:
        with home.peer(master).session():
            pass
    except SiteUnreachable:
        return
    raise MasterAnswers(f"{master} still answers.", group=name, master=master)
