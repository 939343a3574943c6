"""All rules of a master as one document, to be kept under version control.

`snaptide rules export` prints this document, `rules apply` reads it, and the catalog
keeps it for each version of the rules:

    [tables."public.flights"]
    groups = {delays = ["dep_delay", "arr_delay"]}

    [[tables."public.flights".update]]
    group = "delays"
    method = "latest_timestamp"
    parameters = {column = "changed_at"}

with `unique` (constraint) and `delete` beside `update`, and `row_version`,
`not_compared = {update = [...], delete = [...]}` and `not_sent`, of the same form,
beside `groups`. Rules for one subject are tried in the order of the file, unless they
have a `sequence`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from masters.catalog import column_group, comparison, resolution_rule, rules_version
from masters.errors import BadRulebook
from masters.rules import catalog as rule_catalog
from masters.rules import table_rules
from masters.rules.document import Rulebook, differences, documents, parsed
from masters.rules.table_rules import Said, TableRules, load, ruled
from sites import QualifiedName, Site, names
from sites.catalog import SCHEMA
from sites.sessions import identity
from sites.tables import locks
from sites.tables.table import describe


def export(site: Site) -> dict[str, Any]:
    """Return all rules of a master as a document."""
    with identity.initialised(site) as connection:
        return read(connection)


def read(connection: Connection) -> dict[str, Any]:
    """All rules that the catalog holds, as a document."""
    return documents([load(connection, table) for table in ruled(connection)])


def apply(
    site: Site,
    book: Rulebook,
    what: str = "apply a file",
    *,
    keep_others: bool = False,
) -> list[str]:
    """Replace the rules of a master by those of a document, in one transaction.

    Parameters:
        keep_others: tables that the document leaves out keep their rules; otherwise
            they lose them.

    Returns:
        The differences, as `diff` shows them; nothing is written if there are none.

    Raises:
        BadRulebook, UnknownTable, RuleError: then nothing is changed.
    """
    with changing(site) as connection:
        wanted = _wanted(connection, book, keep_others)
        changes = differences(read(connection), documents(wanted))
        if changes:
            said = {
                one.table: one.names
                for one in wanted
                if documents([one]) != documents([load(connection, one.table)])
            }
            for catalog in (column_group, resolution_rule, comparison):
                connection.execute(sa.delete(catalog))
            for one in wanted:
                rule_catalog.write(connection, one)
            note(connection, what, said)
        return changes


def diff(site: Site, book: Rulebook, *, keep_others: bool = False) -> list[str]:
    """The changes that `apply` would make, as lines that begin with + or -.

    Parameters:
        keep_others: as `apply` takes it.

    Raises:
        BadRulebook, UnknownTable, RuleError.
    """
    with identity.initialised(site) as connection:
        wanted = _wanted(connection, book, keep_others)
        return differences(read(connection), documents(wanted))


def parse(connection: Connection, book: Rulebook) -> list[TableRules]:
    """The rules that a document describes, checked against the tables of a master.

    Raises:
        BadRulebook, UnknownTable, RuleError.
    """
    tables = book.get("tables", {})
    if set(book) - {"tables"} or not isinstance(tables, Mapping):
        raise BadRulebook("A rules file may contain only [tables].")
    return [
        _parsed(connection, names.parse(name), body) for name, body in tables.items()
    ]


def _wanted(
    connection: Connection, book: Rulebook, keep_others: bool
) -> list[TableRules]:
    """The rules that a master is to have."""
    wanted = parse(connection, book)
    named = {one.table for one in wanted}
    others = [table for table in ruled(connection) if table not in named]
    return [*wanted, *(load(connection, one) for one in others if keep_others)]


def _parsed(
    connection: Connection, where: QualifiedName, body: Mapping[str, Any]
) -> TableRules:
    """The rules that a document has for one table.

    Rules may outlive their table, or a column. They are not checked if the document
    leaves them as they are: otherwise they would block its changes of all other tables.
    """
    known, written = documents([load(connection, where)]), parsed(where, body, None)
    if known["tables"][str(where)] and not differences(known, documents([written])):
        return written
    return parsed(where, body, describe(connection, where))


@contextmanager
def changing(site: Site) -> Iterator[Connection]:
    """A transaction that changes rules, once no other one does.

    Two that read the same rules could otherwise put a column into two groups, or give
    a rule to a group that goes. And a version with a higher number is committed later:
    a transaction that sees one version sees all earlier ones.
    """
    with identity.initialised(site) as connection:
        locks.against_writers(connection, QualifiedName(SCHEMA, rules_version.name))
        yield connection


def note(connection: Connection, what: str, said: Said) -> None:
    """Store the current rules as a new version. Writes rules_version.

    Parameters:
        connection: from `changing`.
        said: the columns that the operator names, by table.
    """
    every = [load(connection, table) for table in ruled(connection)]
    connection.execute(
        sa.insert(rules_version).values(
            what=what,
            rules=documents(every),
            columns=table_rules.numbers(connection, every, said),
        )
    )
