"""The two tables of a folder: its entries, and their content in pieces.

An entry's content never changes. A file that is written again is a new entry, and the
one before is removed: it stays until the master is cleaned. Two slashes and its id are
appended to its path, which no other path can have: so the path is free, and the entry
remains in the part of the folder that a site has. If two sites write one file, they
write two rows, and the only conflict is that of the path.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from psycopg import sql
from sqlalchemy import Connection, text

from folders.errors import NoFolderTable, UnknownFolder
from sites import BadName, QualifiedName, Site, names
from sites.names import identifier

#: How large the pieces are in which content is stored: 1 MB.
PIECE = 2**20

_ENTRY, _CHUNK = "_entry", "_chunk"

_ENTRY_COLUMNS = {
    "id": "uuid PRIMARY KEY",
    "path": "text NOT NULL",
    "kind": "text NOT NULL CHECK (kind IN ('file', 'folder'))",
    "size": "bigint NOT NULL",
    "mtime": "timestamptz NOT NULL",
    "sha256": "bytea",
    "executable": "boolean NOT NULL DEFAULT false",
    "removed_at": "timestamptz",
}

_CHUNK_COLUMNS = {"entry": "uuid", "n": "integer", "data": "bytea NOT NULL"}


_COLUMNS = text(
    "SELECT a.attname::text FROM pg_catalog.pg_attribute a"
    " JOIN pg_catalog.pg_class c ON c.oid = a.attrelid"
    " JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace"
    " WHERE s.nspname = :schema AND c.relname = :name"
    " AND a.attnum > 0 AND NOT a.attisdropped"
    " AND c.relkind::text = ANY (CAST(:kinds AS text[]))"
)

#: Where folders are made they are tables; a site shows its snapshots as views.
_MADE, _ANY = "r", "rv"


@dataclass(frozen=True, slots=True)
class Tables:
    """The names of a folder's two tables, or of the snapshots of them."""

    folder: QualifiedName

    @property
    def entry(self) -> QualifiedName:
        """The table of entries."""
        return replace(self.folder, name=self.folder.name + _ENTRY)

    @property
    def chunk(self) -> QualifiedName:
        """The table of content."""
        return replace(self.folder, name=self.folder.name + _CHUNK)

    @property
    def path_key(self) -> str:
        """The constraint that no two entries have the same path."""
        return f"{self.folder.name}{_ENTRY}_path_key"

    def sql(self, statement: str) -> sql.Composed:
        """A statement with the tables for {entry} and {chunk}."""
        return sql.SQL(statement).format(
            entry=identifier(self.entry), chunk=identifier(self.chunk)
        )


def named(name: str) -> Tables:
    """The tables of a folder.

    Parameters:
        name: `name` or `schema.name`.

    Raises:
        BadName: it is not a name, or too long for its tables.
    """
    found = Tables(names.parse(name))
    if len(found.path_key.encode()) > names.LIMIT:
        raise BadName(
            f"{name!r} is too long: its tables get names that are longer.", name=name
        )
    return found


def there(connection: Connection, tables: Tables, kinds: str = _ANY) -> bool:
    """Whether a database has the folder.

    Parameters:
        kinds: as tables, as snapshots of them, or either.

    Raises:
        NoFolderTable: one of the tables is not what a folder has.
    """
    wanted = ((tables.entry, _ENTRY_COLUMNS), (tables.chunk, _CHUNK_COLUMNS))
    found = [
        (name, _names(connection, name, kinds), columns) for name, columns in wanted
    ]
    for name, has, columns in found:
        if has and (missing := set(columns) - has):
            raise NoFolderTable(
                f"{name} is no table of a folder: it lacks "
                f"{', '.join(sorted(missing))}.",
                table=str(name),
            )
    return all(has for _, has, _ in found)


def _names(connection: Connection, table: QualifiedName, kinds: str) -> set[str]:
    """The columns of a table or view; none if there is none."""
    values = {"schema": table.schema, "name": table.name, "kinds": list(kinds)}
    found = connection.execute(_COLUMNS, values)
    return set(found.scalars())


def require(
    site: Site, connection: Connection, tables: Tables, *, made_here: bool = False
) -> None:
    """Refuse a folder that a site does not have.

    Parameters:
        made_here: refuse snapshots of a folder, too.

    Raises:
        UnknownFolder, NoFolderTable.
    """
    if not there(connection, tables, _MADE if made_here else _ANY):
        raise UnknownFolder(
            f"Site {site.name} has no folder {tables.folder}.",
            site=site.name,
            folder=str(tables.folder),
        )


def definitions(tables: Tables) -> list[sql.Composed]:
    """The statements that create what is not there."""
    return [
        sql.SQL(
            "CREATE TABLE IF NOT EXISTS {} ({}, CONSTRAINT {} UNIQUE (path))"
        ).format(
            identifier(tables.entry),
            _columns(_ENTRY_COLUMNS),
            sql.Identifier(tables.path_key),
        ),
        sql.SQL(
            "CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY (entry, n),"
            " FOREIGN KEY (entry) REFERENCES {} ON DELETE CASCADE)"
        ).format(
            identifier(tables.chunk),
            _columns(_CHUNK_COLUMNS),
            identifier(tables.entry),
        ),
        # Content is mostly compressed already: trying again would cost time.
        tables.sql("ALTER TABLE {chunk} ALTER COLUMN data SET STORAGE EXTERNAL"),
    ]


def _columns(columns: dict[str, str]) -> sql.Composed:
    return names.comma(
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind))
        for name, kind in columns.items()
    )
