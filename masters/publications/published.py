"""Published tables, and the parents that their rows follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from masters.publications.template import Template
from sites import QualifiedName
from sites.catalog import SCHEMA
from sites.tables.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A table of a publication."""

    table: str
    #: which rows a site gets, as `store_id = :store`; None for all
    where: str | None
    #: the columns that it may read; None for all, also those that are added later
    columns: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A foreign key of a published table: a site gets its row with the parent."""

    #: how the owner of the table has named it
    reference: str
    #: the parent, and what it follows itself
    parent: Table
    above: tuple[Followed, ...]
    #: columns of the row, and the columns of the parent that equal them
    columns: tuple[str, ...]
    parent_columns: tuple[str, ...]

    @property
    def pairs(self) -> Iterator[tuple[str, str]]:
        """The columns of the row, each with that of the parent."""
        return zip(self.columns, self.parent_columns, strict=True)

    @property
    def kept(self) -> dict[str, object]:
        """What the catalog keeps of it, and sites read (`granted_follows`)."""
        name = self.parent.qualified
        return {
            "reference": self.reference,
            "table": [name.schema, name.name],
            "columns": [*self.columns],
            "parent_columns": [*self.parent_columns],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A table of a publication, as its policies need it."""

    publication_id: int
    table: Table
    log: str
    #: the columns that identify its rows
    identity: tuple[str, ...]
    template: Template
    #: the parents that the template follows
    follows: tuple[Followed, ...]
    #: the columns that may be read; None for all
    columns: tuple[str, ...] | None
    #: the transaction that makes the policies
    since: str

    @property
    def log_name(self) -> QualifiedName:
        return QualifiedName(SCHEMA, self.log)
