"""The contact of a refresh: both sides remember the moment that it reads.

A contact commits, so it has sessions of its own besides those that hold the moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from sqlalchemy import Connection

from sites.sessions import contacts
from sites.sessions.peers import Pair
from snapshots.differences.window import Window
from snapshots.refreshing.task import Task


def open_beside(task: Task, until: ExitStack) -> Sequence[Connection]:
    """Open a second session at both sides.

    A refresh that waited for them would keep its first ones from others that wait too.
    So it does not: it gives back what it has and begins anew. Whoever has both can go
    on, and leaves one place at the master for what is read outside the pool.

    Raises:
        NoConnectionFree: there is none.
    """
    sides = task.site, task.master
    return [until.enter_context(one.session(waits=False)) for one in sides]


def meet(beside: Sequence[Connection], pair: Pair, seen: Window) -> None:
    """Have both sides remember the window, so that a restored master is recognized.

    Parameters:
        beside: the sessions for it; closes them.
        pair: what the two remembered when the refresh began.
    """
    site, master = beside
    contacts.meet(site, master, replace(pair, master=seen.master))
    site.close()
    master.close()
