"""What a grant lets a site change, for statements that no policy binds: retries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from masters.catalog import publication_grant, publication_table
from sites import QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class Above:
    """A parent that rows of a table follow: one that the site may read."""

    table: QualifiedName
    #: columns of the row, each with the column of the parent that equals it
    pairs: tuple[tuple[str, str], ...]
    bounds: Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The rows of a table that a site may read, or change."""

    #: by column, the value that it has in these rows, as text
    values: Mapping[str, str]
    #: the parents that they follow
    above: tuple[Above, ...]
    #: the columns that it may change; None for all
    columns: tuple[str, ...] | None


def of_site(connection: Connection, site: str, table: QualifiedName) -> Bounds | None:
    """The rows of a table that a site may change now; None if there are none.

    The site is looked up by its name, and not by its login: since it parked something,
    it may have got another login, and another site its former one.
    """
    at, its = publication_grant.c, publication_table.c
    wanted = (
        select(its.condition, its.follows, its.columns, at.parameters)
        .join(publication_table, its.publication_id == at.publication_id)
        .where(
            at.site_name == site,
            at.updatable,
            its.table_schema == table.schema,
            its.table_name == table.name,
        )
    )
    row = connection.execute(wanted).one_or_none()
    if row is None:
        return None
    return Bounds(
        values={
            column: row.parameters[parameter]
            for column, parameter in row.condition.items()
        },
        above=tuple(_above(connection, site, key) for key in row.follows),
        columns=None if row.columns is None else tuple(row.columns),
    )


def _above(connection: Connection, site: str, key: Mapping[str, Any]) -> Above:
    parent = QualifiedName(*key["table"])
    its = of_site(connection, site, parent)
    # It is of the same publication, so of the same grant.
    assert its is not None
    return Above(
        table=parent,
        pairs=tuple(zip(key["columns"], key["parent_columns"], strict=True)),
        bounds=its,
    )
