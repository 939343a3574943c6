"""Comparing the types of two sites, which may have different types of one name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from sites.sql import load
from sites.tables.table import Table

#: Types of PostgreSQL's own that print values but cannot read them.
UNREADABLE = (
    "gtsvector",
    "pg_brin_bloom_summary",
    "pg_brin_minmax_multi_summary",
    "pg_dependencies",
    "pg_mcv_list",
    "pg_ndistinct",
    "pg_node_tree",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeDefinition:
    """A type or collation that columns use, directly or through another."""

    name: str
    #: labels of an enum, attributes of a composite, base and checks of a domain, ...
    definition: str
    #: of a collation, the version of the operating system's or ICU's library
    version: str | None


Definitions = Mapping[str, TypeDefinition]


def type_definitions(
    connection: Connection, table: Table, columns: Sequence[str]
) -> Definitions:
    """The types and collations that columns of a table use, by name."""
    asked = {
        "oid": table.oid,
        "columns": list(columns),
        "unreadable": list(UNREADABLE),
    }
    rows = connection.execute(text(load("type_definitions")), asked).mappings()
    return {row["name"]: TypeDefinition(**row) for row in rows}


def locale(connection: Connection) -> str:
    """How a database sorts texts, and tells small letters from capital ones.

    That is, where no collation is named; with the version of the library that does it.
    """
    return str(connection.scalar(_LOCALE))


_LOCALE = text(
    "SELECT concat_ws(' ', d.datlocprovider, d.datcollate, d.datctype,"
    " to_jsonb(d) ->> 'daticulocale', to_jsonb(d) ->> 'datlocale',"
    " to_jsonb(d) ->> 'daticurules', pg_database_collation_actual_version(d.oid))"
    " FROM pg_database d WHERE d.datname = current_database()"
)


def differing(master: Definitions, site: Definitions) -> Iterator[str]:
    """Types of one name that differ between two sites, in the user's words.

    A site would refuse values that come from the other one, or read another meaning.
    """
    for name in sorted(master.keys() & site.keys()):
        there, here = master[name], site[name]
        if there.definition != here.definition:
            yield (
                f"{name} is {here.definition} here, but {there.definition} at the "
                "master"
            )


def other_versions(master: Definitions, site: Definitions) -> Iterator[str]:
    """Collations that may sort texts in another order at the master."""
    for name in sorted(master.keys() & site.keys()):
        there, here = master[name].version, site[name].version
        if there != here:
            yield f"{name} has version {here} here, but {there} at the master"
