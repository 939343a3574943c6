"""Changing the tables of a group, at all its masters or at none."""

from __future__ import annotations

from psycopg.errors import Error
from sqlalchemy import Connection

from deferred.queues import group_queue
from groups import shape
from groups.change import Connections, change, compared
from groups.errors import CannotPrepare, DdlRefused, NotQuiesced
from groups.everywhere import can_prepare
from groups.group import Group, Status, changed
from sites import Site
from sites.transport import raw
from sites.triggered import users_search_path


def execute_ddl(home: Site, name: str, statements: str) -> Group:
    """Run DDL at all masters of a group, and record its tables as they are then.

    (Oracle: EXECUTE_DDL, ALTER_MASTER_REPOBJECT.) The tables of the group have to be
    the same at all masters afterwards. Calls that were delivered are kept no longer.

    Parameters:
        home: the master definition site.
        statements: SQL, as a user with the usual search path would write it.

    Raises:
        NoSuchGroup, NotDefinitionSite, SiteUnreachable.
        NotQuiesced: the group is open to users.
        CannotPrepare: a server allows no prepared transactions, without which
            nobody could say that all masters or none have changed.
        DdlRefused: a master refuses a statement; nothing was changed anywhere.
        TablesDiffer, CannotReplicate, UnknownTable: as above.
    """

    def with_ddl(group: Group, connections: Connections) -> Group:
        if group.status is not Status.QUIESCED:
            raise NotQuiesced(f"Group {name} is {group.status}.", group=name)
        for master, connection in connections.items():
            if len(connections) > 1 and not can_prepare(connection):
                raise CannotPrepare(
                    f"{master} has max_prepared_transactions = 0.", master=master
                )
            for table in group.tables:
                group_queue.remove(connection, table)
            _run(connection, master, statements)
        for table in group.tables:
            shape.refuse_different(compared(group, connections), table, home.name)
        return changed(group)

    return change(home, name, with_ddl)


def _run(connection: Connection, master: str, statements: str) -> None:
    try:
        with users_search_path(connection):
            raw(connection).execute(statements.encode())
    except Error as error:
        reason = error.diag.message_primary or str(error)
        raise DdlRefused(f"{master}: {reason}", master=master) from error
