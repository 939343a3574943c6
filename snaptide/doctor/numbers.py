"""Checks that sites have numbers enough, and that masters do not run out of them."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, func, select

from deferred import schedules
from masters.numbers import columns
from masters.numbers.columns import Method, NumberedColumn
from masters.numbers.listing import of_master
from sites import configured, names
from snapshots.definitions import snapshot
from snaptide.doctor.finding import Finding, warning

#: The share of a column's numbers from which on a master is warned.
NEARLY_ALL = 0.7


def check(connection: Connection, site: str) -> Iterator[Finding]:
    """Findings about numbers that this site draws, and those that it leases out."""
    for column in columns.all_of(connection):
        if column.method is Method.LEASE and _is_used(connection, column):
            yield from _of_column(connection, site, column)
    yield from _of_master(connection, site)


def _is_used(connection: Connection, column: NumberedColumn) -> bool:
    """Whether users can insert at all: the first refresh brings the first lease."""
    found = snapshot.find(connection, names.parse(column.snapshot))
    return found is not None and found.loaded


def _of_column(
    connection: Connection, site: str, column: NumberedColumn
) -> Iterator[Finding]:
    todo = f"snaptide numbers lease {site} {column.name}"
    days = _until_next_contact(connection, column)
    if column.last_error is not None:
        what = f"The last contact brought no numbers: {column.last_error}"
        yield warning(site, column.name, what, todo)
    elif not column.left:
        what = "No numbers are left: an INSERT that gives none fails."
        yield warning(site, column.name, what, todo)
    elif column.left < column.per_day * days:
        yield warning(
            site,
            column.name,
            f"{column.left:,} numbers are left, and {column.per_day:,.0f} a day are "
            f"used: too few for {days:,.1f} days until the next contact.",
            todo,
        )


def _until_next_contact(connection: Connection, column: NumberedColumn) -> float:
    """Days until the next push or refresh; by the settings, if none is scheduled."""
    now = connection.execute(select(func.now())).scalar_one()
    due = [
        found.next_at
        for found in schedules.all_of(connection)
        if not found.disabled
        and (
            found.kind == "refresh"
            or (found.kind == "push" and found.subject == column.master)
        )
    ]
    if not due:
        return configured.days_away()
    return max(0.0, (min(due) - now).total_seconds() / 86400)


def _of_master(connection: Connection, site: str) -> Iterator[Finding]:
    seen = set()
    for one in of_master(connection):
        column = f"{one.table}.{one.column}"
        if column in seen:
            continue
        seen.add(column)
        if one.behind is not None:
            yield warning(
                site,
                column,
                f"Its sequence was set back, and sites have numbers up to {one.behind}:"
                " inserts here get the same ones, and pushes of these rows are parked.",
                f"SELECT setval('{one.sequence}', {one.behind})",
            )
        if one.share is not None and one.share >= NEARLY_ALL:
            yield warning(
                site,
                column,
                f"{one.share:.0%} of its numbers are drawn or leased: when all are, "
                "inserts fail here and at all sites.",
                f"ALTER TABLE {one.table} ALTER {one.column} TYPE bigint, and ALTER "
                "SEQUENCE ... AS bigint; both at the sites, too, where the base tables "
                "are",
            )
