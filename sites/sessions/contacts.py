"""A contact: a site and its master store one new token.

Afterwards a rollback of either side is noticed (docs/explanation/identity.md).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from psycopg.errors import InsufficientPrivilege
from sqlalchemy import Connection, Text, and_, bindparam, func, select
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.exc import ProgrammingError

from sites import faults
from sites.catalog import peer
from sites.sessions import granted, settings
from sites.sessions.exchange import Later
from sites.sessions.identity import Identity
from sites.sessions.peers import Memory, Pair, read
from sites.sessions.prepared import Prepared
from sites.sessions.site import autocommit


def compare(site: Connection, master: Connection, me: Identity, them: Identity) -> Pair:
    """Read what a site and its master remember of each other; write nothing.

    Both connections must be outside a transaction, and are so afterwards.
    """
    with autocommit(site, master):
        pair = read(site, master, me, them)
    return pair if pair.remembers_the_same else read_again(site, master, pair)


def read_again(site: Connection, master: Connection, pair: Pair) -> Pair:
    """Read a pair again: another contact may have come between its two reads.

    Both connections must be outside a transaction, and are so afterwards.

    Raises:
        NotGranted: the site's login at the master was granted to another site.
    """
    with autocommit(site, master), _alone(site, pair.master):
        if not pair.at_master.contact_no:
            granted.refuse_other_name(master, pair.site, pair.master.name)
        return read(site, master, pair.site, pair.master)


def meet(site: Connection, master: Connection, pair: Pair) -> Callable[[], None]:
    """Let both sides remember this contact, if they agree about the last one.

    Afterwards a rollback of the master to an earlier moment is noticed, so that the
    site may store what it reads there. Commits at both sides.

    Parameters:
        pair: what the two remembered a moment ago.

    Returns:
        What waits until the site has noted it: call it before anything relies on the
        contact.

    Raises:
        SiteRestored, SiteReplaced: one of the two does not remember.
        NotGranted: the master has granted the login to another site.
    """
    pair.confirm()
    locked = False
    try:
        while (ending := _meet(site, master, pair, locked=locked)) is None:
            # Another contact came first, perhaps that of a copy of this site.
            locked = True
            with autocommit(site, master):
                pair = read(site, master, pair.site, pair.master)
            pair.confirm()
    except BaseException:
        _unlock(site, pair.master)
        raise
    return partial(_end, site, pair.master, ending)


def _end(site: Connection, them: Identity, ending: Later) -> None:
    try:
        ending.answer()
    except BaseException:
        _unlock(site, them)
        raise


def _meet(
    site: Connection, master: Connection, pair: Pair, *, locked: bool
) -> Later | None:
    """Lock the contact, store a new token at both sides, and unlock it.

    Parameters:
        locked: whether it is locked already.

    Returns:
        The end of it, at the site; None, and then it is still locked, if one side
        remembers something else.
    """
    number = 1 + max(pair.at_site.contact_no, pair.at_master.contact_no)
    token = uuid.uuid4()
    # After a crash in between, the master has the old or the new token, and the
    # site has both: no data has moved yet.
    if not _promise(site, token, pair, locked=locked):
        return None
    faults.point("peers.after_promise")
    noted = _facts(pair.site, pair.at_master, contact_no=number, token=token)
    try:
        if not _note(master, pair.site, "site", noted, pair.at_master):
            return None
    except ProgrammingError as error:
        if not isinstance(error.orig, InsufficientPrivilege):
            raise
        granted.refuse_other_name(master, pair.site, pair.master.name)
        raise
    faults.point("peers.after_master")
    noted = _facts(
        pair.master, pair.at_site, contact_no=number, token=token, next_token=None
    )
    return _note_and_unlock(site, pair.master, noted)


def _promise(
    connection: Connection, token: uuid.UUID, pair: Pair, *, locked: bool
) -> bool:
    """Note the token that a master is about to get; if it is known, nothing else.

    The contact is locked in the same statement, before the row of the master is looked
    at: what another contact has noted meanwhile is seen there.
    """
    noted: dict[str, object] = {"next_token": token}
    if pair.at_master.token == pair.at_site.next_token is not None:
        # The master stored the token promised last, but the site stopped before it
        # noted that. So that was the last contact.
        last = pair.at_master
        noted |= {"token": last.token, "contact_no": last.contact_no}
    master = pair.master
    new = {"name": master.name, "incarnation": master.incarnation}
    return _note(
        connection, master, "master", noted, pair.at_site, new, lock=not locked
    )


def _facts(other: Identity, before: Memory, **values: object) -> dict[str, object]:
    """What is noted of another site at a contact."""
    former = before.former
    if not before.knows(other):
        former = (*former, before.incarnation)  # type: ignore[arg-type]
    return {
        "name": other.name,
        "incarnation": other.incarnation,
        "former": list(former),
        **values,
    }


def _note(
    connection: Connection,
    other: Identity,
    role: str,
    noted: Mapping[str, object],
    before: Memory,
    new: Mapping[str, object] | None = None,
    *,
    lock: bool = False,
) -> bool:
    """Note facts about another site, if what is remembered of it is as before.

    Parameters:
        new: facts that are noted only if nothing is remembered yet.
        lock: whether to lock the contact before, until it is unlocked.
    """
    values = {"site_id": other.site_id, "role": role, **(new or {}), **noted}
    statement = _noting_if(tuple(values), tuple(noted), lock=lock)
    places = {
        "before_token": before.token,
        "before_next": before.next_token,
        "contact": str(other.site_id),
    }
    return statement.run_apart(connection, **values, **places).rowcount == 1


def _note_and_unlock(
    connection: Connection, master: Identity, noted: Mapping[str, object]
) -> Later:
    """Note facts about a master, and let the next contact begin; do not wait for it.

    The unlocking follows the writing, but comes before its commit. The next contact
    may read the promised token still, which is right, too; it writes after the commit.
    """
    values = {"site_id": master.site_id, "role": "master", **noted}
    finishing = _finishing(tuple(values), tuple(noted))
    return finishing.send(connection, **values, contact=str(master.site_id))


def _noting(
    given: tuple[str, ...], noted: tuple[str, ...], *if_: Any, lock: bool = False
) -> Insert:
    """The statement that notes facts about another site.

    Parameters:
        given: the columns for a site that is not known yet.
        noted: the columns to update for a known one.
        if_: conditions on a known one.
        lock: whether to lock the contact before.
    """
    row = select(*(bindparam(name, type_=peer.c[name].type) for name in given))
    if lock:
        locked = select(func.pg_advisory_lock(*_CONTACT)).cte("locked")
        row = row.select_from(locked)
    new = insert(peer).from_select([*given], row)
    return new.on_conflict_do_update(
        index_elements=[peer.c.site_id, peer.c.role],
        set_={name: new.excluded[name] for name in noted},
        where=and_(*if_) if if_ else None,
    )


@cache
def _noting_if(
    given: tuple[str, ...], noted: tuple[str, ...], *, lock: bool
) -> Prepared:
    """The same, if what is remembered has certain tokens."""
    same = (
        column.is_not_distinct_from(bindparam(name, type_=column.type))
        for column, name in (
            (peer.c.token, "before_token"),
            (peer.c.next_token, "before_next"),
        )
    )
    return Prepared(_noting(given, noted, *same, lock=lock))


@cache
def _finishing(given: tuple[str, ...], noted: tuple[str, ...]) -> Prepared:
    """The same, and unlock the contact.

    If the site crashes before its next flush, it has both tokens, as before, and
    nothing of what it reads at the master after this.
    """
    done = _noting(given, noted).returning(peer.c.site_id).cte("noted")
    unlock = func.pg_advisory_unlock(*_CONTACT)
    return Prepared(select(unlock, settings.UNFLUSHED).select_from(done))


@contextmanager
def _alone(site: Connection, them: Identity) -> Iterator[None]:
    """Make this the only contact of a site with its master during the block.

    Pushes and refreshes overlap, so that two contacts could come at once. Each
    statement at the site is a transaction of its own.
    """
    _LOCK.run_apart(site, contact=str(them.site_id))
    try:
        yield
    finally:
        _unlock(site, them)


def _unlock(site: Connection, them: Identity) -> None:
    _UNLOCK.give_back(site, contact=str(them.site_id))


_CONTACT = (
    func.hashtext("snaptide.contact"),
    func.hashtext(bindparam("contact", type_=Text)),
)
_LOCK = Prepared(select(func.pg_advisory_lock(*_CONTACT)))
_UNLOCK = Prepared(select(func.pg_advisory_unlock(*_CONTACT)))
