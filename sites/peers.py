"""Detecting that one of two sites was rolled back: both remember their last contact.

A database that is rolled back as a file copy has the same identity as before, and
assigns its transaction ids again. But the other side still has what it stored at the
last contact. At each contact both sides store one new token; the side with the
older one was rolled back, or is a copy (docs/explanation/identity.md).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cache

from sqlalchemy import Connection, bindparam, func, select
from sqlalchemy.dialects.postgresql import Insert, insert

from sites import faults
from sites.catalog import peer
from sites.errors import SiteReplaced, SiteRestored
from sites.identity import Identity
from sites.prepared import planned_once
from sites.site import autocommit


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What one site remembers of another; empty before their first contact."""

    incarnation: uuid.UUID | None = None
    former: tuple[uuid.UUID, ...] = ()
    contact_no: int = 0
    token: uuid.UUID | None = None
    #: the token that a site was about to give its master when it stopped
    next_token: uuid.UUID | None = None

    def knows(self, other: Identity) -> bool:
        """Whether the other has its incarnation of the last contact, or is new."""
        return self.incarnation in (None, other.incarnation)


class Standing(Enum):
    """Whether a site and its master agree about their last contact."""

    AGREED = "agreed"
    #: one was restored to a moment before their last contact, and not repaired
    SITE_RESTORED = "site restored"
    MASTER_RESTORED = "master restored"
    #: another database has taken the place of this one
    SITE_REPLACED = "site replaced"
    MASTER_REPLACED = "master replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A site and its master, and what each remembers of the other."""

    site: Identity
    master: Identity
    at_site: Memory
    at_master: Memory

    def standing(self) -> Standing:
        """Compare the two memories.

        A database that was repaired after the last contact may be older: the other one
        does not know its new incarnation yet.
        """
        if self.site.incarnation in self.at_master.former:
            return Standing.SITE_REPLACED
        if self.master.incarnation in self.at_site.former:
            return Standing.MASTER_REPLACED
        known = {self.at_site.token, self.at_site.next_token or self.at_site.token}
        if self.at_master.token in known:
            return Standing.AGREED
        known_site = self.at_master.knows(self.site)
        known_master = self.at_site.knows(self.master)
        ahead = self.at_site.contact_no - self.at_master.contact_no
        if ahead > 0:
            return Standing.MASTER_RESTORED if known_master else Standing.AGREED
        if ahead < 0 or known_master:
            return Standing.SITE_RESTORED if known_site else Standing.AGREED
        return Standing.AGREED

    @property
    def acquainted(self) -> bool:
        """Whether each has met the other in its present incarnation."""
        return (
            self.at_site.incarnation == self.master.incarnation
            and self.at_master.incarnation == self.site.incarnation
        )

    @property
    def remembers_the_same(self) -> bool:
        """Whether both have the same last contact, in their present incarnations."""
        return self.acquainted and self.at_site.token == self.at_master.token

    @property
    def has_met(self) -> bool:
        """Whether either remembers a contact."""
        return bool(self.at_site.contact_no or self.at_master.contact_no)

    def confirm(self) -> None:
        """Make sure that both remember their last contact.

        Raises:
            SiteRestored, SiteReplaced: one of the two does not.
        """
        standing = self.standing()
        site, master = self.site.name, self.master.name
        behind = {
            Standing.SITE_RESTORED: (site, master),
            Standing.MASTER_RESTORED: (master, site),
        }.get(standing)
        if behind is not None:
            older, other = behind
            raise SiteRestored(
                f"Site {older} is older than the state that {other} has seen. Nothing "
                f"was pushed or refreshed; run: snaptide site check {older} --repair",
                site=older,
            )
        copy = {Standing.SITE_REPLACED: site, Standing.MASTER_REPLACED: master}
        if standing in copy:
            raise SiteReplaced(
                f"Another database has taken over as site {copy[standing]}; the one "
                "at this address is an older copy.",
                site=copy[standing],
            )


def compare(site: Connection, master: Connection, me: Identity, them: Identity) -> Pair:
    """Read what a site and its master remember of each other; write nothing.

    Both connections must be outside a transaction, and are so afterwards.
    """
    with autocommit(site, master):
        pair = _read(site, master, me, them)
        if pair.remembers_the_same:
            return pair
        # Another contact may have been under way between the two reads.
        with _alone(site, them):
            return _read(site, master, me, them)


def meet(site: Connection, master: Connection, me: Identity, them: Identity) -> Pair:
    """Let both sides remember this contact, if they agree about the last one.

    Afterwards a rollback of the master to an earlier moment is noticed, so that the
    site may store what it reads there. Commits at both sides.

    Raises:
        SiteRestored, SiteReplaced: one of the two does not remember.
    """
    with autocommit(site, master), _alone(site, them):
        pair = _read(site, master, me, them)
        pair.confirm()
        number = 1 + max(pair.at_site.contact_no, pair.at_master.contact_no)
        token = uuid.uuid4()
        # After a crash in between, the master has the old or the new token, and the
        # site has both: no data has moved yet.
        _promise(site, them, token, pair)
        faults.point("peers.after_promise")
        _remember(master, me, "site", pair.at_master, contact_no=number, token=token)
        faults.point("peers.after_master")
        _remember(
            site,
            them,
            "master",
            pair.at_site,
            contact_no=number,
            token=token,
            next_token=None,
        )
    return pair


def recall(connection: Connection, other: uuid.UUID, role: str) -> Memory:
    """What a site remembers of another, which is its `master` or a `site` of it."""
    row = connection.execute(
        _RECALLED, {"other": other, "its_role": role}
    ).one_or_none()
    if row is None:
        return Memory()
    return Memory(**{**row._mapping, "former": tuple(row.former)})


_RECALLED = planned_once(
    select(*(peer.c[name] for name in Memory.__slots__)).where(
        peer.c.site_id == bindparam("other", type_=peer.c.site_id.type),
        peer.c.role == bindparam("its_role", type_=peer.c.role.type),
    )
)


def forget(connection: Connection) -> None:
    """Forget all other sites: this copy is a new site, and they know the original."""
    connection.execute(peer.delete())


def _read(site: Connection, master: Connection, me: Identity, them: Identity) -> Pair:
    return Pair(
        site=me,
        master=them,
        at_site=recall(site, them.site_id, "master"),
        at_master=recall(master, me.site_id, "site"),
    )


def _promise(
    connection: Connection, master: Identity, token: uuid.UUID, pair: Pair
) -> None:
    """Note the token that a master is about to get; if it is known, nothing else."""
    noted: dict[str, object] = {"next_token": token}
    if pair.at_master.token == pair.at_site.next_token is not None:
        # The master stored the token promised last, but the site stopped before it
        # noted that. So that was the last contact.
        last = pair.at_master
        noted |= {"token": last.token, "contact_no": last.contact_no}
    new = {"name": master.name, "incarnation": master.incarnation, **noted}
    values = {"site_id": master.site_id, "role": "master", **new}
    connection.execute(_noting(tuple(new), tuple(noted)), values)


def _remember(
    connection: Connection, other: Identity, role: str, before: Memory, **values: object
) -> None:
    former = before.former
    if not before.knows(other):
        former = (*former, before.incarnation)  # type: ignore[arg-type]
    everything = {
        "name": other.name,
        "incarnation": other.incarnation,
        "former": list(former),
        **values,
    }
    names = tuple(everything)
    values = {"site_id": other.site_id, "role": role, **everything}
    connection.execute(_noting(names, names), values)


@cache
def _noting(names: tuple[str, ...], noted: tuple[str, ...]) -> Insert:
    """The statement that notes facts about another site.

    Parameters:
        names: the columns for a site that is not known yet.
        noted: the columns to update for a known one.
    """
    given = ("site_id", "role", *names)
    new = insert(peer).values({name: bindparam(name) for name in given})
    return planned_once(
        new.on_conflict_do_update(
            index_elements=[peer.c.site_id, peer.c.role],
            set_={name: new.excluded[name] for name in noted},
        )
    )


@contextmanager
def _alone(site: Connection, them: Identity) -> Iterator[None]:
    """Make this the only contact of a site with its master during the block.

    Pushes and refreshes overlap, so that two contacts could come at once. Each
    statement at the site is a transaction of its own.
    """
    key = (func.hashtext("snaptide.contact"), func.hashtext(str(them.site_id)))
    site.execute(select(func.pg_advisory_lock(*key)))
    try:
        yield
    finally:
        if not site.invalidated:
            site.execute(select(func.pg_advisory_unlock(*key)))
