"""The numbers that columns of a site have left, for those who look."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from masters.numbers import columns
from masters.numbers.columns import Method, NumberedColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """A column of a snapshot that draws its values at the site."""

    snapshot: str
    column: str
    #: lease or uuidv7
    method: str
    #: the site that leases the numbers
    master: str
    #: how many may still be used; None for those that are not leased
    left: int | None
    #: with fewer left than this, the next push or refresh leases more; with more, too,
    #: if the site uses more than it did
    lease: int | None
    per_day: float | None
    #: how many days they last at this rate; None if none were used
    lasts_days: float | None
    #: why the last contact brought none
    last_error: str | None


def leased(connection: Connection) -> list[Numbers]:
    """The columns of a site that draw leased numbers."""
    found = columns.all_of(connection)
    return [shown(one) for one in found if one.method is Method.LEASE]


def shown(one: NumberedColumn) -> Numbers:
    """A column that draws its values, as reports show it."""
    leased = one.method is Method.LEASE
    return Numbers(
        snapshot=one.snapshot,
        column=one.column_name,
        method=one.method.value,
        master=one.master,
        left=one.left if leased else None,
        lease=one.size if leased else None,
        per_day=one.per_day if leased else None,
        lasts_days=one.lasts_days if leased else None,
        last_error=one.last_error,
    )
