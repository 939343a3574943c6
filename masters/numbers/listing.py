"""What a master has leased to sites, for those who look."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from masters.errors import CannotLease
from masters.numbers import ledger
from masters.numbers.source import Source, source_of
from sites.names import QualifiedName
from sites.sessions import identity
from sites.sessions.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedNumbers:
    """The numbers of a column that a site has leased, all leases together."""

    table: str
    column: str
    site: str
    numbers: int
    #: how many of them came back unused; nobody gets them
    returned: int
    last_at: datetime
    #: the share of the column's numbers that are given, to whomever; None if nothing
    #: can be leased any more
    share: float | None
    #: the sequence that gives the column its numbers now
    sequence: str | None
    #: the furthest number that sites have, if the sequence was set back: what it gives
    #: to inserts at the master, sites may give, too
    behind: int | None


def list_leases(site: Site) -> list[LeasedNumbers]:
    """List the numbers that a master has leased to sites, by table, column and site.

    Raises:
        SiteUnreachable, SiteNotInitialised.
    """
    with identity.initialised(site) as connection:
        return of_master(connection)


def of_master(connection: Connection) -> list[LeasedNumbers]:
    """What a master has leased to sites, by table, column and site."""
    found = []
    for row in ledger.entries(connection):
        table = QualifiedName(row.table_schema, row.table_name)
        source = _source(connection, table, row.column_name)
        found.append(
            LeasedNumbers(
                table=str(table),
                column=row.column_name,
                site=row.site_name,
                numbers=row.numbers,
                returned=row.returned,
                last_at=row.last_at,
                share=None if source is None else source.share,
                sequence=None if source is None else source.sequence,
                behind=None
                if source is None
                else ledger.behind(connection, source, table, row.column_name),
            )
        )
    return found


def _source(connection: Connection, table: QualifiedName, column: str) -> Source | None:
    try:
        return source_of(connection, table, column)
    except CannotLease:
        return None
