"""Checking that the stamps by which rules decide tell when a row was changed.

If nothing sets the stamp at a site, changes from there always look old. If a trigger at
the master sets it anew when a change arrives, that change looks younger than it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlalchemy import Connection, Row, select, text

from masters.analysis.convergence import Finding, Severity
from masters.catalog import registered_snapshot
from masters.rules.rule import Rule
from masters.rules.table_rules import TableRules
from sites import QualifiedName, Site, names
from sites.errors import SnaptideError
from sites.names import identifier
from sites.sessions.exchange import raw
from sites.sql import load

#: Methods that take the value of a column as the time of a change.
_BY_STAMP = {"latest_timestamp", "earliest_timestamp", "informix_timestamp"}

_ANEW = (
    "trigger {trigger} sets {column} again when a change arrives, so the change "
    "looks newer than it is; make the trigger ignore changes from other sites"
)
_UNSET = (
    "no trigger at {site} sets {column} when a row of {snapshot} is changed: unless "
    "the application sets it, its changes look as old as the row; create a trigger "
    "on the base table"
)


def check(site: Site, tables: Iterable[TableRules]) -> list[Finding]:
    """Find faults in the stamps of a master's rules, at the master and at its sites.

    Parameters:
        tables: rules by table, as `masters.rules.list_rules` gives them.
    """
    return [
        Finding(table=one.table, rule=rule, severity=severity, reason=reason)
        for one in tables
        for rule in one.rules
        if rule.method in _BY_STAMP
        for severity, reason in _of_rule(site, one.table, rule)
    ]


def _of_rule(
    site: Site, table: QualifiedName, rule: Rule
) -> Iterator[tuple[Severity, str]]:
    column = str(rule.parameters.get("column"))
    with site.transaction() as connection:
        found = _stamping(connection, table, column)
        snapshots = _snapshots(connection, table)
    for trigger in found:
        if not trigger.asks:
            yield Severity.WARNING, _ANEW.format(trigger=trigger.name, column=column)
    for one in snapshots:
        if not _is_stamped(site, one.site_name, names.parse(one.snapshot), column):
            where = {"site": one.site_name, "snapshot": one.snapshot}
            yield Severity.NOTE, _UNSET.format(column=column, **where)


def _stamping(
    connection: Connection, table: QualifiedName, column: str
) -> list[Row[tuple[str, bool]]]:
    named = {"table": identifier(table).as_string(raw(connection)), "column": column}
    return list(connection.execute(text(load("stamping")), named))


def _snapshots(
    connection: Connection, table: QualifiedName
) -> list[Row[tuple[str, str]]]:
    known = registered_snapshot.c
    return list(
        connection.execute(
            select(known.site_name, known.snapshot)
            .where(known.table_schema == table.schema, known.table_name == table.name)
            .where(known.updatable)
            .order_by(known.site_name, known.snapshot)
        )
    )


def _is_stamped(site: Site, peer: str, snapshot: QualifiedName, column: str) -> bool:
    """Whether a trigger at a site may set a column; True if that is not known."""
    base = QualifiedName(snapshot.schema, names.derived("snap$_", snapshot))
    try:
        with site.peer(peer).transaction() as connection:
            return bool(_stamping(connection, base, column))
    except SnaptideError:
        return True
