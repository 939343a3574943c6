"""The name of a prepared transaction: it says which site decides about it."""

from __future__ import annotations

import secrets
import uuid
from dataclasses import dataclass, replace
from functools import cached_property

from sites.sessions.identity import Identity

#: Prepared transactions whose name begins otherwise are not ours.
PREFIX = "snaptide"


@dataclass(frozen=True, kw_only=True)
class Gid:
    """A global transaction id.

    It names the deciding site as a database, not by its URL: a database that was
    restored or cloned since is not asked (docs/explanation/synchronous.md).
    """

    site_id: uuid.UUID
    system_identifier: int
    timeline: int
    database_oid: int
    #: the deciding transaction
    xid: int
    #: random: after a crash the site may give the same id once more
    nonce: str
    #: number of the master: two of them may be databases of one server
    branch: int = 0

    @classmethod
    def of(cls, site: Identity, xid: int) -> Gid:
        """A name for a site's transaction, and for its first master's part of it."""
        return cls(
            site_id=site.site_id,
            system_identifier=site.system_identifier,
            timeline=site.timeline,
            database_oid=site.database_oid,
            xid=xid,
            nonce=secrets.token_hex(8),
        )

    @classmethod
    def parse(cls, text: str) -> Gid | None:
        """Read a name; None if it is not one of ours."""
        prefix, *parts = text.split(":")
        if prefix != PREFIX or len(parts) != 7:
            return None
        try:
            site_id = uuid.UUID(parts[0])
            system, timeline, oid, xid, branch = map(int, [*parts[1:5], parts[6]])
        except ValueError:
            return None
        return cls(
            site_id=site_id,
            system_identifier=system,
            timeline=timeline,
            database_oid=oid,
            xid=xid,
            nonce=parts[5],
            branch=branch,
        )

    def __str__(self) -> str:
        return self.of_branch(self.branch)

    @cached_property
    def transaction(self) -> str:
        """The part of the name that all branches share; it names the decision."""
        database = f"{self.site_id}:{self.system_identifier}:{self.timeline}"
        return f"{PREFIX}:{database}:{self.database_oid}:{self.xid}:{self.nonce}"

    def of_branch(self, branch: int) -> str:
        """The name of another master's part, written out."""
        return f"{self.transaction}:{branch}"

    def for_branch(self, branch: int) -> Gid:
        """The name for another master's part."""
        return replace(self, branch=branch)

    def decided_by(self, site: Identity) -> bool:
        """Whether this site, as it is now, is the one that decides."""
        return all(
            getattr(self, name) == getattr(site, name)
            for name in ("site_id", "system_identifier", "timeline", "database_oid")
        )
