"""Installing the trigger function that queues the changes of a table.

It identifies columns by their numbers in the captured table. It contains their present
names, and notices by itself when they were renamed (`sql/queue_function.sql`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from psycopg import sql
from sqlalchemy import Connection, text

from deferred.queues.sql import load
from sites.capture import triggers
from sites.capture.same_key import same_key
from sites.catalog import SCHEMA
from sites.names import comma, identifier, identifiers, numbered
from sites.sessions.exchange import raw
from sites.tables.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCapture:
    """What is recorded of a table whose changes are queued: both images."""

    table: Table
    queue: str
    #: sites to which the changes are pushed
    destinations: tuple[str, ...]
    #: only for base tables of updatable snapshots: the table for extra keys
    extra: str | None
    identity: tuple[str, ...]
    #: present names; recorded as o1, n1, o2, n2, ..., by the numbers of the columns
    columns: tuple[str, ...]
    #: the snapshot has columns left out, and no ROWID that would survive a new key
    refuse_new_keys: bool
    #: changes outside a coordinated transaction are refused
    synchronous: bool = False
    #: for a table at a master: its replication group, and the masters whose changes
    #: are sent on from here; '' is this one
    group: str | None = None
    forwarded: tuple[str, ...] = ()


#: What the names of queues, and of their functions, begin with.
PREFIX = "def$_"

#: The statements that are queued. A guard refuses TRUNCATE.
EVENTS = ("INSERT", "UPDATE", "DELETE")


def install(connection: Connection, capture: QueueCapture) -> None:
    """Queue changes of a table from now on; wait for open writers."""
    replace(connection, capture)
    triggers.attach(connection, capture.table, capture.queue, events=EVENTS)


def replace(connection: Connection, capture: QueueCapture) -> None:
    """Create or replace the trigger function of a queue, without a table lock."""
    raw(connection).execute(_function(capture))


def is_made_for(connection: Connection, queue: str, oid: int) -> bool:
    """Whether the function of a queue was made for the table with this oid.

    In a copy that was dumped and restored it was not. True for the function of an older
    version, which has no oid in it.
    """
    known = connection.scalar(
        _MADE_FOR, {"queue": queue, "named": r"TG_RELID <> '(\d+)'"}
    )
    return known in (None, str(oid))


_MADE_FOR = text(
    "SELECT substring(p.prosrc FROM :named) FROM pg_proc p"
    " WHERE p.pronamespace = 'snaptide'::regnamespace"
    " AND p.proname = :queue AND p.pronargs = 0"
)


def _function(capture: QueueCapture) -> sql.Composed:
    """The statement that creates or replaces the function of a queue."""
    there = dict(
        zip(capture.columns, identifiers(numbered("c", capture.columns)), strict=True)
    )
    table = capture.table
    same = same_key(table, capture.identity, there)
    shared: dict[str, sql.Composable] = {
        "queue": sql.Identifier(SCHEMA, capture.queue),
        "key": there[capture.identity[0]],
        "same_key": same,
        "old_images": comma(identifiers(numbered("o", capture.columns))),
        "new_images": comma(identifiers(numbered("n", capture.columns))),
        "old_columns": comma(sql.SQL("o.{}").format(c) for c in there.values()),
        "new_columns": comma(sql.SQL("n.{}").format(c) for c in there.values()),
    }
    steps = {name: _either_way(capture.columns, name, **shared) for name in _STEPS}
    # NULL for a snapshot, which `sources` does not mention.
    group = sql.Literal(capture.group)
    refuse = sql.SQL(load("refuse_moved")).format(moved=steps["moved_by_key"])
    return sql.SQL(load("queue_function")).format(
        function=sql.Identifier(SCHEMA, capture.queue),
        name=sql.Literal(capture.queue),
        table=sql.Literal(str(table.oid)),
        table_name=sql.Literal(identifier(table.qualified).as_string()),
        numbers=sql.Literal([table.column(name).number for name in capture.columns]),
        names=sql.Literal(list(capture.columns)),
        destinations=sql.Literal(list(capture.destinations)),
        applied=_applied(capture, there),
        together=sql.SQL(load("queue_together")).format(
            group=group, queue=shared["queue"]
        ),
        group=group,
        **steps,
        refuse_moved=refuse if capture.refuse_new_keys else sql.SQL(""),
        synchronous=sql.Literal(capture.synchronous),
        grouped=sql.Literal(capture.group is not None),
    )


def _applied(
    capture: QueueCapture, there: Mapping[str, sql.Identifier]
) -> sql.Composed:
    """The part of the function for changes that Snaptide itself writes."""
    if capture.group is not None:
        return sql.SQL(load("queue_forwarded")).format(
            group=sql.Literal(capture.group),
            forwarded=sql.Literal(list(capture.forwarded)),
        )
    extra = partial(
        _either_way,
        capture.columns,
        "extra",
        extra=sql.Identifier(SCHEMA, capture.extra or ""),
        extra_keys=comma(identifiers(numbered("k", capture.identity))),
        keys=comma(there[name] for name in capture.identity),
    )
    return sql.SQL(load("queue_aside")).format(
        cascade=triggers.CASCADE,
        extra_old=extra(rows=sql.SQL("snaptide_old")),
        extra_new=extra(rows=sql.SQL("snaptide_new")),
    )


def _step(name: str) -> str:
    """One of the statements of `queue_steps.sql`."""
    _, found = load("queue_steps").split(f"-- step: {name}\n")
    return found.partition("-- step: ")[0].strip()


#: Statements of the function itself; `extra` is for writes outside a refresh.
_STEPS = (
    "insert",
    "delete",
    "update_by_place",
    "update_by_key",
    "moved_by_key",
)

#: Placeholder for the names of columns, at which a composed statement is split.
_NAMED = "\0"


def _either_way(
    columns: Sequence[str], name: str, **parts: sql.Composable
) -> sql.Composed:
    """A statement of a queue's function, in two forms.

    The first form has the known names of columns, and is planned once; the other is
    composed at run time if columns were renamed.
    """
    statement = sql.SQL(_step(name))
    known = statement.format(
        named=comma(
            sql.SQL("r.{} AS {}").format(*map(sql.Identifier, pair))
            for pair in zip(columns, numbered("c", columns), strict=True)
        ),
        select=sql.SQL("PERFORM"),
        **{name: sql.SQL(name) for name in _VARIABLES},
        **parts,
    )
    composed = statement.format(
        named=sql.SQL(_NAMED),
        select=sql.SQL("SELECT"),
        **{name: sql.SQL(f"${n}") for n, name in enumerate(_VARIABLES, 1)},
        **parts,
    )
    pieces = composed.as_string().split(_NAMED)
    return sql.SQL(load("either_way").rstrip()).format(
        known=known,
        composed=sql.SQL(" || renamed || ").join(map(sql.Literal, pieces)),
    )


#: Variables of a queue's function that its statements use, in this order.
_VARIABLES = ("xact", "ins", "upd", "del")
