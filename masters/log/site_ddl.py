"""DDL of a master's tables that sites are to follow, as its catalog keeps it.

An entry has the numbers of the columns that the DDL added, renamed, dropped or widened.
A site that has not followed it yet makes its own columns what the master's are by then,
so entries need no order, and one that was missed is made up for by the next. Only what
an entry itself dropped goes at a site, too: of a column that other DDL drops, the site
may have to hold what a lens makes.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Text, func, select
from sqlalchemy.dialects.postgresql import JSONB, OID, REGCLASS, insert

from masters.catalog import (
    publication,
    publication_grant,
    publication_table,
    registered_snapshot,
    site_ddl,
)
from sites import QualifiedName
from sites.sessions.prepared import as_json
from sites.tables.table import Table

_at = site_ddl.c


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteDdl:
    """An entry: which columns of a table sites are to have as the master has them."""

    #: the same at all masters of a group
    id: str
    table: QualifiedName
    #: their numbers at this master; some may be gone
    columns: frozenset[int]
    #: those of them that it added
    added: frozenset[int]
    #: those that it dropped; of an older master, all that may have been
    dropped: frozenset[int]


#: DDL that is not to be told again: the id of an entry, and its table.
Followed = Collection[tuple[str, QualifiedName]]


def note(
    connection: Connection,
    id_: uuid.UUID,
    table: Table,
    columns: Collection[int],
    added: Collection[int],
    dropped: Collection[int],
    statements: str,
) -> None:
    """Have the sites of a table follow DDL. Writes `site_ddl`.

    The publication of the table, if it has one, cannot be altered before the commit:
    it says whether the sites to which it is granted follow, too.

    Parameters:
        columns: the numbers of those that it added, renamed, dropped or widened.
        added: those that it added.
        dropped: those that it dropped.
    """
    follow = (
        select(publication.c.ddl)
        .join(publication_table)
        .where(_published(table.qualified))
        .with_for_update(read=True, of=publication)
    )
    connection.execute(
        insert(site_ddl).values(
            withheld=connection.scalar(follow) is False,
            id=id_,
            table_schema=table.schema,
            table_name=table.name,
            table_oid=table.oid,
            columns=sorted(columns),
            added=sorted(added),
            dropped=sorted(dropped),
            statements=statements,
        )
    )


def withhold(connection: Connection, publication_id: int) -> None:
    """Keep earlier DDL from the sites of a publication, if these are not to follow.

    It stays done where a site has followed it. Writes `site_ddl`.
    """
    published = select(publication_table.c.table_schema, publication_table.c.table_name)
    without = published.join(publication).where(
        publication.c.id == publication_id, ~publication.c.ddl
    )
    connection.execute(
        sa.update(site_ddl)
        .where(sa.tuple_(_at.table_schema, _at.table_name).in_(without))
        .values(withheld=True)
    )


def staying(connection: Connection, table: QualifiedName) -> frozenset[str]:
    """The sites that do not follow DDL of a table, as their publication says."""
    wanted = (
        select(publication_grant.c.site_name)
        .select_from(publication_grant)
        .join(publication)
        .join(publication_table)
        .where(_published(table), ~publication.c.ddl)
    )
    return frozenset(connection.scalars(wanted))


def _published(table: QualifiedName) -> sa.ColumnElement[bool]:
    at = publication_table.c
    return sa.and_(at.table_schema == table.schema, at.table_name == table.name)


def known(connection: Connection, table: QualifiedName) -> list[str]:
    """The ids of all entries of a table: a new snapshot has its shape already."""
    wanted = select(_at.id).where(
        _at.table_schema == table.schema, _at.table_name == table.name
    )
    return [str(one) for one in connection.scalars(wanted)]


def asked(followed: Followed) -> dict[str, str]:
    """The parameter of a statement with `FOR_SITE`; it needs none if there is none."""
    rows = [
        {"id": id_, "schema": table.schema, "name": table.name}
        for id_, table in followed
    ]
    return {"its_ddl": json.dumps(rows)}


def of(found: Sequence[Mapping[str, Any]] | None) -> tuple[SiteDdl, ...]:
    """The entries in the column `FOR_SITE` of a row."""
    return tuple(
        SiteDdl(
            id=row["id"],
            table=QualifiedName(row["table_schema"], row["table_name"]),
            columns=frozenset(row["columns"]),
            added=frozenset(row["added"]),
            dropped=frozenset(
                row["columns"] if row["dropped"] is None else row["dropped"]
            ),
        )
        for row in found or ()
    )


def read(
    connection: Connection, site_id: uuid.UUID, followed: Followed
) -> tuple[SiteDdl, ...]:
    """The entries that a site has not followed yet."""
    row = connection.execute(select(FOR_SITE), {"its_id": site_id, **asked(followed)})
    return of(row.scalar_one())


#: The table that an entry's name leads to now. Another one, or one that was loaded from
#: a dump, has other numbers.
_NOW = func.to_regclass(
    func.format("%I.%I", _at.table_schema, _at.table_name), type_=REGCLASS
)

_DONE = (
    func.json_to_recordset(sa.cast(sa.bindparam("its_ddl", "[]", type_=Text), sa.JSON))
    .table_valued(
        sa.column("id", sa.Uuid), sa.column("schema", Text), sa.column("name", Text)
    )
    .render_derived(name="done", with_types=True)
)

# A master of before revision 0084 does not have the column `dropped`.
_DROPPED = func.to_jsonb(site_ddl.table_valued(), type_=JSONB)["dropped"].label(
    "dropped"
)
_OF_SITE = select(
    _at.id, _at.table_schema, _at.table_name, _at.columns, _at.added, _DROPPED
).where(
    ~sa.exists().where(
        _DONE.c.id == _at.id,
        _DONE.c.schema == _at.table_schema,
        _DONE.c.name == _at.table_name,
    ),
    sa.cast(_NOW, OID) == _at.table_oid,
    sa.exists().where(
        registered_snapshot.c.site_id
        == sa.bindparam("its_id", type_=registered_snapshot.c.site_id.type),
        registered_snapshot.c.table_schema == _at.table_schema,
        registered_snapshot.c.table_name == _at.table_name,
    ),
)

#: The entries for tables of the site `its_id`, without those in `its_ddl`, for
#: statements that read more.
FOR_SITE = as_json(_OF_SITE, "site_ddl")
