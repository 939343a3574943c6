"""`snaptide site check --repair`: lets a restored or copied database go on as a site.

The repair adapts the queue and logs to the database as it is now, and gives the site
a new incarnation. Other sites see that at the next push or refresh: they ask which
transactions were applied, push the missing ones again, and refresh groups completely
whose positions mean nothing any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from psycopg.errors import SerializationFailure
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError
from tenacity import Retrying, stop_after_attempt, wait_random

import deferred.batches.rebase_transaction_ids
from deferred.batches import reconcile
from deferred.batches.pusher import only_pusher
from deferred.errors import CannotTell, PastRetention
from deferred.parked import differing
from deferred.pushing.push import destinations
from deferred.queues import detach_copy
from masters.log import restart
from masters.numbers import ranges, recovery
from sites import Site, faults, retry
from sites.errors import SiteUnreachable, UnknownSite
from sites.sessions import identity, peers
from sites.sessions.identity import Identity
from snapshots.definitions import refresh_group
from snaptide import doctor
from snaptide.doctor.peers import IDENTITY
from snaptide.errors import CannotRepair

#: How often a repair begins anew because others write what it writes.
ATTEMPTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """The report of a repair."""

    site: str
    #: False if the check found nothing and the caller did not ask for a repair
    repaired: bool
    #: the findings that made the repair necessary
    reasons: tuple[str, ...] = ()
    #: queued transactions that got new ids
    transactions: int = 0
    #: rows of snapshot logs that another cluster had written
    log_rows: int = 0
    #: if a copy became a site of its own, the site that it is a copy of
    copy_of: str | None = None
    #: queued transactions that the copy dropped, because the original pushes them
    left_to_original: int = 0
    #: numbers that sites may have leased from this one: what could not be asked
    numbers_unknown: tuple[str, ...] = ()


def repair(site: Site, *, restored: bool = False) -> RepairReport:
    """Let a restored, promoted, moved or copied database go on as a site.

    If the settings give the database its former name, it goes on as that site, and
    no other database may. If they give it another name, it becomes a site of its own.

    Parameters:
        restored: repair also if the check finds nothing wrong.

    Raises:
        CannotRepair: a push or refresh runs, or the original of a copy is away.
    """
    reasons = tuple(
        finding.what
        for finding in doctor.check_site(site)
        if finding.site == site.name and finding.subject == IDENTITY
    )
    if not reasons and not restored:
        return _go_on_without(site)
    with site.session() as connection:
        before = identity.read(connection)
    with _at_rest(site):
        if before.name != site.name:
            return _make_its_own(site, before, reasons)
        unknown = recovery.ask_sites(site, before)
        for attempt in _not_overtaken():
            with attempt, _alone(site) as connection:
                moved = deferred.batches.rebase_transaction_ids.rebase_transaction_ids(
                    connection, before.generation + 1
                )
                removed = restart.restart_logs(connection)
                identity.renew(connection, site.name)
                ranges.void_all(connection)
                differing.note_all(connection, f"{site.name} was restored or moved")
                faults.point("repair.before_commit")
    return RepairReport(
        site=site.name,
        repaired=True,
        reasons=reasons,
        transactions=moved,
        log_rows=removed,
        numbers_unknown=tuple(unknown),
    )


def _go_on_without(site: Site) -> RepairReport:
    """Accept that purged calls are lost which a restored destination needs again."""
    gaps = {name: gap for name in destinations(site) if (gap := _gap(site, name))}
    with site.transaction() as connection:
        for name in gaps:
            reconcile.accept_gap(connection, name)
    return RepairReport(
        site=site.name, repaired=bool(gaps), reasons=tuple(gaps.values())
    )


def _gap(site: Site, name: str) -> str | None:
    """Say which purged calls a destination needs again; None if there are none."""
    with site.session() as origin, site.peer(name).session() as target:
        me = identity.confirm(origin, site.name)
        them = identity.confirm(target, name, partner=True)
        origin.rollback()
        target.rollback()
        try:
            if not reconcile.is_reconciled(origin, them):
                reconcile.check(origin, target, me.site_id, name)
        except PastRetention as error:
            return error.message
        except CannotTell:
            # The check reports it; no repair settles it.
            return None
    return None


def _make_its_own(
    site: Site, before: Identity, reasons: tuple[str, ...]
) -> RepairReport:
    """Make a copy a new site, which keeps only the calls that the original lacks."""
    with _original(site, before) as original:
        for attempt in _not_overtaken():
            with attempt, _alone(site) as connection:
                moved = deferred.batches.rebase_transaction_ids.rebase_transaction_ids(
                    connection, before.generation + 1
                )
        for name in destinations(site):
            _ask(site, before, name)
        for attempt in _not_overtaken():
            with attempt, _alone(site) as connection:
                left = detach_copy.leave_to_original(connection, original)
                removed = restart.restart_logs(connection)
                restart.forget_sites(connection)
                peers.forget(connection)
                ranges.forget_all(connection)
                identity.renew(connection, site.name)
                faults.point("repair.before_commit")
    return RepairReport(
        site=site.name,
        repaired=True,
        reasons=reasons,
        transactions=moved,
        log_rows=removed,
        copy_of=before.name,
        left_to_original=left,
    )


def _ask(site: Site, before: Identity, name: str) -> None:
    """Ask a destination which transactions of the original's queue it has applied."""
    with site.session() as origin, site.peer(name).session() as target:
        them = identity.confirm(target, name, partner=True)
        target.rollback()
        reconcile.reconcile(origin, target, before.site_id, name, them.incarnation)


@contextmanager
def _original(site: Site, before: Identity) -> Iterator[Connection]:
    """The site that this one is a copy of."""
    try:
        with site.peer(before.name).session() as connection:
            if identity.confirm(connection, before.name).site_id != before.site_id:
                raise CannotRepair(
                    f"Site {site.name} is not a copy of the present site {before.name}."
                )
            yield connection
    except (UnknownSite, SiteUnreachable) as error:
        raise CannotRepair(
            f"Snaptide must ask {before.name} which changes {site.name} shares with "
            f"it: {error.message}"
        ) from error


@contextmanager
def _at_rest(site: Site) -> Iterator[None]:
    """Keep pushes and refreshes of the site from running during the block."""
    with ExitStack() as held:
        for name in destinations(site):
            connection = held.enter_context(site.session())
            if not held.enter_context(only_pusher(connection, name)):
                raise CannotRepair(f"A push from {site.name} to {name} is running.")
        with site.session() as connection:
            groups = refresh_group.names(connection)
        for group in groups:
            held.enter_context(refresh_group.exclusively(site, group))
        yield


def _not_overtaken() -> Retrying:
    """Begin anew if others have written what the repair writes, as refreshes do."""
    return retry.on(
        OperationalError,
        when=lambda error: isinstance(error.orig, SerializationFailure),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random(0.1, 0.5),
    )


@contextmanager
def _alone(site: Site) -> Iterator[Connection]:
    """A transaction that sees one state of the site and no open write of a user."""
    with site.session() as plain:
        connection = plain.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin():
            try:
                deferred.batches.rebase_transaction_ids.lock(connection)
            except OperationalError as error:
                raise CannotRepair(
                    f"A user's transaction is open at {site.name}: try again when it "
                    "has ended."
                ) from error
            yield connection
