"""Detecting that one of two sites was rolled back: both remember their last contact.

A database that is rolled back as a file copy has the same identity as before, and
assigns its transaction ids again. But the other side still has what it stored at the
last contact. At each contact both sides store one new token; the side with the
older one was rolled back, or is a copy (docs/explanation/identity.md).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, Text, func, select

from sites.catalog import peer
from sites.errors import SiteReplaced, SiteRestored
from sites.sessions.identity import Identity, confirm_and_read
from sites.sessions.prepared import Prepared


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What one site remembers of another; empty before their first contact."""

    incarnation: uuid.UUID | None = None
    former: tuple[uuid.UUID, ...] = ()
    contact_no: int = 0
    token: uuid.UUID | None = None
    #: the token that a site was about to give its master when it stopped
    next_token: uuid.UUID | None = None
    #: its name at the last contact
    name: str | None = None

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a database says of itself and remembers of others, at one moment."""

    identity: Identity
    #: by id of the other site
    memories: Mapping[uuid.UUID, Memory]
    #: has the other values that were asked for
    row: Row[Any]

    def of(self, other: Identity) -> Memory:
        """What it remembers of another site."""
        return self.memories.get(other.site_id, Memory())


def look(
    connection: Connection,
    name: str,
    *,
    site: uuid.UUID | None = None,
    also: tuple[ColumnElement[Any], ...] = (),
    **values: object,
) -> Look:
    """Read who a database is and what it remembers of others, in one round trip.

    Parameters:
        name: the site that it has to be.
        site: at a master, the id of the site that is wanted; at a site, all its
            masters are.
        also: what else to read: constants, as the statement is kept for each.
        values: the parameters of these.

    Raises:
        SiteNotInitialised, OlderSchema, NewerSchema, NotAMember, SiteChanged: as
            `identity.confirm` raises them.
    """
    role = "master" if site is None else "site"
    me, row = confirm_and_read(
        connection,
        name,
        (_MEMORIES, *also),
        {"its_role": role, "other": site, **values},
        partner=site is not None,
    )
    return Look(identity=me, memories=_memories(row.memories), row=row)


def read(site: Connection, master: Connection, me: Identity, them: Identity) -> Pair:
    """Read what a site and its master remember of each other."""
    return Pair(
        site=me,
        master=them,
        at_site=recall(site, them.site_id, "master"),
        at_master=recall(master, me.site_id, "site"),
    )


def paired(at_site: Look, at_master: Look) -> Pair:
    """What the two remember of each other, by their answers."""
    me, them = at_site.identity, at_master.identity
    return Pair(
        site=me, master=them, at_site=at_site.of(them), at_master=at_master.of(me)
    )


def recall(connection: Connection, other: uuid.UUID, role: str) -> Memory:
    """What a site remembers of another, which is its `master` or a `site` of it."""
    found = _RECALLED.run(connection, other=other, its_role=role).scalar()
    return _memories(found).get(other, Memory())


def forget(connection: Connection) -> None:
    """Forget all other sites: this copy is a new site, and they know the original."""
    connection.execute(peer.delete())


_OTHER = sa.bindparam("other", type_=peer.c.site_id.type)
_MEMORIES = (
    select(func.json_agg(sa.literal_column(peer.name)))
    .select_from(peer)
    .where(
        peer.c.role == sa.bindparam("its_role", type_=Text),
        sa.or_(_OTHER.is_(None), peer.c.site_id == _OTHER),
    )
    .scalar_subquery()
    .label("memories")
)


_RECALLED = Prepared(select(_MEMORIES))


def _memories(found: Sequence[dict[str, Any]] | None) -> dict[uuid.UUID, Memory]:
    """What is remembered of other sites, by their ids, from rows as JSON has them."""
    return {uuid.UUID(row["site_id"]): _memory(row) for row in found or ()}


def _memory(row: dict[str, Any]) -> Memory:
    ids = {
        name: None if row[name] is None else uuid.UUID(row[name])
        for name in ("incarnation", "token", "next_token")
    }
    former = tuple(map(uuid.UUID, row["former"]))
    return Memory(contact_no=row["contact_no"], former=former, name=row["name"], **ids)
