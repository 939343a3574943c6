"""The operator's verb: compare the masters of a group."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from groups import group as groups
from groups.check import moments, rows, tally
from groups.check.moments import Held
from groups.check.report import CheckReason, GroupCheckReport, TableCheck
from groups.errors import CannotReplicate
from groups.group import Group
from sites import QualifiedName, Site, extras, names, traces
from sites.progress import Progress
from sites.sessions import identity
from sites.tables.table import describe
from snapshots.check.errors import CheckRefused
from snapshots.check.run import condition


def check(
    site: Site,
    name: str,
    tables: str | Sequence[str] = (),
    *,
    where: str | None = None,
    columns: Sequence[str] = (),
    most: int = 1000,
    progress: Progress | None = None,
) -> GroupCheckReport:
    """Prove that the masters of a group have the same rows, or name what differs.

    Users and pushes go on meanwhile; nothing is written. A difference that is on its
    way, parked or decided is told with its reason, and any other is proven
    (`groups.check`). A majority of masters is shown, never assumed to be right.
    Oracle: DBMS_RECTIFIER_DIFF.DIFFERENCES, which compares two quiet tables; Informix:
    `cdr check replicateset`.

    A master that does not answer is left out, and so is one that is joining.

    Parameters:
        site: any master of the group.
        tables: all of the group if none is given.
        where: only rows for which this holds at any master; an expression over columns
            of the tables, as in SQL.
        columns: compare only these and the key; all if none is given.
        most: how many rows of each table are listed; the counts are exact.
        progress: is told how far the check is.

    Raises:
        NoSuchGroup: the site is no master of it.
        CannotReplicate: a table is not in the group.
        CheckRefused, BadCondition: `where` or `columns` is wrong.
        SiteUnreachable: the site does not answer, or a master went away meanwhile.
        SiteChanged, SiteRestored, SiteReplaced: a master was restored or replaced.
        TablesDiffer, RowsHidden: a table cannot be compared.
        MasterUnreadable: our user may not read a table of a master.
        CheckDisturbed: the group or a queue changed again and again.
        MissingExtra: `snaptide[spark]` is not installed.
    """
    extras.require("spark")
    began, at = time.monotonic(), datetime.now(UTC)
    with identity.confirmed(site) as connection:
        group = groups.get(connection, site.name, name)
    wanted = chosen(group, [tables] if isinstance(tables, str) else tables)
    only = _conditions(site, wanted, where, columns)
    with traces.span("check", site=site.name, group=name) as span:

        def compared(held: Held) -> tuple[Held, list[TableCheck]]:
            several = wanted if len(held.masters) > 1 else []
            return held, _found(held, several, only, columns, most, progress)

        held, found = moments.undisturbed(site, name, wanted, compared)
        span.note(
            masters=len(held.masters),
            differing=sum(count.rows for one in found for count in one.counts),
            unexplained=sum(one.differing(CheckReason.UNEXPLAINED) for one in found),
        )
    return GroupCheckReport(
        group=name,
        masters=tuple(one.name for one in held.masters),
        left_out=held.left_out,
        away=held.away,
        where=where,
        columns=tuple(columns),
        tables=tuple(found),
        at=at,
        seconds=time.monotonic() - began,
    )


def chosen(group: Group, asked: Sequence[str]) -> list[QualifiedName]:
    """The tables that are asked for, each once."""
    if not asked:
        return list(group.tables)
    wanted = [*dict.fromkeys(map(names.parse, asked))]
    for one in wanted:
        if one not in group.tables:
            raise CannotReplicate(f"{one} is not in {group.name}.", table=str(one))
    return wanted


def _conditions(
    site: Site,
    tables: Sequence[QualifiedName],
    asked: str | None,
    columns: Sequence[str],
) -> dict[QualifiedName, str]:
    """The condition as the database understands it, for each table."""
    found: dict[QualifiedName, str] = {}
    with site.transaction() as connection:
        for name in tables:
            known = describe(connection, name).names
            unknown = [one for one in columns if one not in known]
            if unknown:
                raise CheckRefused(
                    f"Table {name} has no column {', '.join(unknown)}.", table=str(name)
                )
            if asked is not None:
                found[name] = condition(connection, name, asked).text
    return found


def _found(
    held: Held,
    tables: Sequence[QualifiedName],
    only: Mapping[QualifiedName, str],
    columns: Sequence[str],
    most: int,
    progress: Progress | None,
) -> list[TableCheck]:
    found = []
    for number, name in enumerate(tables):
        if progress is not None:
            progress(number, len(tables), "tables")
        every = rows.of_table(held, name, only.get(name), columns)
        found.append(tally.take(held, every, most))
    return found
