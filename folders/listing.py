"""What folders a site has, and what is in them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Connection, text

from folders import entries, tables
from folders.entries import Entry
from folders.errors import NoFolderTable
from folders.tables import Tables
from sites import QualifiedName, Site
from sites.sessions import identity
from sites.sessions.exchange import raw


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSize:
    """What is in a folder of a site."""

    name: str
    files: int
    bytes: int
    #: entries that were removed or overwritten, and are still there
    removed: int
    removed_bytes: int


_FOLDERS = text(
    "SELECT s.nspname::text, left(c.relname::text, -6) AS name"
    " FROM pg_catalog.pg_class c"
    " JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace"
    " JOIN pg_catalog.pg_class d ON d.relnamespace = s.oid"
    " AND d.relname = left(c.relname::text, -6) || '_chunk'"
    " JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid"
    " AND a.attname = 'removed_at' AND NOT a.attisdropped"
    " WHERE c.relname LIKE '%\\_entry' AND c.relkind IN ('r', 'v')"
    " AND d.relkind IN ('r', 'v') AND s.nspname <> 'snaptide'"
    " AND c.relname NOT LIKE 'snap$%' ORDER BY 1, 2"
)

_SIZE = (
    "SELECT count(*) FILTER (WHERE removed_at IS NULL AND kind = 'file'),"
    " COALESCE(sum(size) FILTER (WHERE removed_at IS NULL), 0),"
    " count(*) FILTER (WHERE removed_at IS NOT NULL),"
    " COALESCE(sum(size) FILTER (WHERE removed_at IS NOT NULL), 0) FROM {entry}"
)


def list_folders(site: Site) -> list[FolderSize]:
    """The folders of a master or site, by name."""
    with identity.initialised(site) as connection:
        found = [
            Tables(QualifiedName(schema, name))
            for schema, name in connection.execute(_FOLDERS)
        ]
        sizes = []
        for one in found:
            if not _is_folder(connection, one):
                continue
            counted = raw(connection).execute(one.sql(_SIZE)).fetchone()
            files, size, removed, removed_bytes = map(int, counted)  # type: ignore[arg-type]
            sizes.append(
                FolderSize(
                    name=str(one.folder),
                    files=files,
                    bytes=size,
                    removed=removed,
                    removed_bytes=removed_bytes,
                )
            )
        return sizes


def _is_folder(connection: Connection, one: Tables) -> bool:
    """Whether tables that are named like a folder's are one's."""
    with suppress(NoFolderTable):
        return tables.there(connection, one)
    return False


def list_files(site: Site, name: str, *, removed: bool = False) -> list[Entry]:
    """The files of a folder by path, and folders in it that are or were empty.

    Parameters:
        site: a master, or a site with snapshots of the folder's tables.
        name: the folder's name.
        removed: those that were removed or overwritten, instead.

    Raises:
        UnknownFolder: the site has no such folder.
        NoFolderTable: its tables are not a folder's.
    """
    wanted = tables.named(name)
    with identity.initialised(site) as connection:
        tables.require(site, connection, wanted)
        return entries.read(connection, wanted, removed=removed)
