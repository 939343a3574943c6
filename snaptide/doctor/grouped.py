"""Checks that the tables of replication groups could still be put in a group."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection

from groups import group as groups
from groups import shape
from groups.group import TargetType
from sites.tables.table import find_table
from snaptide.doctor.finding import Finding, error


def check(connection: Connection, site: str) -> Iterator[Finding]:
    """Findings about tables for which a group would be refused today.

    A table that is gone is a finding of another check.
    """
    for name in groups.names(connection):
        group = groups.get(connection, site, name)
        if group.master(site).target_type is TargetType.UNPROTECTED_READ_ONLY:
            continue
        for one in group.tables:
            table = find_table(connection, one)
            reason = table and shape.why_unfit(connection, table)
            if reason is not None:
                yield error(
                    site,
                    str(one),
                    f"The table {reason}. Since it came to group {name}, changes "
                    "of it may not have been made alike at all masters.",
                    "Undo that, or take the table out of the group; then compare "
                    f"its rows: snaptide group check {site} {name} {one}",
                )
