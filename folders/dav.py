"""A folder as WsgiDAV sees it: each request reads or writes the tables.

Locks are WsgiDAV's, and last as long as the server. A file that is written is read into
a temporary file first, so that others see it whole, or as it was before.
"""

from __future__ import annotations

import io
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from psycopg.errors import DataError, UniqueViolation, WithCheckOptionViolation
from sqlalchemy import Connection
from wsgidav import util
from wsgidav.dav_error import (
    HTTP_BAD_REQUEST,
    HTTP_CONFLICT,
    HTTP_FORBIDDEN,
    HTTP_SERVICE_UNAVAILABLE,
    DAVError,
)
from wsgidav.dav_provider import DAVCollection, DAVNonCollection, DAVProvider

from folders import entries, paths
from folders.entries import MEANWHILE, SHA, Entry, MovedOn
from folders.tables import PIECE, Tables
from sites import Site, SiteUnreachable

_Made = TypeVar("_Made")


class Provider(DAVProvider):
    """The folder of a site."""

    def __init__(self, site: Site, tables: Tables) -> None:
        super().__init__()
        self._site = site
        self._tables = tables

    def get_resource_inst(self, path: str, environ: dict[str, Any]) -> Any:
        """The file or folder at a path; None if there is none."""
        name = path.strip("/")
        with self.transaction() as (connection, tables):
            if name and "\0" not in name:
                entry = entries.find(connection, tables, name)
                if entry is not None and entry.kind == "file":
                    return _File(path, environ, entry)
            below = entries.below(connection, tables, name)
            if not name or below or entry is not None:
                return _Folder(path, environ, below)
        return None

    @contextmanager
    def transaction(self) -> Iterator[tuple[Connection, Tables]]:
        """Open a transaction; what is refused becomes an answer of HTTP."""
        try:
            with self._site.begin() as connection:
                yield connection, self._tables
        except SiteUnreachable:
            raise DAVError(HTTP_SERVICE_UNAVAILABLE) from None
        except (MovedOn, UniqueViolation):
            raise DAVError(
                HTTP_CONFLICT, "It was written meanwhile by another program."
            ) from None
        except WithCheckOptionViolation:
            said = "It does not lie in the part of the folder that the site has."
            raise DAVError(HTTP_FORBIDDEN, said) from None
        except DataError:
            raise DAVError(HTTP_FORBIDDEN, "The database cannot hold it.") from None


class _Content(io.RawIOBase):
    """The content of an entry, read piece by piece."""

    def __init__(self, provider: Provider, entry: Entry) -> None:
        self._provider = provider
        self._entry = entry
        self._place = 0
        self._number = -1
        self._piece = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {
            io.SEEK_SET: 0,
            io.SEEK_CUR: self._place,
            io.SEEK_END: self._entry.size,
        }
        self._place = max(0, start[whence] + offset)
        return self._place

    def readinto(self, buffer: Any) -> int:
        number, inside = divmod(self._place, PIECE)
        if number != self._number:
            with self._provider.transaction() as (connection, tables):
                self._piece = entries.piece(connection, tables, self._entry.id, number)
            self._number = number
        found = self._piece[inside : inside + len(buffer)]
        buffer[: len(found)] = found
        self._place += len(found)
        return len(found)


class _Upload:
    """A file that is being received, until `_File.end_write` says that all has come."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115
        self.digest = SHA()
        self.size = 0

    def write(self, data: bytes) -> None:
        self.file.write(data)
        self.digest.update(data)
        self.size += len(data)

    def close(self) -> None:
        """Do nothing: WsgiDAV calls it before `_File.end_write`, which reads it."""

    def pieces(self) -> Iterator[bytes]:
        self.file.seek(0)
        while data := self.file.read(PIECE):
            yield data


class _Member:
    """What files and folders have in common."""

    path: str
    provider: Provider

    @property
    def name_within(self) -> str:
        """The path within the folder."""
        return self.path.strip("/")

    def below(self, connection: Connection, tables: Tables) -> list[Entry]:
        """The entries at and below this path."""
        own = entries.find(connection, tables, self.name_within)
        inside = entries.below(connection, tables, self.name_within)
        return [*([own] if own else []), *inside]

    def support_recursive_delete(self) -> bool:
        return True

    def delete(self) -> None:
        with self.provider.transaction() as (connection, tables):
            entries.remove(connection, tables, self.below(connection, tables))
            _keep_folder(connection, tables, self.name_within)
        self.remove_all_locks(recursive=True)  # type: ignore[attr-defined]

    def support_recursive_move(self, dest_path: str) -> bool:
        return True

    def handle_copy(self, dest_path: str, *, depth_infinity: bool) -> bool:
        self._refuse_above(dest_path)
        return False

    def handle_move(self, dest_path: str) -> bool:
        """Move in one transaction, also if something at the new path is replaced."""
        self._refuse_above(dest_path)
        there = self.provider.get_resource_inst(dest_path, self.environ)  # type: ignore[attr-defined]
        if there is None:
            return False
        self._move(dest_path, there)
        return True

    def _refuse_above(self, dest_path: str) -> None:
        """Refuse to put this in place of a folder that it lies in: both would go."""
        if f"{self.name_within}/".startswith(f"{dest_path.strip('/')}/"):
            raise DAVError(HTTP_FORBIDDEN, "It lies in what it would replace.")

    def move_recursive(self, dest_path: str) -> list[object]:
        self._move(dest_path, None)
        return []

    def _move(self, dest_path: str, there: _Member | None) -> None:
        old, new = self.name_within, dest_path.strip("/")
        with self.provider.transaction() as (connection, tables):
            if there is not None:
                entries.remove(connection, tables, there.below(connection, tables))
            moved: list[tuple[Entry, str | None]] = [
                (one, _possible(new + one.path[len(old) :]))
                for one in self.below(connection, tables)
            ]
            entries.move(connection, tables, moved)
            _refuse_alike(connection, tables, new)
            _keep_folder(connection, tables, old)
        self.remove_all_locks(recursive=True)  # type: ignore[attr-defined]


class _File(_Member, DAVNonCollection):
    """A file; of a new one, the entry is None until it is written."""

    def __init__(self, path: str, environ: dict[str, Any], entry: Entry | None) -> None:
        DAVNonCollection.__init__(self, path, environ)
        self._entry = entry
        self._upload: _Upload | None = None

    def below(self, connection: Connection, tables: Tables) -> list[Entry]:
        """The same; of a file that is another one by now, nothing is done to it."""
        found = super().below(connection, tables)
        self._refuse_another(next(iter(found), None))
        return found

    def _refuse_another(self, now: Entry | None) -> None:
        """Refuse an entry that is not the one of which If-Match was asked."""
        if _id(now) != _id(self._entry):
            raise MovedOn(MEANWHILE)

    def _of_entry(self, read: Callable[[Entry], _Made]) -> _Made | None:
        return None if self._entry is None else read(self._entry)

    def get_content_length(self) -> int | None:
        return self._of_entry(lambda one: one.size)

    def get_content_type(self) -> str:
        return str(util.guess_mime_type(self.path))

    def get_etag(self) -> str | None:
        return self._of_entry(lambda one: one.id.hex)

    def get_last_modified(self) -> float | None:
        return self._of_entry(lambda one: one.mtime.timestamp())

    def support_etag(self) -> bool:
        return True

    def support_ranges(self) -> bool:
        return True

    def get_content(self) -> io.BufferedReader:
        assert self._entry is not None
        return io.BufferedReader(_Content(self.provider, self._entry), PIECE)

    def begin_write(self, *, content_type: str | None = None) -> _Upload:
        self._upload = _Upload()
        return self._upload

    def end_write(self, *, with_errors: bool) -> None:
        upload = self._upload
        assert upload is not None
        with upload.file:
            said = self.environ.get("CONTENT_LENGTH")
            put = self.environ["REQUEST_METHOD"] == "PUT"
            if put and said and int(said) != upload.size:
                raise DAVError(
                    HTTP_BAD_REQUEST, "The file has not arrived whole: send it again."
                )
            if not with_errors:
                self._write(upload)

    def _write(self, upload: _Upload) -> None:
        name = self.name_within
        with self.provider.transaction() as (connection, tables):
            before = entries.find(connection, tables, name)
            self._refuse_another(before)
            if before is not None:
                entries.remove(connection, tables, [before])
            self._entry = Entry(
                id=uuid.uuid4(),
                path=_possible(name),
                kind="file",
                size=upload.size,
                mtime=datetime.now(UTC),
                sha256=upload.digest.digest(),
                executable=before is not None and before.executable,
            )
            entries.add(connection, tables, [(self._entry, upload.pieces())])
            _refuse_alike(connection, tables, name)

    def set_last_modified(
        self, dest_path: str, time_stamp: str, *, dry_run: bool
    ) -> bool:
        if not dry_run and self._entry is not None:
            seconds = util.parse_time_string(time_stamp)
            if seconds is None:
                raise DAVError(HTTP_BAD_REQUEST, "This is not a time as HTTP has it.")
            self._entry = replace(
                self._entry, mtime=datetime.fromtimestamp(seconds, UTC)
            )
            with self.provider.transaction() as (connection, tables):
                entries.touch(connection, tables, self._entry)
        return True

    def copy_move_single(self, dest_path: str, *, is_move: bool) -> None:
        assert self._entry is not None
        name = dest_path.strip("/")
        with self.provider.transaction() as (connection, tables):
            before = entries.find(connection, tables, name)
            entries.remove(connection, tables, [before] if before else [])
            entries.copy(connection, tables, self._entry, _possible(name))
            _refuse_alike(connection, tables, name)


class _Folder(_Member, DAVCollection):
    """A folder, with all entries below it."""

    def __init__(self, path: str, environ: dict[str, Any], below: list[Entry]) -> None:
        DAVCollection.__init__(self, path, environ)
        self._members: dict[str, list[Entry]] = {}
        start = len(f"{self.name_within}/") if self.name_within else 0
        for one in below:
            name = one.path[start:].partition("/")[0]
            self._members.setdefault(name, []).append(one)

    def get_member_names(self) -> list[str]:
        return [*self._members]

    def get_member(self, name: str) -> Any:
        path = util.join_uri(self.path, name)
        found = self._members.get(name)
        if found is None:
            return None
        own = next((one for one in found if one.path == path.strip("/")), None)
        if own is not None and own.kind == "file":
            return _File(path, self.environ, own)
        return _Folder(path, self.environ, [one for one in found if one is not own])

    def create_empty_resource(self, name: str) -> _File:
        """Make room for a file that is written next; for a lock, make it."""
        made = _File(util.join_uri(self.path, name), self.environ, None)
        if self.environ["REQUEST_METHOD"] == "LOCK":
            made.begin_write()
            made.end_write(with_errors=False)
        return made

    def create_collection(self, name: str) -> None:
        path = util.join_uri(self.path, name).strip("/")
        with self.provider.transaction() as (connection, tables):
            _add_folder(connection, tables, _possible(path))
            _refuse_alike(connection, tables, path)

    def copy_move_single(self, dest_path: str, *, is_move: bool) -> None:
        if self.provider.get_resource_inst(dest_path, self.environ) is None:
            parent, _, name = dest_path.rstrip("/").rpartition("/")
            _Folder(f"{parent}/", self.environ, []).create_collection(name)


def _id(entry: Entry | None) -> uuid.UUID | None:
    return None if entry is None else entry.id


def _possible(path: str) -> str:
    """A path that a folder can have.

    Raises:
        DAVError: it cannot.
    """
    if reason := paths.why_not(path):
        raise DAVError(HTTP_FORBIDDEN, reason)
    return path


def _refuse_alike(connection: Connection, tables: Tables, path: str) -> None:
    """Refuse a path that was just written, if some systems take it for another one."""
    if entries.has_alike(connection, tables, path):
        raise DAVError(HTTP_CONFLICT, paths.ALIKE)


def _keep_folder(connection: Connection, tables: Tables, path: str) -> None:
    """Keep the folder that a path lay in, if nothing else is in it."""
    parent = path.rpartition("/")[0]
    inside = parent and entries.below(connection, tables, parent)
    if parent and not inside and not entries.find(connection, tables, parent):
        _add_folder(connection, tables, parent)


def _add_folder(connection: Connection, tables: Tables, path: str) -> None:
    entry = Entry(
        id=uuid.uuid4(),
        path=path,
        kind="folder",
        size=0,
        mtime=datetime.now(UTC),
        sha256=None,
        executable=False,
    )
    entries.add(connection, tables, [(entry, ())])
