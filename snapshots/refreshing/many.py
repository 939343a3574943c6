"""Refreshes the groups of many sites, several at the same time.

They share Spark jobs (`snapshots.differences.shared_job`), and nothing else: each of
them shows a moment of its own, and fails by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import asdict
from typing import Unpack

from tenacity import stop_after_attempt, wait_random

from deferred.options import RefreshArguments, RefreshOptions
from sites import extras, retry
from sites.errors import NoConnectionFree
from sites.sessions import identity
from sites.sessions.site import Site
from snapshots.definitions import refresh_group
from snapshots.failures import OF_A_SITE, failure
from snapshots.refreshing.refresh import refresh
from snapshots.reports import GroupRefreshed

#: Sites that are refreshed at the same time. A refresh has up to three sessions at its
#: master, whose pool has 24.
MOST = 8

#: A refresh that found no free connection has given its own back, and has others end;
#: so it is tried again, as workers do.
_patiently = retry.on(
    NoConnectionFree, stop=stop_after_attempt(5), wait=wait_random(0, 2)
)


def refresh_many(
    sites: Sequence[Site],
    *,
    master: str | None = None,
    **options: Unpack[RefreshArguments],
) -> list[GroupRefreshed]:
    """Refresh all groups of several sites; a site that fails stops no other.

    Up to eight sites are refreshed at the same time, and the groups of a site one
    after the other. Each group comes to what `refresh` would bring it to.

    Parameters:
        sites: those to refresh. A site without groups is passed over.
        master: only groups that have this master.
        **options: as `refresh` has them, for all groups.

    Returns:
        What became of each group, in the order of the sites; of a site whose groups
        could not be read, one entry without a group. The errors of `refresh` are told
        there.

    Raises:
        BadOption: there is no such option, or its value is not allowed.
        MissingExtra: `snaptide[spark]` is not installed.
        KeyboardInterrupt: once the refreshes that had begun have ended.
    """
    RefreshOptions.of(options)
    extras.require("spark")
    interrupted = threading.Event()

    def of_site(site: Site) -> list[GroupRefreshed]:
        return list(_refreshed(site, master, options, interrupted))

    with ThreadPoolExecutor(MOST, thread_name_prefix="refresh") as pool:
        try:
            # In copies of this context, so that the spans of refreshes have the one
            # that is open here as their parent.
            own = [copy_context() for _ in sites]
            ended = list(pool.map(lambda c, site: c.run(of_site, site), own, sites))
        finally:
            interrupted.set()
            pool.shutdown(wait=False, cancel_futures=True)
            _keep_few_sessions(sites)
    return [one for each in ended for one in each]


def _keep_few_sessions(sites: Sequence[Site]) -> None:
    """Close the sessions that only refreshes at the same time need, at masters too."""
    directories = {id(site.directory): site.directory for site in sites}
    for directory in directories.values():
        for one in directory.values():
            one.keep_few()


def _refreshed(
    site: Site,
    master: str | None,
    options: RefreshArguments,
    interrupted: threading.Event,
) -> Iterator[GroupRefreshed]:
    """Refresh the groups of one site, and say what became of each.

    Parameters:
        interrupted: once it is set, no further group begins.
    """
    try:
        with identity.confirmed(site) as connection:
            groups = refresh_group.names(connection, master)
    except OF_A_SITE as error:
        yield GroupRefreshed(site=site.name, **asdict(failure(error)))
        return
    for group in groups:
        if interrupted.is_set():
            return
        try:
            report = _patiently(refresh, site, group, **options)
        except OF_A_SITE as error:
            why = asdict(failure(error))
            yield GroupRefreshed(site=site.name, group=group, **why)
        else:
            yield GroupRefreshed(
                site=site.name, group=group, state="done", report=report
            )
