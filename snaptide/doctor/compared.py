"""When each snapshot was last checked against its master, and what that found."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection

from sites.words import counted, does
from snapshots.check import saved
from snapshots.definitions import snapshot
from snaptide.doctor.finding import Finding, error, info


def check(connection: Connection, site: str) -> Iterator[Finding]:
    """A finding about each snapshot, which may be information."""
    last = saved.last_of_each(connection)
    for one in snapshot.all_of(connection):
        if not one.loaded:
            continue
        found = last.get(one.key)
        if found is None:
            yield info(
                site,
                one.key,
                "No check of all its rows and columns has been saved.",
                f"snaptide check {site} {one.key} --save",
            )
        else:
            yield _checked(site, one.key, found)


def _checked(site: str, key: str, found: saved.LastCheck) -> Finding:
    hours = found.age.total_seconds() / 3600
    ago = f"{hours / 24:,.0f} days" if hours >= 48 else f"{hours:,.1f} hours"
    last = f"The last saved check, {found.run}, was {ago} ago"
    if not found.unexplained:
        return info(site, key, f"{last} and found no difference without a reason.", "")
    return error(
        site,
        key,
        f"{last} and found {counted(found.unexplained, 'row')} that "
        f"{does(found.unexplained, 'differ')} without a reason.",
        f"snaptide check show {site} {found.run}",
    )
