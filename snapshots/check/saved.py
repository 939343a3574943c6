"""Checks that were saved at their site: written, listed, read and removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Text, cast, func, select

from sites.sessions import identity
from sites.sessions.site import Site
from sites.writing.staged import selected
from snapshots.catalog import check_difference, check_run, check_snapshot
from snapshots.check.errors import NoSuchCheck
from snapshots.check.last import LAST
from snapshots.check.report import (
    CheckReport,
    Count,
    Difference,
    Kind,
    Reason,
    SnapshotCheck,
)
from snapshots.definitions import snapshot

#: A site keeps so many saved checks, and the last one of each snapshot.
KEPT = 100

_run, _of, _row = check_run.c, check_snapshot.c, check_difference.c


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCheck:
    """What the last saved check of a snapshot found."""

    run: int
    #: when it began, and how long ago that is
    at: datetime
    age: timedelta
    #: how many rows differ without a reason
    unexplained: int


def save(site: Site, report: CheckReport) -> CheckReport:
    """Keep a report at its site, in a transaction of its own; returns it with its run.

    Removes older ones: the last `KEPT` stay, and the last of each snapshot
    (`last_of_each`). Writes `check_run`, `check_snapshot` and `check_difference`.
    """
    with identity.initialised(site) as connection:
        run = connection.scalar(
            sa.insert(check_run)
            .values(
                began_at=report.at,
                seconds=report.seconds,
                condition=report.where,
                columns=[*report.columns],
                most=report.most,
                away={**report.away},
            )
            .returning(_run.id)
        )
        assert run is not None
        if report.snapshots:
            connection.execute(
                sa.insert(check_snapshot),
                [_found(run, no, one) for no, one in enumerate(report.snapshots)],
            )
        rows = [
            _listed(run, one.name, row)
            for one in report.snapshots
            for row in one.differences
        ]
        if rows:
            connection.execute(sa.insert(check_difference), rows)
        _remove_old(connection)
    return replace(report, run=run)


def list_checks(site: Site, *, limit: int | None = None) -> list[CheckReport]:
    """The saved checks of a site, the latest first, without the rows that they list.

    Parameters:
        limit: at most so many; None is all of them.
    """
    with identity.initialised(site) as connection:
        runs = connection.execute(
            select(check_run).order_by(_run.id.desc()).limit(limit)
        ).all()
        found = _snapshots(connection, [run.id for run in runs], {})
    return [_report(site, run, found.get(run.id, ())) for run in runs]


def show_check(site: Site, run: int) -> CheckReport:
    """A saved check, as `check` returned it.

    Raises:
        NoSuchCheck: the site keeps none of that number.
    """
    with identity.initialised(site) as connection:
        row = _read(connection, run)
        listed: dict[str, list[Difference]] = {}
        for one in connection.execute(
            select(check_difference).where(_row.run_id == run).order_by(_row.id)
        ):
            listed.setdefault(one.snapshot, []).append(_difference(one))
        found = _snapshots(connection, [run], listed)
    return _report(site, row, found.get(run, ()))


def delete_checks(site: Site, runs: Sequence[int] | None = None) -> int:
    """Remove saved checks of a site for good, and return how many.

    Parameters:
        runs: the numbers of those to remove; None is all of them.

    Raises:
        NoSuchCheck: the site keeps none of one of these numbers; none is removed.
    """
    with identity.initialised(site) as connection:
        gone = sa.delete(check_run)
        if runs is not None:
            for run in runs:
                _read(connection, run)
            gone = gone.where(selected(check_run, {"id": tuple(runs)}))
        return connection.execute(gone).rowcount


def last_of_each(connection: Connection) -> dict[str, LastCheck]:
    """The last saved check of each snapshot that has one, by its key; see `last`."""
    age = (func.now() - _run.began_at).label("age")
    rows = connection.execute(LAST.add_columns(age))
    return {
        row.snapshot: LastCheck(
            run=row.id,
            at=row.began_at,
            age=row.age,
            unexplained=sum(
                rows
                for _, reason, rows in row.counts
                if reason == Reason.UNEXPLAINED.value
            ),
        )
        for row in rows
    }


def _read(connection: Connection, run: int) -> Row[Any]:
    row = connection.execute(select(check_run).where(_run.id == run)).one_or_none()
    if row is None:
        raise NoSuchCheck(f"The site keeps no check {run}.", run=run)
    return row


def _remove_old(connection: Connection) -> None:
    """Remove all but the last `KEPT` checks and the last of each snapshot."""
    latest = select(_run.id).order_by(_run.id.desc()).limit(KEPT)
    present = {one.key for one in snapshot.all_of(connection)}
    last = last_of_each(connection).items()
    kept = tuple(one.run for key, one in last if key in present)
    connection.execute(
        sa.delete(check_run).where(
            _run.id.not_in(latest), sa.not_(selected(check_run, {"id": kept}))
        )
    )


def _found(run: int, no: int, one: SnapshotCheck) -> dict[str, Any]:
    return {
        "run_id": run,
        "snapshot": one.name,
        "no": no,
        "refresh_group": one.group,
        "master": one.master,
        "master_table": one.table,
        "position": one.position,
        "moment_here": one.moment_here,
        "moment_master": one.moment_master,
        "rows_master": one.rows_master,
        "rows_here": one.rows_here,
        "counts": [[c.kind.value, c.reason.value, c.rows] for c in one.counts],
        "unproven": one.unproven,
        "not_carried": [*one.not_carried],
    }


def _listed(run: int, name: str, row: Difference) -> dict[str, Any]:
    return {
        "run_id": run,
        "snapshot": name,
        "kind": row.kind.value,
        "reason": row.reason.value,
        "key": row.key,
        "columns": [*row.columns],
        "row_master": row.master,
        "row_here": row.here,
        "detail": row.detail,
        "transaction_id": row.transaction,
        "transaction_began_at": row.since,
    }


def _snapshots(
    connection: Connection,
    runs: Sequence[int],
    listed: Mapping[str, Sequence[Difference]],
) -> dict[int, list[SnapshotCheck]]:
    """What checks found of each snapshot, by run."""
    rows = connection.execute(
        select(
            check_snapshot,
            *(
                cast(_of[name], Text).label(f"{name}_text")
                for name in ("position", "moment_here", "moment_master")
            ),
        )
        .where(selected(check_snapshot, {"run_id": tuple(runs)}))
        .order_by(_of.run_id, _of.no)
    )
    found: dict[int, list[SnapshotCheck]] = {}
    for row in rows:
        one = SnapshotCheck(
            name=row.snapshot,
            group=row.refresh_group,
            master=row.master,
            table=row.master_table,
            position=row.position_text,
            moment_here=row.moment_here_text,
            moment_master=row.moment_master_text,
            rows_master=row.rows_master,
            rows_here=row.rows_here,
            counts=tuple(
                Count(kind=Kind(kind), reason=Reason(reason), rows=rows)
                for kind, reason, rows in row.counts
            ),
            differences=tuple(listed.get(row.snapshot, ())),
            unproven=row.unproven,
            not_carried=tuple(row.not_carried),
        )
        found.setdefault(row.run_id, []).append(one)
    return found


def _difference(row: Row[Any]) -> Difference:
    return Difference(
        kind=Kind(row.kind),
        reason=Reason(row.reason),
        key=row.key,
        columns=tuple(row.columns),
        master=row.row_master,
        here=row.row_here,
        detail=row.detail,
        transaction=row.transaction_id,
        since=row.transaction_began_at,
    )


def _report(site: Site, run: Row[Any], found: Sequence[SnapshotCheck]) -> CheckReport:
    return CheckReport(
        site=site.name,
        where=run.condition,
        columns=tuple(run.columns),
        most=run.most,
        away=run.away,
        snapshots=tuple(found),
        at=run.began_at,
        seconds=run.seconds,
        run=run.id,
    )
