"""What snapshots need before they are made: types at the site, logs and rules there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from psycopg import sql
from sqlalchemy import text

import masters
from masters.log.snapshot_log import SnapshotLog
from masters.rules import rulebook
from sites import QualifiedName, Site, names
from sites.errors import SnaptideError
from sites.tables import type_statements
from snaptide.plan.document import LogSection
from snaptide.plan.found import Found
from snaptide.plan.reader import SiteFile
from snaptide.plan.steps import AlterLog, CreateLog, CreateType, SetRules
from snaptide.plan.wanted import Wanted, home_of


def types(
    site: Site, created: Sequence[Wanted], refused: list[str]
) -> Iterator[CreateType]:
    """Create the schemas and types that new snapshots need and the site lacks."""
    needed = {one.name: one for each in created for one in each.types}
    with site.session() as connection:
        here = type_statements.of_names(connection, [*needed])
        known = {*connection.scalars(text("SELECT nspname::text FROM pg_namespace"))}
    missing = [one for name, one in needed.items() if name not in here]
    schemas = [one.schema for one in missing] + [one.name.schema for one in created]
    for schema in dict.fromkeys(schemas):
        if schema not in known:
            create = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}")
            statement = create.format(sql.Identifier(schema)).as_string(None)
            yield CreateType(
                site=site.name, name=schema, statement=statement, is_schema=True
            )
    for one in missing:
        if one.statement is None:
            refused.append(f"type {one.name}: no statement of ours creates it here")
        else:
            yield CreateType(site=site.name, name=one.name, statement=one.statement)
    refused += [
        f"type {name} is here: {here[name].statement}; at the master: {one.statement}"
        for name, one in needed.items()
        if name in here and not one.same_as(here[name])
    ]


def logs(
    file: SiteFile,
    site: Site,
    found: Found,
    wanted: Sequence[Wanted],
    new: Collection[str],
    refused: list[str],
) -> Iterator[CreateLog | AlterLog]:
    """Create the logs that snapshots, their conditions and the file need.

    Parameters:
        new: sites that have no schema snaptide yet.
    """
    needed: dict[tuple[str, QualifiedName], LogSection | None] = {}
    for one in wanted:
        for table in (one.master, *one.asks):
            needed.setdefault((one.home, table))
    for table in file.document.published:
        needed.setdefault((site.name, table))
    for name, section in file.document.logs.items():
        home = home_of(file.document, names.parse(name))
        if home is None:
            raise file.source.error(
                ("logs", name), "no snapshot of the file says which master has it"
            )
        needed[home, names.parse(name)] = section
    there = {home: _logs_at(site, home, new) for home, _ in needed}
    published = {one.table for each in found.publications for one in each.tables}
    for (home, table), said in needed.items():
        log = there[home].get(str(table))
        if log is None:
            yield CreateLog(
                site=home,
                table=table,
                with_rowid=said is not None and said.with_rowid,
                partition_columns=(said and said.partition_columns) or (),
            )
        elif said is not None:
            is_published = home == site.name and log.table in published
            yield from _altered(home, log, said, is_published, refused)


def _altered(
    home: str,
    log: SnapshotLog,
    said: LogSection,
    is_published: bool,
    refused: list[str],
) -> Iterator[AlterLog]:
    """Have a log record other columns, if nothing is in the way."""
    if log.with_rowid != said.with_rowid:
        how = "a generated column" if log.with_rowid else "the primary key"
        refused.append(
            f"the log of {log.table} at {home} identifies rows by {how} "
            f"(snaptide log drop {home} {log.table})"
        )
    columns = said.partition_columns
    if columns is None or {*columns} == {*log.partition_columns}:
        return
    if is_published:
        refused.append(
            f"the log of {log.table} records the columns "
            f"{', '.join(log.partition_columns) or 'of its key alone'}, and the "
            "policies of its publication name them: take the table out of it first "
            "(snaptide publication alter)"
        )
    else:
        table = names.parse(log.table)
        yield AlterLog(site=home, table=table, partition_columns=columns)


def _logs_at(site: Site, home: str, new: Collection[str]) -> dict[str, SnapshotLog]:
    if home in new:
        return {}
    return {one.table: one for one in masters.list_snapshot_logs(site.peer(home))}


def rules(file: SiteFile, site: Site, new: Collection[str]) -> Iterator[SetRules]:
    """Make the rules of the tables that the file names those of the file."""
    books: dict[str, dict[str, object]] = {}
    for name, body in file.document.tables.items():
        home = home_of(file.document, names.parse(name))
        if home is None:
            raise file.source.error(
                ("tables", name), "no snapshot of the file says which master has it"
            )
        books.setdefault(home, {})[name] = body
        if home not in new:
            _check(file, site.peer(home), name, body)
    for home, tables in books.items():
        book = {"tables": tables}
        changes = (
            [f"+ rules of {name}" for name in tables]
            if home in new
            else rulebook.diff(site.peer(home), book, keep_others=True)
        )
        if changes:
            yield SetRules(
                site=home,
                file=file.source.file,
                values=file.for_rules,
                book=book,
                changes=tuple(changes),
            )


def _check(file: SiteFile, master: Site, name: str, body: object) -> None:
    """Name the table in the file whose rules the master refuses."""
    try:
        rulebook.diff(master, {"tables": {name: body}}, keep_others=True)
    except SnaptideError as error:
        raise file.source.error(("tables", name), error.message) from None
