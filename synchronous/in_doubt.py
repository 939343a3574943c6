"""Lists in-doubt transactions for people, and ends them by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError

from deferred.catalog import decision, heuristic_decision
from sites import Site
from sites.errors import SnaptideError
from sites.sessions import identity
from synchronous import recovery
from synchronous.decision import Answer
from synchronous.errors import DecidedOtherwise, NotInDoubt
from synchronous.gid import Gid


@dataclass(frozen=True, slots=True, kw_only=True)
class InDoubt:
    """One coordinated transaction that is not finished everywhere."""

    gid: str
    #: prepared: this master waits for the decision; decided: this site has decided,
    #: and a master has not confirmed; heuristic: a person ended it at this master
    state: str
    since: datetime | None
    #: the answer of the deciding site, if it can be asked: commit, rollback, in
    #: progress, another site
    decision: str | None
    #: the decision of a person here
    heuristic: str | None = None


def list_in_doubt(site: Site, *, ask: bool = True) -> list[InDoubt]:
    """List a site's in-doubt transactions, its decisions that are not confirmed, and
    those that people made there (Oracle: DBA_2PC_PENDING).

    Parameters:
        ask: ask the other sites. Otherwise, no decision is known of what is prepared,
            and all decisions of the site count as not confirmed.

    Raises:
        SiteUnreachable, SiteNotInitialised.
    """
    with identity.initialised(site) as connection:
        prepared = connection.execute(text(_PREPARED)).all()
        decided = recovery.open_decisions(connection)
        since = dict(
            connection.execute(select(decision.c.gid, decision.c.decided_at)).all()
        )
        judged = connection.execute(
            select(heuristic_decision).order_by(heuristic_decision.c.decided_at)
        ).all()
    waiting = [
        InDoubt(
            gid=gid,
            state="prepared",
            since=at,
            decision=_answer(site, gid) if ask else None,
        )
        for gid, at in prepared
        if Gid.parse(gid) is not None
    ]
    open_ = (
        [one.gid for one in _open(site, decided) if not one.confirmed]
        if ask
        else [gid for _, gid, _ in decided]
    )
    unconfirmed = [
        InDoubt(
            gid=gid.transaction,
            state="decided",
            since=since[gid.transaction],
            decision="commit",
        )
        for gid in open_
    ]
    return [*waiting, *unconfirmed, *map(_heuristic, judged)]


def commit_in_doubt(site: Site, gid: str, *, force: bool = False) -> None:
    """Commit a transaction prepared at a master, before its deciding site says so.

    (Oracle: COMMIT FORCE.) The decision is recorded, and compared with the deciding
    site's as soon as that can be asked. Without `force`, the site must not disagree.

    Raises:
        NotInDoubt: nothing of ours is prepared here under this name.
        DecidedOtherwise: the deciding site says something else, or is not done.
    """
    _end(site, gid, Answer.COMMITTED, force=force)


def rollback_in_doubt(site: Site, gid: str, *, force: bool = False) -> None:
    """Roll back a transaction prepared at a master, before its deciding site says so.

    (Oracle: ROLLBACK FORCE.) See `commit_in_doubt`.
    """
    _end(site, gid, Answer.ROLLED_BACK, force=force)


def forget_in_doubt(site: Site, gid: str) -> None:
    """Forget a heuristic decision, or a decision that a lost master cannot confirm.

    (Oracle: DBMS_TRANSACTION.PURGE_MIXED, PURGE_LOST_DB_ENTRY.) A master that comes
    back after its decision was forgotten would roll back its prepared part.

    Raises:
        NotInDoubt: there is no such decision.
        DecidedOtherwise: a master that answers waits for this decision.
    """
    with identity.confirmed(site) as connection:
        decided = recovery.open_decisions(connection)
    mine = [one for one in decided if one[1].transaction == gid]
    for one in _open(site, mine):
        if one.waiting:
            raise DecidedOtherwise(
                f"{one.waiting} has prepared {gid} and is waiting for this decision.",
                gid=gid,
                decision=Answer.COMMITTED.value,
            )
        # What was decided there by hand would soon be held against a rollback.
        for name, part in one.answering.items():
            recovery.judge(site.peer(name), part, Answer.COMMITTED)
    with site.transaction() as connection:
        gone = [
            connection.execute(sa.delete(table).where(table.c.gid == gid)).rowcount
            for table in (heuristic_decision, decision)
        ]
        if not any(gone):
            raise _not_in_doubt(site, gid)


def _end(site: Site, name: str, wanted: Answer, *, force: bool) -> None:
    with identity.confirmed(site) as connection:
        known = recovery.list_prepared(connection)
    gid = next((one for one in known if str(one) == name), None)
    if gid is None:
        raise _not_in_doubt(site, name)
    answer = recovery.ask(site, gid)
    if answer not in (wanted, Answer.ANOTHER_SITE, None) and not force:
        raise DecidedOtherwise(
            f"The deciding site's decision about {name} is: {answer.value}.",
            gid=name,
            decision=answer.value,
        )
    with site.transaction() as alone:
        number = func.hashtextextended(name, 0)
        alone.execute(select(func.pg_advisory_xact_lock(number)))
        if gid not in recovery.list_prepared(alone):
            raise _not_in_doubt(site, name)
        with site.transaction() as connection:
            _record(connection, name, wanted)
        if not recovery.end_prepared(site, gid, commit=wanted is Answer.COMMITTED):
            # A recovery was faster, with the site's own decision.
            with site.transaction() as connection:
                mine = heuristic_decision.c.gid == name
                connection.execute(sa.delete(heuristic_decision).where(mine))
            raise _not_in_doubt(site, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """A decision of a site, and its state at the masters."""

    gid: Gid
    #: one of the masters that can be asked that has prepared its part and waits
    waiting: str | None
    #: all masters can be asked, and none waits
    confirmed: bool
    #: the masters that can be asked, with the names of their parts
    answering: Mapping[str, Gid]


def _open(site: Site, decided: Sequence[tuple[str, Gid, list[str]]]) -> list[_Open]:
    """The state of decisions at their masters, each of which is asked once.

    A later commit, or the next recovery, deletes one that all have confirmed.
    """
    names = {name for _, _, masters in decided for name in masters if name}
    held = {name: _held(site, name) for name in names}
    found = []
    for _, gid, masters in decided:
        parts = {name: gid.for_branch(n) for n, name in enumerate(masters) if name}
        waiting = (name for name, part in parts.items() if part in (held[name] or ()))
        first = next(waiting, None)
        answering = {n: part for n, part in parts.items() if held[n] is not None}
        confirmed = answering == parts and not first
        found.append(
            _Open(gid=gid, waiting=first, confirmed=confirmed, answering=answering)
        )
    return found


def _held(site: Site, name: str) -> list[Gid] | None:
    """The transactions prepared at a master; None if it cannot be asked."""
    with suppress(SnaptideError, DBAPIError):
        return recovery.prepared_at(site, name)
    return None


def _record(connection: Connection, gid: str, decided: Answer) -> None:
    """Record who decided, before it is done, so that no crash can hide it."""
    values = {"decision": decided.value, "decided_by": func.session_user()}
    row = insert(heuristic_decision).values(gid=gid, **values)
    connection.execute(
        row.on_conflict_do_update(index_elements=["gid"], set_={**values})
    )


def _heuristic(row: sa.Row[tuple[str, str, str, datetime, str | None]]) -> InDoubt:
    return InDoubt(
        gid=row.gid,
        state="heuristic",
        since=row.decided_at,
        decision=row.outcome,
        heuristic=f"{row.decision} by {row.decided_by}",
    )


def _answer(site: Site, name: str) -> str | None:
    gid = Gid.parse(name)
    answer = None if gid is None else recovery.ask(site, gid)
    return None if answer is None else answer.value


def _not_in_doubt(site: Site, gid: str) -> NotInDoubt:
    return NotInDoubt(f"{site.name} has no in-doubt transaction {gid}.", gid=gid)


_PREPARED = (
    "SELECT gid, prepared FROM pg_prepared_xacts WHERE database = current_database()"
    " ORDER BY prepared"
)
