"""The commit of a coordinated transaction: two-phase, with the site as last resource.

The masters prepare; then the site commits, and its own transaction holds the decision;
then the masters commit their prepared parts. Without a decision the transaction was
rolled back, so a failed one leaves nothing to remember. Once every master has
confirmed, a later transaction's commit deletes the decision
(docs/explanation/synchronous.md).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus
from sqlalchemy.exc import DBAPIError
from tenacity import stop_after_delay, wait_fixed

from sites import faults, retry
from sites.errors import SnaptideError
from sites.transfer.values import array_text
from synchronous import decision, refusal
from synchronous.decision import Answer
from synchronous.errors import CommitFailed, OutcomeUnknown
from synchronous.exchange import Pipeline
from synchronous.gid import Gid
from synchronous.participant import Participant
from synchronous.prepared import COMMIT
from synchronous.site_cache import SiteCache
from synchronous.transaction import Transaction

log = logging.getLogger(__name__)

#: Between two questions to a site that has not decided yet.
PAUSE = wait_fixed(0.2)


def commit(transaction: Transaction) -> None:
    """Commit at the site and all masters that have something to commit, or nowhere.

    Raises:
        CommitFailed: it was rolled back everywhere.
        OutcomeUnknown: the site was lost while it committed; recovery will tell.
        Also the errors of the last statement's calls: see `Transaction.execute`.
    """
    transaction.complete()
    writers = [p for p in transaction.participants.values() if p.has_written]
    if not writers:
        # The site is the only participant: it commits by itself.
        transaction.end()
        return
    gid = Gid.of(transaction.site_cache.who, int(transaction.xid))
    try:
        with (
            _settled(transaction.site_cache) as settled,
            Pipeline(transaction.driver) as site,
        ):
            with _prepared(writers, gid):
                _tell(site, transaction, writers, gid, settled)
            try:
                _decide(site)
            except BaseException as error:
                site.drop()
                _find_out(transaction, writers, gid, error)
        faults.point("synchronous.after_decision")
        if _confirm(writers, gid):
            transaction.site_cache.settled.append(transaction.xid)
    finally:
        transaction.end()


def _tell(
    site: Pipeline,
    transaction: Transaction,
    writers: Sequence[Participant],
    gid: Gid,
    settled: Sequence[str],
) -> None:
    """Send the site its last statement, which runs while the masters prepare."""
    masters = {p.master.name: p for p in writers}
    statement = transaction.last_statement(masters)
    names = {p.branch: name for name, p in masters.items()}
    parameters = {
        "xid": transaction.xid,
        "gid": gid.transaction,
        "names": array_text(names.get(n, "") for n in range(max(names) + 1)),
        "settled": array_text(settled),
        "applied": str(sum(p.applied for p in writers)),
        **{bound: masters[name].xid for bound, name in statement.masters.items()},
    }
    try:
        site.send(statement.template.bind(parameters))
    except psycopg.Error as error:
        raise refusal.not_committed(transaction.site_cache.site, error) from error


@contextmanager
def _prepared(writers: Sequence[Participant], gid: Gid) -> Iterator[None]:
    """Have all masters prepare at once, before the block and while it runs.

    If one cannot prepare, all roll back.
    """
    asked = writers[0]
    try:
        for asked in writers:
            faults.point("synchronous.before_prepare")
            asked.prepare(gid.of_branch(asked.branch))
        yield
        for asked in writers:
            asked.prepared()
    except psycopg.Error as error:
        _release(writers, gid)
        raise refusal.not_prepared(asked, error) from error
    except Exception:
        _release(writers, gid)
        raise
    faults.point("synchronous.after_prepare")


def _decide(site: Pipeline) -> None:
    """Commit at the site, and with it the decision."""
    faults.point("synchronous.before_decision")
    site.send(COMMIT)
    over = site.answers()[-1]
    if over.command_status != b"COMMIT":
        raise CommitFailed("The site rolled the transaction back.")


@contextmanager
def _settled(site_cache: SiteCache) -> Iterator[list[str]]:
    """Decisions that a commit may delete; if it fails, another commit may."""
    found: list[str] = []
    with suppress(IndexError):
        while len(found) < 100:
            found.append(site_cache.settled.popleft())
    try:
        yield found
    except BaseException:
        site_cache.settled.extend(found)
        raise


def _find_out(
    transaction: Transaction,
    writers: Sequence[Participant],
    gid: Gid,
    error: BaseException,
) -> None:
    """After a failed commit, find out whether the site has committed after all.

    Returns only if it has; if it has not, the masters roll back.

    Raises:
        CommitFailed: the site has not committed.
        OutcomeUnknown: the site does not say.
    """
    answer = _rolled_back(transaction.driver) or _asked(transaction, gid)
    if answer is Answer.COMMITTED and isinstance(error, Exception):
        return
    if answer is Answer.ROLLED_BACK:
        _release(writers, gid)
        if isinstance(error, psycopg.Error):
            raise refusal.not_committed(transaction.site_cache.site, error) from error
        raise error
    raise OutcomeUnknown(
        f"The connection to {transaction.site_cache.site.name} was lost while it "
        f"committed {gid}.",
        gid=gid.transaction,
    ) from error


def _rolled_back(driver: psycopg.Connection[object]) -> Answer | None:
    """Roll the site back, if its transaction is certain to be still open."""
    open_ = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
    if driver.closed or driver.info.transaction_status not in open_:
        return None
    with suppress(psycopg.Error):
        driver.rollback()
        return Answer.ROLLED_BACK
    return None


def _asked(transaction: Transaction, gid: Gid) -> Answer:
    """Ask the site over another connection, until its transaction is over."""

    def outcome() -> Answer | None:
        answer = Answer.IN_PROGRESS
        with (
            suppress(SnaptideError, DBAPIError),
            transaction.site_cache.site.transaction() as connection,
        ):
            answer = decision.ask(connection, gid)
        return None if answer is Answer.IN_PROGRESS else answer

    answer = retry.until(
        outcome, stop=stop_after_delay(transaction.timeout), wait=PAUSE
    )
    return answer or Answer.IN_PROGRESS


def _confirm(writers: Sequence[Participant], gid: Gid) -> bool:
    """Have the masters commit; True if all have. Recovery does the rest."""
    done = True
    for participant in writers:
        name = gid.of_branch(participant.branch)
        try:
            participant.commit_prepared(name)
        except errors.UndefinedObject:
            # Recovery settles it, too: perhaps a person has ended it otherwise.
            done = False
            log.info("Recovery or a person has finished %s.", name)
        except psycopg.Error as error:
            done = False
            log.warning(
                "%s is committed; recovery will commit it at %s: %s",
                name,
                participant.master.name,
                error,
            )
        faults.point("synchronous.after_confirm")
    return done


def _release(writers: Sequence[Participant], gid: Gid) -> None:
    """Have masters roll back parts that may be prepared. Recovery does the rest."""
    for participant in writers:
        with suppress(psycopg.Error):
            participant.rollback_prepared(gid.of_branch(participant.branch))
