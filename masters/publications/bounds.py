"""What a grant lets a site change, for statements that no policy binds: retries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from masters.catalog import publication_grant, publication_table
from sites import QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The rows of a table that a site may change."""

    #: by column, the value that it has in these rows, as text
    values: Mapping[str, str]
    #: the columns that it may change; None for all
    columns: tuple[str, ...] | None


def of_site(connection: Connection, site: str, table: QualifiedName) -> Bounds | None:
    """The rows of a table that a site may change now; None if there are none.

    The site is looked up by its name, and not by its login: since it parked something,
    it may have got another login, and another site its former one.
    """
    at, its = publication_grant.c, publication_table.c
    wanted = (
        select(its.condition, its.columns, at.parameters)
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
        columns=None if row.columns is None else tuple(row.columns),
    )
