"""Keeps checks of the same snapshots from running twice at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import func, select

from sites.sessions.site import Site, autocommit
from snapshots.check.errors import CheckRunning


@contextmanager
def alone(site: Site, subject: str) -> Iterator[None]:
    """Be the only check of this kind at a site while the block runs.

    Parameters:
        subject: what the schedule checks.

    Raises:
        CheckRunning: another one runs.
    """
    key = (func.hashtext("snaptide.check"), func.hashtext(subject))
    with site.session() as connection, autocommit(connection):
        if not connection.scalar(select(func.pg_try_advisory_lock(*key))):
            raise CheckRunning(
                f"Another check of {subject} is running at site {site.name}.",
                site=site.name,
                subject=subject,
            )
        try:
            yield
        finally:
            if not connection.invalidated:
                connection.execute(select(func.pg_advisory_unlock(*key)))
