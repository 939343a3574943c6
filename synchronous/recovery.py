"""Finishes transactions that coordinators left behind, so that their locks go soon.

A master asks the deciding site about transactions that are prepared there; a deciding
site makes sure that its decisions reach the masters. Both ways lead to the same end, so
a worker at either side is enough. It runs when a worker starts, every minute where
anything is left, and by hand.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import psycopg
import sqlalchemy as sa
from psycopg import errors, sql
from sqlalchemy import Connection, select, text
from sqlalchemy.exc import DBAPIError

from deferred.catalog import decision as decisions
from deferred.catalog import heuristic_decision
from sites import Site, faults
from sites.errors import SiteReplaced, SnaptideError
from sites.sessions import contacts, identity
from synchronous import decision, master_connection
from synchronous.decision import Answer
from synchronous.gid import PREFIX, Gid

log = logging.getLogger(__name__)

#: Seconds that a site may take to answer.
TIMEOUT = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """The transactions that a recovery finished at a site, and those it left."""

    site: str
    committed: int = 0
    rolled_back: int = 0
    #: their coordinators may be alive, or their deciding sites do not answer
    left: int = 0
    #: decisions of this site that all masters have confirmed
    settled: int = 0


def recover(site: Site) -> RecoveryReport:
    """Finish in-doubt transactions as their deciding sites say.

    A transaction prepared here is committed if the deciding site committed, and rolled
    back if it did not; while the site is still deciding, or does not answer, it stays.
    Prepared transactions that are not ours are left alone.

    Raises:
        SiteUnreachable, SiteChanged: this site itself cannot be asked.
    """
    with identity.confirmed(site) as connection:
        prepared = list_prepared(connection)
        unconfirmed = open_decisions(connection)
        judged = _unjudged(connection)
    answers = {gid: ask(site, gid) for gid in prepared}
    finished = {gid: finish(site, gid, a) for gid, a in answers.items()}
    for gid in judged:
        judge(site, gid, ask(site, gid))
    faults.point("recovery.before_confirm")
    settled = [xid for xid, gid, masters in unconfirmed if _carry(site, gid, masters)]
    if settled:
        with site.transaction() as connection:
            found = sa.cast(decisions.c.xid, sa.Text)
            connection.execute(sa.delete(decisions).where(found.in_(settled)))
    return RecoveryReport(
        site=site.name,
        committed=sum(a is Answer.COMMITTED for a in finished.values()),
        rolled_back=sum(a is Answer.ROLLED_BACK for a in finished.values()),
        left=sum(a is None for a in finished.values()),
        settled=len(settled),
    )


#: Whether a site has anything that a recovery would look at. A transaction that others
#: have prepared counts, too.
MAY_WAIT = sa.or_(
    sa.exists(
        select(sa.literal_column("1"))
        .select_from(sa.table("pg_prepared_xacts", sa.column("database")))
        .where(sa.column("database") == sa.func.current_database())
    ),
    sa.exists(select(decisions.c.gid)),
    sa.exists(
        select(heuristic_decision.c.gid).where(heuristic_decision.c.outcome.is_(None))
    ),
)


def list_prepared(connection: Connection) -> list[Gid]:
    """The transactions that our coordinators have prepared in this database."""
    found = connection.scalars(
        text(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
            " AND starts_with(gid, :prefix) ORDER BY prepared"
        ),
        {"prefix": f"{PREFIX}:"},
    )
    return [gid for gid in map(Gid.parse, found) if gid is not None]


def ask(site: Site, gid: Gid) -> Answer | None:
    """Ask the site that decides, found by its identity; None if none answers."""
    for name in site.directory:
        with (
            suppress(SnaptideError, DBAPIError),
            site.peer(name).transaction() as connection,
        ):
            if identity.read(connection, partner=True).site_id == gid.site_id:
                return decision.ask(connection, gid)
    return None


def finish(site: Site, gid: Gid, answer: Answer | None) -> Answer | None:
    """Commit or roll back a transaction prepared at a site; None if it has to stay.

    It also stays if only another user may end it: others are not kept waiting.
    """
    if answer not in (Answer.COMMITTED, Answer.ROLLED_BACK):
        why = "does not answer" if answer is None else f"says: {answer.value}"
        log.warning("%s stays in doubt at %s: its site %s.", gid, site.name, why)
        return None
    faults.point("recovery.before_finish")
    try:
        end_prepared(site, gid, commit=answer is Answer.COMMITTED)
    except (psycopg.Error, DBAPIError) as error:
        log.warning("%s stays in doubt at %s: %s", gid, site.name, error)
        return None
    log.info("%s at %s: %s.", gid, site.name, answer.value)
    return answer


def end_prepared(site: Site, gid: Gid, *, commit: bool) -> bool:
    """Run COMMIT PREPARED or ROLLBACK PREPARED; False if it was ended already.

    Raises:
        sqlalchemy.exc.OperationalError, psycopg.Error: the site was lost.
    """
    command = "COMMIT PREPARED {}" if commit else "ROLLBACK PREPARED {}"
    with master_connection.connect(site, TIMEOUT) as connection:
        try:
            master_connection.driver(connection).execute(
                sql.SQL(command).format(sql.Literal(str(gid)))
            )
        except errors.UndefinedObject:
            return False
    return True


def open_decisions(connection: Connection) -> list[tuple[str, Gid, list[str]]]:
    """Decisions of this site that, as far as it knows, not all masters have confirmed.

    Returns:
        The deciding transaction, its name, and the masters by their branches.
    """
    rows = connection.execute(
        select(
            sa.cast(decisions.c.xid, sa.Text), decisions.c.gid, decisions.c.masters
        ).order_by(decisions.c.decided_at)
    )
    parsed = [(xid, Gid.parse(f"{gid}:0"), masters) for xid, gid, masters in rows]
    return [(xid, gid, masters) for xid, gid, masters in parsed if gid is not None]


def prepared_at(site: Site, name: str) -> list[Gid]:
    """The transactions that our coordinators have prepared at a master of a site.

    Site and master have met before anything was prepared. A database that has taken the
    master's name, or is an older copy of it, has nothing to say of these.

    Raises:
        SnaptideError, sqlalchemy.exc.DBAPIError: the master cannot be asked.
    """
    master = site.peer(name)
    with site.session() as here, master.session() as there:
        me = identity.confirm(here, site.name)
        them = identity.confirm(there, name, partner=True)
        here.rollback()
        there.rollback()
        pair = contacts.compare(here, there, me, them)
        pair.confirm()
        if not pair.at_site.contact_no:
            raise SiteReplaced(
                f"{site.name} has never met the database that is {name} now.",
                site=name,
            )
        return list_prepared(there)


def _carry(site: Site, gid: Gid, masters: Sequence[str]) -> bool:
    """Have each master commit its part of a decision of this site; True if all have.

    If a person has ended a part there, the master notes what the site has decided: once
    the decision is gone, it would take the answer for a rollback.
    """
    branches = [(gid.for_branch(n), name) for n, name in enumerate(masters) if name]
    try:
        for branch, name in branches:
            if branch in prepared_at(site, name):
                end_prepared(site.peer(name), branch, commit=True)
            judge(site.peer(name), branch, Answer.COMMITTED)
    except (SnaptideError, DBAPIError, psycopg.Error) as error:
        log.warning("%s is not confirmed yet: %s", gid.transaction, error)
        return False
    return True


def _unjudged(connection: Connection) -> list[Gid]:
    """Heuristic decisions whose true outcome is not known yet."""
    gids = connection.scalars(
        select(heuristic_decision.c.gid).where(heuristic_decision.c.outcome.is_(None))
    )
    return [gid for gid in map(Gid.parse, gids) if gid is not None]


def judge(site: Site, gid: Gid, answer: Answer | None) -> None:
    """Hold a decision by hand at a master, if there is one, against the true answer.

    A commit stays: a site that has told of it may have forgotten it when it is asked.
    """
    if answer not in (Answer.COMMITTED, Answer.ROLLED_BACK):
        return
    with site.transaction() as connection:
        connection.execute(
            sa.update(heuristic_decision)
            .where(
                heuristic_decision.c.gid == str(gid),
                heuristic_decision.c.outcome.is_distinct_from(Answer.COMMITTED.value),
            )
            .values(outcome=answer.value)
        )
