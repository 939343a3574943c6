"""Who may use the console, and for what: a file of names, roles and password hashes."""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from snaptide.web.errors import BadUser, BadUserFile, NoSuchUser

SHORTEST_PASSWORD = 12
LONGEST_PASSWORD = 1000

_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")


class Role(Enum):
    """What a user may do; each role may do what those before it may."""

    #: look at everything
    VIEWER = "viewer"
    #: decide about the error queue, run schedules
    OPERATOR = "operator"
    #: whatever the console can do
    ADMINISTRATOR = "administrator"

    def may(self, needed: Role) -> bool:
        """Whether this role includes another one."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A person in front of the console."""

    name: str
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of the file."""

    role: Role
    #: of the password, by argon2
    hash: str


class Users:
    """The users of a file, which is read again when it has changed.

    Parameters:
        path: the file; each line is `name:role:hash`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reading = threading.Lock()
        self._read: tuple[object, Mapping[str, Entry]] = (None, {})

    def find(self, name: str) -> User | None:
        """The user of a name.

        Raises:
            BadUserFile.
        """
        entry = self._entries().get(name)
        return User(name=name, role=entry.role) if entry else None

    def check(self, name: str, password: str) -> User | None:
        """The user of a name, if the password is right.

        An unknown name takes as long as a wrong password.

        Raises:
            BadUserFile.
        """
        entry = self._entries().get(name)
        right = _matches(entry.hash if entry else _nobody(), password)
        return User(name=name, role=entry.role) if entry and right else None

    def _entries(self) -> Mapping[str, Entry]:
        try:
            found = self._path.stat()
        except OSError as error:
            raise BadUserFile(f"{self._path}: {error.strerror}.") from None
        stamp = found.st_mtime_ns, found.st_size, found.st_ino
        with self._reading:
            if self._read[0] != stamp:
                self._read = stamp, read(self._path)
            return self._read[1]


def read(path: Path) -> dict[str, Entry]:
    """The users of a file, by name.

    Raises:
        BadUserFile: it cannot be read, or a line is not an entry; no line is shown.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadUserFile(f"{path} cannot be read: {error}.") from None
    found: dict[str, Entry] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, rest = line.partition(":")
        role, _, hashed = rest.partition(":")
        if not _NAME.fullmatch(name) or not hashed.startswith("$argon2"):
            raise BadUserFile(f"{path}: line {number} is not name:role:hash.")
        try:
            found[name] = Entry(role=Role(role), hash=hashed)
        except ValueError:
            raise BadUserFile(f"{path}: line {number} has an unknown role.") from None
    return found


def set_user(path: Path, name: str, role: Role, password: str) -> None:
    """Add a user to a file, or change one; makes the file if there is none.

    Raises:
        BadUser: the name or password is not one.
        BadUserFile: the file cannot be read or written.
    """
    if not _NAME.fullmatch(name):
        raise BadUser(f"{name!r} cannot be the name of a user.")
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise BadUser(
            f"A password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD:,} characters."
        )
    entries = read(path) if path.exists() else {}
    entries[name] = Entry(role=role, hash=_hasher().hash(password))
    _write(path, entries)


def delete_user(path: Path, name: str) -> None:
    """Remove a user from a file; sessions of the user end with the next request.

    Raises:
        BadUserFile, NoSuchUser.
    """
    entries = read(path)
    if name not in entries:
        raise NoSuchUser(f"{path} has no user {name!r}.")
    del entries[name]
    _write(path, entries)


def _write(path: Path, entries: Mapping[str, Entry]) -> None:
    """Replace the file as a whole; only its owner may read it."""
    lines = [f"{name}:{e.role.value}:{e.hash}\n" for name, e in entries.items()]
    try:
        handle, new = tempfile.mkstemp(dir=path.absolute().parent, prefix=".users-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(lines)
        os.replace(new, path)
    except OSError as error:
        raise BadUserFile(f"{path} cannot be written: {error.strerror}.") from None


def _matches(hashed: str, password: str) -> bool:
    try:
        return _hasher().verify(hashed, password[:LONGEST_PASSWORD])
    except (VerificationError, InvalidHashError):
        return False


@cache
def _hasher() -> PasswordHasher:
    return PasswordHasher()


@cache
def _nobody() -> str:
    return _hasher().hash("the password of no user")
