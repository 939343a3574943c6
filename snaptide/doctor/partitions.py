"""Advises partition columns, where many sites read each other's changes."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection

from masters.log import partition, registration
from masters.log.catalog import find_logs
from sites.sessions import revisions
from sites.tables.table import describe
from snapshots.definitions.snapshot import Snapshot
from snapshots.differences import own_keys
from snaptide.doctor.finding import Finding, info

#: From so many sites on, refreshes save more than writers pay for a partition column.
MANY = 10

#: The revision from which on masters tell their sites from images.
_SINCE = "0074"


def check(home: Connection, site: str, master: str, one: Snapshot) -> Iterator[Finding]:
    """Find that refreshes of a snapshot read changes of rows that cannot be its own.

    Parameters:
        home: a connection to the master.
    """
    table = describe(home, one.master)
    usable = [
        name
        for name in sorted(own_keys.telling(one, table))
        if partition.why_unfit(home, table.column(name)) is None
    ]
    logs = find_logs(home, [one.master])
    if not usable or not logs or (revisions.of_site(home) or "") < _SINCE:
        return
    sites = len({row.site_id for row in registration.of_table(home, one.master)})
    there = partition.of_log(home, logs[0])
    full = len(there) == partition.MOST
    if sites < MANY or full or {*there} & {*usable}:
        return
    yield info(
        site,
        one.key,
        f"Its refreshes read from the log of {one.master} the changes of all {sites} "
        f"sites, though it has only rows with some values of {' and '.join(usable)}.",
        f"snaptide log alter {master} {one.master} --partition-columns "
        f"{','.join((*there, usable[0]))}",
    )
