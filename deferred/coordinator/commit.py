"""The commit of a coordinated transaction: two-phase, with the site as last resource.

The masters are prepared; then the site commits, and its own transaction holds the
decision; then the masters commit what they prepared. Without a decision the
transaction was rolled back: nothing has to be remembered of one that fails. The
decision goes when every master has confirmed, with a later transaction's commit
(docs/explanation/synchronous.md).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus
from sqlalchemy.exc import DBAPIError

from deferred.coordinator import decision, refusal
from deferred.coordinator.decision import Answer
from deferred.coordinator.exchange import exchange
from deferred.coordinator.gid import Gid
from deferred.coordinator.participant import Participant
from deferred.errors import CommitFailed, OutcomeUnknown
from sites import faults
from sites.errors import SnaptideError
from sites.values import array_text

if TYPE_CHECKING:
    from deferred.coordinator.transaction import Transaction

log = logging.getLogger(__name__)

#: Seconds between two questions to a site that has not decided yet.
PACE = 0.2


def commit(transaction: Transaction) -> None:
    """Commit at the site and all masters that have something to commit.

    Raises:
        CommitFailed: it was rolled back everywhere.
        OutcomeUnknown: the site was lost while it committed; recovery will tell.
    """
    writers = [p for p in transaction.participants.values() if p.has_written]
    if not writers:
        # One participant, the site: it commits by itself.
        transaction.end()
        return
    gid = Gid.of(transaction.knowledge.who, int(transaction.xid))
    try:
        _prepare(writers, gid)
        settled = _taken(transaction)
        try:
            _decide(transaction, writers, gid, settled)
        except BaseException as error:
            transaction.knowledge.settled.extend(settled)
            _find_out(transaction, writers, gid, error)
        faults.point("synchronous.after_decision")
        if _confirm(writers, gid):
            transaction.knowledge.settled.append(transaction.xid)
    finally:
        transaction.end()


def _prepare(writers: Sequence[Participant], gid: Gid) -> None:
    """Let all masters promise; release those that did when one does not."""
    for number, participant in enumerate(writers):
        faults.point("synchronous.before_prepare")
        try:
            participant.prepare(str(gid.for_branch(participant.branch)))
        except psycopg.Error as error:
            _release(writers[: number + 1], gid)
            raise refusal.not_prepared(participant, error) from error
    faults.point("synchronous.after_prepare")


def _decide(
    transaction: Transaction,
    writers: Sequence[Participant],
    gid: Gid,
    settled: Sequence[str],
) -> None:
    """Commit at the site, and with it the decision, in one round trip."""
    masters = {p.master.name: p for p in writers}
    statement = transaction.last_statement(masters)
    names = {p.branch: name for name, p in masters.items()}
    parameters = {
        "xid": transaction.xid,
        "gid": gid.transaction,
        "names": array_text(names.get(n, "") for n in range(max(names) + 1)),
        "settled": array_text(settled),
        **{bound: masters[name].xid for bound, name in statement.masters.items()},
    }
    faults.point("synchronous.before_decision")
    over = exchange(transaction.driver, statement.template.bind(parameters), "COMMIT")
    if over.command_status != b"COMMIT":
        raise CommitFailed("The site rolled the transaction back.")


def _taken(transaction: Transaction) -> list[str]:
    """Decisions that this commit may forget, taken from what others would."""
    settled = transaction.knowledge.settled
    found: list[str] = []
    with suppress(IndexError):
        while len(found) < 100:
            found.append(settled.popleft())
    return found


def _find_out(
    transaction: Transaction,
    writers: Sequence[Participant],
    gid: Gid,
    error: BaseException,
) -> None:
    """Where the site's commit failed: see whether it did, and release the masters.

    Returns only when the site has committed after all.

    Raises:
        CommitFailed: it has not.
        OutcomeUnknown: it does not say.
    """
    answer = _rolled_back(transaction.driver) or _asked(transaction, gid)
    if answer is Answer.COMMITTED and isinstance(error, Exception):
        return
    if answer is Answer.ROLLED_BACK:
        _release(writers, gid)
        if isinstance(error, psycopg.Error):
            raise refusal.not_committed(transaction.knowledge.site, error) from error
        raise error
    raise OutcomeUnknown(
        f"{transaction.knowledge.site.name} was lost while it committed {gid}.",
        gid=gid.transaction,
    ) from error


def _rolled_back(driver: psycopg.Connection[object]) -> Answer | None:
    """Roll the site back, where its transaction is still open for certain."""
    open_ = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
    if driver.closed or driver.info.transaction_status not in open_:
        return None
    with suppress(psycopg.Error):
        driver.rollback()
        return Answer.ROLLED_BACK
    return None


def _asked(transaction: Transaction, gid: Gid) -> Answer:
    """Ask the site over another connection, until its transaction is over."""
    until = time.monotonic() + transaction.timeout
    answer = Answer.IN_PROGRESS
    while answer is Answer.IN_PROGRESS and time.monotonic() < until:
        with (
            suppress(SnaptideError, DBAPIError),
            transaction.knowledge.site.begin() as connection,
        ):
            answer = decision.ask(connection, gid)
        if answer is Answer.IN_PROGRESS:
            time.sleep(PACE)
    return answer


def _confirm(writers: Sequence[Participant], gid: Gid) -> bool:
    """Let the masters commit; whether all have. Recovery does what is left."""
    done = True
    for participant in writers:
        name = str(gid.for_branch(participant.branch))
        try:
            participant.commit_prepared(name)
        except errors.UndefinedObject:
            log.info("%s was finished by recovery.", name)
        except psycopg.Error as error:
            done = False
            log.warning(
                "%s is committed; %s will hear of it by recovery: %s",
                name,
                participant.master.name,
                error,
            )
        faults.point("synchronous.after_confirm")
    return done


def _release(writers: Sequence[Participant], gid: Gid) -> None:
    """Let masters roll back what they may have prepared. Recovery does what is left."""
    for participant in writers:
        with suppress(psycopg.Error):
            participant.rollback_prepared(str(gid.for_branch(participant.branch)))
