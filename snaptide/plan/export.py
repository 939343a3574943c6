"""Writes down a site as a file would describe it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, text

import deferred
import groups
import masters
from masters.rules import rulebook
from sites import Site, names
from sites.names import quoted
from sites.sessions import identity
from sites.tables import ddl
from sites.tables.table import Table, describe
from snapshots.definitions import snapshot
from snapshots.definitions.definition import choose
from snapshots.definitions.numbered import NONE, numbered
from snapshots.definitions.policy import Leaving
from snapshots.definitions.snapshot import Snapshot
from snaptide import limits
from snaptide.plan import contracts, published
from snaptide.plan.document import Document
from snaptide.plan.errors import NoSuchParameter
from snaptide.plan.found import Found, found_at, may_read
from snaptide.plan.parameters import escaped
from snaptide.plan.phrased import Values, compared, phrased, templated
from snaptide.plan.wanted import home_of

#: What a file has no word for: rights on columns, and rights to pass rights on.
_UNSAID = text("""
SELECT format('the right of %s to %s %s', who, what, of)
FROM (
    SELECT a.grantee::regrole::text AS who, a.privilege_type AS what,
           'column ' || t.attname AS of
    FROM pg_attribute t CROSS JOIN aclexplode(t.attacl) a
    WHERE t.attrelid = to_regclass(:name)
  UNION ALL
    SELECT a.grantee::regrole::text, 'pass on', a.privilege_type
    FROM pg_class c CROSS JOIN aclexplode(c.relacl) a
    WHERE c.oid = to_regclass(:name) AND a.is_grantable AND a.grantee <> c.relowner
  UNION ALL
    SELECT a.grantee::regrole::text, a.privilege_type, 'it'
    FROM pg_class c CROSS JOIN aclexplode(c.relacl) a
    WHERE c.oid = to_regclass(:name) AND a.grantee <> c.relowner
      AND a.privilege_type NOT IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
) unsaid ORDER BY 1
""")

_SAID = ("SELECT", "INSERT", "UPDATE", "DELETE")

#: A master, one of its tables, and what a file says of it.
_Said = tuple[str, str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A site as a document, as TOML has it."""

    document: dict[str, Any]
    #: the values that stood where the document has parameters now
    parameters: Mapping[str, str] = field(default_factory=dict)
    #: what the site has that a file has no word for
    notes: tuple[str, ...] = ()


def export(site: Site, parameters: Iterable[str] = ()) -> Exported:
    """Describe a site as a file does: a plan of that file has nothing to do.

    Parameters:
        parameters: columns, as `store_id` or short `store`: the value that the site's
            conditions compare them with becomes `${store}`, also at the end of the
            site's name.

    Raises:
        NoSuchParameter: no condition compares such a column, or with several values.
        SiteUnreachable: the site or one of its masters.
        SiteNotInitialised: there is nothing to describe.
    """
    with identity.initialised(site) as connection:
        kept = snapshot.all_of(connection)
        notes = [*_unsaid(connection, kept)]
    notes += _besides(site)
    found = found_at(site)
    outline = _outline(site, found, kept)
    tables = _tables(site, found, kept)
    ruled = {
        home: some
        for home, some in tables.items()
        if may_read(site.peer(home), "snaptide.resolution_rule")
    }
    notes += [
        f"the rules and contracts at {home}, which its user there may not read"
        for home in tables.keys() - ruled.keys()
    ]
    values = {name: _value(site, kept, name) for name in parameters}
    sections = _snapshots(site, found, kept, values)
    short = _named(site.name, {name: value for name, (_, value) in values.items()})
    document: dict[str, Any] = {
        "site": {"name": short},
        "groups": _groups(found),
        "logs": _by_table("the log", _logs(site, found, tables), outline, notes),
        "snapshots": sections,
        "tables": _by_table("the rules", _rules(site, ruled), outline, notes),
        "destinations": _budgets(found),
        "schedules": escaped(_schedules(found)),
        "contracts": contracts.exported(site, found),
        "publications": published.exported(found),
    }
    return Exported(
        document={name: section for name, section in document.items() if section},
        parameters={name: value for name, (_, value) in values.items()},
        notes=tuple(notes),
    )


def _snapshots(
    site: Site, found: Found, kept: Sequence[Snapshot], values: Values
) -> dict[str, dict[str, Any]]:
    with ExitStack() as opened:
        connections = {
            one.master: opened.enter_context(site.peer(one.master).session())
            for one in found.groups.values()
        }
        return {
            one.key: _snapshot(
                connections[found.groups[one.refresh_group].master],
                found,
                one,
                kept,
                values,
            )
            for one in kept
        }


def _snapshot(
    connection: Connection,
    found: Found,
    one: Snapshot,
    kept: Sequence[Snapshot],
    values: Values,
) -> dict[str, Any]:
    """What a file says of a snapshot; what goes without saying is left out."""
    table = describe(connection, one.master)
    needs = ddl.default_needs(connection, table)
    columns, _ = choose(table, None, needs, one.updatable)
    members = [each for each in kept if each.refresh_group == one.refresh_group]
    rows = phrased(connection, table, one, members)
    grants = {
        role: [right for right in _SAID if right in rights]
        for role, rights in found.snapshots[one.qualified].grants.items()
    }
    said = {
        "table": str(one.master) if one.master != one.qualified else None,
        "group": one.refresh_group if len(found.groups) > 1 else None,
        "columns": list(one.columns) if {*one.columns} != {*columns} else None,
        "where": rows.where and templated(connection, table, rows.where, values),
        "follow": list(rows.follow),
        "updatable": one.updatable,
        "leaving": None if one.leaving is Leaving.DRAIN else one.leaving.value,
        "numbers": _numbers(connection, table, one, found),
        "grants": {role: rights for role, rights in grants.items() if rights},
    }
    # The condition is written with its parameters already.
    return {
        name: value if name == "where" else escaped(value)
        for name, value in said.items()
        if value
    }


def _numbers(
    connection: Connection, table: Table, one: Snapshot, found: Found
) -> dict[str, str]:
    """By column, how it gets numbers, where that does not go without saying."""
    usual = numbered(connection, table, one.columns, {}, one.updatable).methods
    here = found.snapshots[one.qualified].numbers
    return {
        column: str(here.get(column, NONE))
        for column in sorted({*usual, *here})
        if usual.get(column) != here.get(column)
    }


def _groups(found: Found) -> dict[str, dict[str, str]]:
    return {
        name: {"master": one.master}
        | ({"propagation": "synchronous"} if one.synchronous else {})
        for name, one in found.groups.items()
    }


def _logs(site: Site, found: Found, tables: Mapping[str, set[str]]) -> Iterator[_Said]:
    """The logs that are not plain ones, and those that nothing else in the file needs.

    Which columns the log of another master records is decided there, for all its sites.
    """
    published = {one.table for each in found.publications for one in each.tables}
    for home, theirs in tables.items():
        here = home == site.name
        for log in masters.list_snapshot_logs(site.peer(home)):
            said: dict[str, Any] = {"with_rowid": True} if log.with_rowid else {}
            if log.partition_columns and here:
                said["partition_columns"] = escaped([*log.partition_columns])
            alone = here and log.table not in published
            if log.table in theirs and (said or alone):
                yield home, log.table, said


def _rules(site: Site, tables: Mapping[str, set[str]]) -> Iterator[_Said]:
    for home, theirs in tables.items():
        for name, body in rulebook.export(site.peer(home))["tables"].items():
            if name in theirs:
                yield home, name, escaped(body)


def _by_table(
    what: str, said: Iterable[_Said], outline: Document, notes: list[str]
) -> dict[str, Any]:
    """What is said of the tables that are the same master's for who reads the file.

    Of the others, a note is made.
    """
    found = {}
    for home, table, body in said:
        meant = home_of(outline, names.parse(table))
        if meant == home:
            found[table] = body
        else:
            whose = f"{meant}'s" if meant else "one or another master's"
            notes.append(
                f"{what} of {table} at {home}: in the file, it would be {whose}"
            )
    return found


def _outline(site: Site, found: Found, kept: Sequence[Snapshot]) -> Document:
    """What of a file says which master has a table."""
    return Document.model_validate(
        {
            "site": {"name": site.name},
            "groups": {
                name: {"master": one.master} for name, one in found.groups.items()
            },
            "snapshots": {
                one.key: {"table": str(one.master), "group": one.refresh_group}
                for one in kept
            },
            "publications": {
                one.name: {"tables": {each.table: {} for each in one.tables}}
                for one in found.publications
            },
        }
    )


def _tables(site: Site, found: Found, kept: Sequence[Snapshot]) -> dict[str, set[str]]:
    """By master, the tables that the site has snapshots of, and all of its own."""
    logs = {log.table for log in masters.list_snapshot_logs(site)}
    own = logs | {*rulebook.export(site)["tables"]}
    made: dict[str, set[str]] = {site.name: own} if own else {}
    for one in kept:
        home = found.groups[one.refresh_group].master
        made.setdefault(home, set()).add(str(one.master))
    return made


def _besides(site: Site) -> Iterator[str]:
    """What a site takes part in, or allows, that no section is about."""
    for group in groups.list_groups(site, settle=False):
        yield f"the replication group {group.name}"
    for procedure in deferred.list_procedures(site):
        yield f"the leave of other sites to call {procedure.name}"


def _budgets(found: Found) -> dict[str, dict[str, str]]:
    made: dict[str, dict[str, str]] = {}
    for name, one in found.destinations.items():
        if one.max_lag_age is not None:
            made.setdefault(name, {})["age"] = limits.as_age(one.max_lag_age)
        if one.max_lag_bytes is not None:
            made.setdefault(name, {})["size"] = limits.as_size(one.max_lag_bytes)
    return made


def _schedules(found: Found) -> list[dict[str, Any]]:
    return [
        {
            "kind": one.kind,
            "subject": one.subject,
            "every": one.interval,
            **({"paused": True} if one.disabled else {}),
            **({"options": dict(one.options)} if one.options else {}),
        }
        for one in found.schedules
    ]


def _unsaid(connection: Connection, kept: Sequence[Snapshot]) -> Iterator[str]:
    for one in kept:
        name = ".".join(map(quoted, (one.schema, one.name)))
        for what in connection.scalars(_UNSAID, {"name": name}):
            yield f"{one.key}: {what}"


def _value(site: Site, kept: Sequence[Snapshot], name: str) -> tuple[str, str]:
    """The column that a parameter stands for, and its one value at a site."""
    found: dict[str, set[str]] = {}
    for one in kept:
        for each in compared(one.condition or ""):
            found.setdefault(each.column, set()).add(each.value)
    near = [column for column in found if column == name] or [
        column for column in found if column.startswith(f"{name}_")
    ]
    if len(near) == 1 and len(found[near[0]]) == 1:
        return near[0], next(iter(found[near[0]]))
    shown = "; ".join(
        f"{column} = {' or '.join(sorted(values))}"
        for column, values in sorted(found.items())
    )
    raise NoSuchParameter(
        f"{name!r} is not one value in the conditions of {site.name}; they compare: "
        f"{shown or 'no column with a value'}.",
        parameter=name,
    )


def _named(site: str, values: Mapping[str, str]) -> str:
    """The site's name, with a parameter for the value that it ends with.

    A value that is a part of a longer number would name another site's in its stead.
    """
    for name, value in values.items():
        before = site.removesuffix(value)
        is_part = before[-1:].isdigit() and value[:1].isdigit()
        if value and before != site and not is_part:
            return f"{before}${{{name}}}"
    return site
