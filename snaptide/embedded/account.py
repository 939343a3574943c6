"""Chooses the account under which root runs a server that refuses to run as root."""

import os
import pwd
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from snaptide.embedded.errors import EmbeddedServerError

# The system's own PostgreSQL creates the first; every system has the second.
_CANDIDATES = ("postgres", "nobody")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The account under which root runs a server."""

    uid: int
    gid: int

    def may_enter(self, path: Path) -> bool:
        """Tell whether the account can reach the path and enter or execute it."""
        path = path.resolve()
        return all(self._may_search(part) for part in (path, *path.parents))

    def _may_search(self, part: Path) -> bool:
        found = part.stat()
        if found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IXUSR)
        if found.st_gid == self.gid:
            return bool(found.st_mode & stat.S_IXGRP)
        return bool(found.st_mode & stat.S_IXOTH)


def server_account(data: Path) -> Account | None:
    """Return the account for the server with this data; None means the caller's own."""
    if os.geteuid() != 0:
        return None
    if data.exists():
        # The account that owns existing data runs its server.
        owner = data.stat()
        return Account(uid=owner.st_uid, gid=owner.st_gid)
    for name in _CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(uid=entry.pw_uid, gid=entry.pw_gid)
    raise EmbeddedServerError(
        "PostgreSQL does not run as root, and there is no other account to run it",
        hint="Create an account named 'postgres', or start as an ordinary user.",
    )


def run_as(account: Account | None) -> Mapping[str, object]:
    """Return the arguments that make `subprocess` run a program under the account."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}
