"""Makes the errors that tell an application why its transaction cannot go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import psycopg
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from deferred.parked.calls import Call
from masters.apply import Outcome
from sites import Site
from sites.errors import SiteUnreachable, SnaptideError
from synchronous.errors import CommitFailed, RefusedByMaster, SynchronousConflict

if TYPE_CHECKING:
    from synchronous.participant import Participant


def conflict(master: str, outcome: Outcome, calls: Sequence[Call]) -> SnaptideError:
    """The error for a conflict that no rule of the master settles."""
    first = next(call for call in calls if call.call_no in outcome.unresolved)
    more = len(outcome.unresolved) - 1
    also = f" (and {more} more)" if more else ""
    return SynchronousConflict(
        f"{first.target} at {master}: {outcome.unresolved[first.call_no]}{also}.",
        master=master,
        table=str(first.target),
        old=first.old,
        new=first.new,
        current=first.current,
    )


def refused(error: psycopg.Error | DBAPIError, lost: str | None) -> SnaptideError:
    """The error for changes that a master refused, or for a lost connection.

    Parameters:
        lost: the site or master whose connection has gone.
    """
    cause = error.orig if isinstance(error, DBAPIError) else error
    state = getattr(cause, "sqlstate", None)
    if state is None or state.startswith(("08", "57P")):
        name = lost or "a master"
        return SiteUnreachable(
            f"The connection to {name} was lost: {_message(cause)}", site=lost
        )
    return RefusedByMaster(f"The master refuses: {_message(cause)}", sqlstate=state)


def not_prepared(participant: Participant, error: psycopg.Error) -> SnaptideError:
    """The error for a master that could not prepare its part."""
    name = participant.master.name
    message = f"{name} cannot commit: {_message(error)}"
    if getattr(error, "sqlstate", None) == "0A000":
        culprits = _notifying(participant)
        if culprits:
            message += f" (triggers that notify: {', '.join(culprits)})"
    return CommitFailed(message, master=name, sqlstate=getattr(error, "sqlstate", None))


def not_committed(site: Site, error: psycopg.Error) -> SnaptideError:
    """The error for a site that did not commit itself; the masters roll back."""
    diagnostics = error.diag
    if (diagnostics.table_name, diagnostics.column_name) == ("decision", "gid"):
        return CommitFailed(
            f"Changes at {site.name} were undone without its coordinator: set a "
            "savepoint, or roll back to one, in a statement of its own."
        )
    return CommitFailed(
        f"{site.name} cannot commit: {_message(error)}",
        sqlstate=getattr(error, "sqlstate", None),
    )


def _notifying(participant: Participant) -> list[str]:
    """Triggers of users at a master whose functions send notifications."""
    with participant.master.session() as connection:
        return notifying_triggers(connection)


def notifying_triggers(connection: Connection) -> list[str]:
    """Triggers of users, by table, whose functions send notifications."""
    return list(connection.scalars(text(_NOTIFYING)))


_NOTIFYING = r"""
SELECT DISTINCT t.tgname || ' on ' || c.oid::regclass
FROM pg_trigger t
JOIN pg_class c ON c.oid = t.tgrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_proc p ON p.oid = t.tgfoid
WHERE NOT t.tgisinternal AND n.nspname <> 'snaptide'
AND p.prosrc ~* '(\mnotify\M|pg_notify)' ORDER BY 1
"""


def _message(error: BaseException | None) -> str:
    diagnostics = getattr(error, "diag", None)
    parts = [
        getattr(diagnostics, name, None)
        for name in ("message_primary", "message_detail")
    ]
    return " ".join(part for part in parts if part) or " ".join(str(error).split())
