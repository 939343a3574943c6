"""Checks that all triggers of ours exist, on partitions too, and are on.

They record changes, or refuse those of frozen rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, text

from masters.log import arming
from sites.capture import triggers
from sites.names import QualifiedName
from snaptide.doctor import guarded
from snaptide.doctor.finding import Finding, error, info, warning

#: Each table that has such triggers, with all its partitions and inheritance children,
#: and the triggers that call their function.
_TRIGGERS = text(
    """
    WITH RECURSIVE recorded AS (
        SELECT table_schema AS schema, table_name AS name, log_table AS function,
               ARRAY['insert', 'update', 'delete', 'truncate', 'replica'] AS events
        FROM snaptide.snapshot_log
      UNION ALL
        SELECT base_schema, base_table, queue_table, ARRAY['insert', 'update', 'delete']
        FROM snaptide.queue
      UNION ALL
        SELECT schema, base_table, 'frozen' || substr(extra_table, 6),
               ARRAY['update', 'delete']
        FROM snaptide.snapshot WHERE loaded AND leaving = 'freeze'
    ), tree AS (
        SELECT r.function, r.events, c.oid, c.oid AS root
        FROM recorded r JOIN pg_namespace n ON n.nspname = r.schema
        JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = r.name
      UNION
        SELECT t.function, t.events, i.inhrelid, t.root
        FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid
    )
    SELECT n.nspname AS schema, c.relname AS name, t.oid <> t.root AS below,
           t.function, t.events,
           COALESCE((
               SELECT jsonb_object_agg(g.tgname, g.tgenabled::text)
               FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid
               WHERE g.tgrelid = t.oid AND p.proname = t.function
                 AND p.pronamespace = 'snaptide'::regnamespace
           ), '{}'::jsonb) AS triggers
    FROM tree t JOIN pg_class c ON c.oid = t.oid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    ORDER BY 1, 2, 4
    """
)

#: Triggers of our own tables that give transactions their order.
_ORDER = text(
    "SELECT tgname, tgenabled::text AS enabled FROM pg_trigger"
    " WHERE tgrelid = 'snaptide.deferred_transaction'::regclass AND NOT tgisinternal"
)
_ORDER_TRIGGERS = ("snaptide_order_first", "snaptide_order_last")

#: Whether a table with a log may get further parts, as it has had some already.
_MAY_GET_PARTS = text(
    """
    SELECT EXISTS (
        SELECT FROM snaptide.snapshot_log l
        JOIN pg_namespace n ON n.nspname = l.table_schema
        JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = l.table_name
        WHERE c.relkind = 'p' OR c.relhassubclass)
    """
)


#: Partitioned tables with a log whose present owners may not have its function called.
_OWNERS = text(
    """
    SELECT c.oid::regclass::text AS name, pg_get_userbyid(c.relowner) AS owner
    FROM snaptide.snapshot_log l
    JOIN pg_namespace n ON n.nspname = l.table_schema
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = l.table_name
    JOIN pg_proc p ON p.proname = l.log_table
     AND p.pronamespace = 'snaptide'::regnamespace AND p.pronargs = 0
    WHERE c.relkind = 'p' AND NOT has_function_privilege(c.relowner, p.oid, 'EXECUTE')
    ORDER BY 1
    """
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """A table whose changes one of our trigger functions records or refuses."""

    table: QualifiedName
    #: a partition or an inheritance child
    below: bool
    function: str
    #: name of each trigger that should exist -> how it is enabled, "" if it is missing
    triggers: dict[str, str]

    @property
    def refuses(self) -> bool:
        """Whether the triggers refuse changes of frozen rows, and record nothing."""
        return self.function.startswith("frozen$")

    @property
    def without(self) -> str:
        """What happens while a trigger is missing or off."""
        if self.refuses:
            return "users can change rows that are frozen until they leave"
        return "changes of it are not recorded"

    def afterwards(self, site: str) -> str:
        """What is left to do when the trigger is there again.

        A complete refresh would revert what a site has changed and not queued.
        """
        if self.refuses:
            return ""
        if self.function.startswith("def$"):
            return f"; then {guarded.compare(site)}"
        return "; then refresh its snapshots completely"


def check(connection: Connection, site: str) -> Iterator[Finding]:
    """Findings about triggers of logs and queues."""
    for recorded in _recorded(connection):
        yield from _missing(site, recorded)
        yield from _not_always(site, recorded)
    yield from _arming(connection, site)
    for row in connection.execute(_OWNERS):
        yield error(
            site,
            row.name,
            f"Its owner is {row.owner} now, who may not call the function of its "
            "snapshot log: PostgreSQL refuses new partitions.",
            f"snaptide log repair {site} {row.name}",
        )
    enabled = {row.tgname: row.enabled for row in connection.execute(_ORDER)}
    for name in _ORDER_TRIGGERS:
        if enabled.get(name) != triggers.ALWAYS:
            yield error(
                site,
                "snaptide.deferred_transaction",
                f"Trigger {name} is missing or not always on: transactions get no "
                "order and are pushed late or never.",
                f"ALTER TABLE snaptide.deferred_transaction ENABLE ALWAYS TRIGGER "
                f"{name}",
            )


def _arming(connection: Connection, site: str) -> Iterator[Finding]:
    """The event trigger, of a master that has use for it."""
    why = arming.why_not(connection)
    if why is None or not connection.scalar(_MAY_GET_PARTS):
        return
    finding = info if why == arming.MISSING else warning
    yield finding(
        site,
        f"event trigger {arming.TRIGGER}",
        f"It {why}: a new partition gets the triggers of its snapshot log by the next "
        "refresh, or by snaptide log repair.",
        "To have it get them at once, a superuser runs what this prints: "
        f"snaptide log repair {site} --print",
    )


def _recorded(connection: Connection) -> Iterator[_Recorded]:
    for row in connection.execute(_TRIGGERS):
        prefix = f"snaptide_{row.function.partition('$')[0]}_"
        yield _Recorded(
            table=QualifiedName(row.schema, row.name),
            below=row.below,
            function=row.function,
            triggers={
                prefix + event: row.triggers.get(prefix + event, "")
                for event in row.events
            },
        )


def _missing(site: str, recorded: _Recorded) -> Iterator[Finding]:
    gone = [name for name, how in recorded.triggers.items() if not how]
    if not gone:
        return
    what = "partition" if recorded.below else "table"
    yield error(
        site,
        str(recorded.table),
        f"The {what} lacks {', '.join(gone)}: {recorded.without}.",
        "; ".join(_create(recorded, name) for name in gone) + recorded.afterwards(site),
    )


def _not_always(site: str, recorded: _Recorded) -> Iterator[Finding]:
    for name, how in recorded.triggers.items():
        replica = name.endswith("_replica")
        if how and how != (triggers.REPLICA if replica else triggers.ALWAYS):
            on = "on for native replication alone" if replica else "always on"
            state = "disabled" if how == "D" else f"not {on}"
            turn_on = triggers.enabling(
                recorded.table, name, triggers.SUBSCRIBED if replica else ""
            )
            yield error(
                site,
                str(recorded.table),
                f"Trigger {name} is {state}: {recorded.without}.",
                turn_on.as_string() + recorded.afterwards(site),
            )


def _create(recorded: _Recorded, trigger: str) -> str:
    event = trigger.rpartition("_")[2].upper()
    made = triggers.creation(recorded.table, recorded.function, event)
    return "; ".join(one.as_string() for one in made)
