"""The record of resolutions for operators: list, show, statistics, purge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.dialects.postgresql import insert

from masters.catalog import purged_resolutions, resolution_record, rules_version
from masters.errors import NoSuchRecord
from sites import Site, names
from sites.sessions import identity

Image = Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """One conflict that a rule settled."""

    id: int
    resolved_at: datetime
    table_schema: str
    table_name: str
    row_key: Image
    origin: str
    master: str | None
    origin_transaction: str
    #: when the transaction was made at its origin
    changed_at: datetime | None
    #: when the master deleted the row, if a rule asked
    deleted_at: datetime | None
    kind: str
    #: column group or constraint; empty for delete conflicts
    reference: str
    columns: tuple[str, ...] | None
    sequence_no: int
    method: str
    #: which version of the rules decided
    rules_version: int | None
    decision: str
    reason: str | None
    #: the number drawn for append sequence
    number: int | None
    old_values: Image | None
    new_values: Image | None
    current_values: Image | None
    #: None if nothing of the call was written
    result_values: Image | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """How often a method decided for one table, site and day."""

    day: date
    table: str
    kind: str
    method: str
    decision: str
    origin: str
    conflicts: int


def list_resolutions(
    site: Site,
    *,
    table: str | None = None,
    origin: str | None = None,
    method: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[Resolved]:
    """The last conflicts that rules settled at a master, the latest first.

    Parameters:
        table, origin, method: only conflicts of these.
        before: only records with a lower number.
        limit: at most this many.
    """
    wanted = select(resolution_record).order_by(resolution_record.c.id.desc())
    chosen = _chosen(table, origin, method, before)
    with identity.initialised(site) as connection:
        rows = connection.execute(wanted.where(*chosen).limit(limit))
        return [resolved(row) for row in rows]


def count_resolutions(
    site: Site,
    *,
    table: str | None = None,
    origin: str | None = None,
    method: str | None = None,
    before: int | None = None,
) -> int:
    """How many conflicts `list_resolutions` lists without a limit."""
    chosen = _chosen(table, origin, method, before)
    wanted = select(func.count()).select_from(resolution_record).where(*chosen)
    with identity.initialised(site) as connection:
        return connection.scalars(wanted).one()


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesVersion:
    """The rules of a master, as someone left them."""

    id: int
    changed_at: datetime
    changed_by: str
    #: the change that made it
    what: str
    rules: Mapping[str, object]


def show_resolution(site: Site, number: int) -> tuple[Resolved, RulesVersion | None]:
    """One settled conflict, and the version of the rules that settled it.

    Raises:
        NoSuchRecord: it was purged, or never existed.
    """
    with identity.initialised(site) as connection:
        row = connection.execute(
            select(resolution_record).where(resolution_record.c.id == number)
        ).one_or_none()
        if row is None:
            raise NoSuchRecord(f"There is no resolution {number}.", number=number)
        rules = connection.execute(
            select(*(rules_version.c[one.name] for one in fields(RulesVersion))).where(
                rules_version.c.id == row.rules_version
            )
        ).one_or_none()
        return resolved(row), RulesVersion(**rules._mapping) if rules else None


def resolution_statistics(
    site: Site, *, table: str | None = None, origin: str | None = None
) -> list[Statistics]:
    """Settled conflicts by day, table, kind, method, decision and site of origin.

    Oracle: RepResolution_Statistics.
    """
    record = resolution_record.c
    day = func.date(record.resolved_at).label("day")
    parts = (
        day,
        record.table_schema,
        record.table_name,
        record.kind,
        record.method,
        record.decision,
        record.origin,
    )
    with identity.initialised(site) as connection:
        rows = connection.execute(
            select(*parts, func.count().label("conflicts"))
            .where(*_chosen(table, origin, None))
            .group_by(*parts)
            .order_by(*parts)
        )
        return [
            Statistics(
                day=row.day,
                table=str(names.QualifiedName(row.table_schema, row.table_name)),
                kind=row.kind,
                method=row.method,
                decision=row.decision,
                origin=row.origin,
                conflicts=row.conflicts,
            )
            for row in rows
        ]


def purge_resolutions(site: Site, older_than: timedelta) -> int:
    """Remove records of resolutions; return how many (Oracle: PURGE_STATISTICS).

    Parameters:
        older_than: younger records stay.
    """
    with identity.initialised(site) as connection:
        gone = (
            sa.delete(resolution_record)
            .where(resolution_record.c.resolved_at < func.now() - older_than)
            .returning(resolution_record.c.method)
            .cte("gone")
        )
        counted = sa.select(gone.c.method, func.count()).group_by(gone.c.method)
        new = insert(purged_resolutions).from_select(["method", "records"], counted)
        kept = purged_resolutions.c.records + new.excluded.records
        noted = new.on_conflict_do_update(
            index_elements=["method"], set_={"records": kept}
        ).cte("noted")
        purged = sa.select(func.count()).select_from(gone).add_cte(noted)
        return connection.scalar(purged) or 0


def resolved_by_method(connection: sa.Connection) -> dict[str, int]:
    """How many conflicts each method has resolved here, purged records included."""
    kept = sa.select(resolution_record.c.method, func.count().label("records"))
    every = sa.union_all(
        kept.group_by(resolution_record.c.method), sa.select(purged_resolutions)
    ).subquery()
    total = sa.cast(func.sum(every.c.records), sa.BigInteger).label("records")
    found = connection.execute(
        sa.select(every.c.method, total).group_by(every.c.method).order_by("method")
    )
    return {row.method: row.records for row in found}


def resolved(row: sa.Row[*tuple[object, ...]]) -> Resolved:
    """The conflict of a row of resolution_record."""
    values = {one.name: getattr(row, one.name) for one in fields(Resolved)}
    values["columns"] = tuple(values["columns"]) if values["columns"] else None
    return Resolved(**values)


def _chosen(
    table: str | None,
    origin: str | None,
    method: str | None,
    before: int | None = None,
) -> list[ColumnElement[bool]]:
    record = resolution_record.c
    chosen: list[ColumnElement[bool]] = [sa.true()]
    if table is not None:
        where = names.parse(table)
        chosen += [record.table_schema == where.schema, record.table_name == where.name]
    if origin is not None:
        chosen.append(record.origin == origin)
    if method is not None:
        chosen.append(record.method == method)
    if before is not None:
        chosen.append(record.id < before)
    return chosen
