"""The operator's verb: make masters of a group equal to one of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from psycopg import errors as pg
from sqlalchemy.exc import DBAPIError

from deferred.errors import BadKey, BadOption
from groups import group as groups
from groups.check import run as check_run
from groups.errors import CannotReplicate
from groups.group import Group, Status
from groups.rectify import mend, planning
from groups.rectify.planning import Wanted
from groups.rectify.report import GroupRectifyReport, RectifyExtra
from sites import QualifiedName, Site, extras
from sites.names import numbered
from sites.progress import Progress
from sites.sessions import identity, lost
from sites.tables.table import describe
from snapshots import keys
from snapshots.keys import Keys
from snapshots.rectify.choose import choice
from snapshots.rectify.report import Missing

#: A key: values in the order of its columns, or by column, as texts.
RectifyKey = Sequence[str | None] | Mapping[str, str | None]


def rectify(
    site: Site,
    name: str,
    tables: str | Sequence[str] = (),
    *,
    reference: str,
    targets: str | Sequence[str] = (),
    extra: RectifyExtra | str = RectifyExtra.DELETE,
    missing: Missing | str = Missing.COPY,
    only: Sequence[RectifyKey] = (),
    dry_run: bool = False,
    most: int = 1000,
    progress: Progress | None = None,
) -> GroupRectifyReport:
    """Give masters of a group the rows of one of them, where nothing explains why not.

    Users and pushes go on meanwhile. For each row that differs without a reason, a
    deferred transaction of the user `rectify` goes to the target, with the target's row
    as old values and the reference's as new ones: a change that users make there
    meanwhile is a conflict, and is not lost. Rows that were decided about in an error
    queue are mended too; rows that are in flight, parked or cannot be told take their
    course. In the end the rows are compared again. Oracle: DBMS_RECTIFIER_DIFF.RECTIFY;
    Informix: `cdr check replicateset --repair`.

    Parameters:
        site: any master of the group.
        tables: all of the group if none is given.
        reference: the master that is right. It is not changed.
        targets: the masters that are mended; all others if none is given, but for those
            that are left out as `groups.check` leaves them out.
        extra: what becomes of rows that the reference does not have: `delete`, `keep`.
        missing: what becomes of rows that only the reference has: `copy` or `skip`.
        only: only the rows of one table with these keys.
        dry_run: write nothing.
        most: how many rows of each table of each target are listed.
        progress: is told how far the work is.

    Raises:
        NoSuchGroup, NoSuchMaster: the site, or one of the masters, is none of it.
        CannotReplicate: a table is not in the group, a master that was named cannot be
            compared, or the group is suspended.
        BadOption, BadKey: an option has no such value, or a table no such key.
        SiteUnreachable: the site, the reference or a master that was named does not
            answer, or a master went away meanwhile. What was queued by then is kept,
            and the next rectify pushes it.
        SiteChanged, SiteRestored, SiteReplaced: a master was restored or replaced.
        TablesDiffer, RowsHidden: a table cannot be compared.
        GroupChanging: another rectify of a target does not end.
        CheckDisturbed: the group or a queue changed again and again.
        PushInterrupted: what was queued could not be pushed; it waits.
        MissingExtra: `snaptide[spark]` is not installed.
    """
    extras.require("spark")
    began, at = time.monotonic(), datetime.now(UTC)
    with identity.confirmed(site) as connection:
        group = groups.get(connection, site.name, name)
    named = [targets] if isinstance(targets, str) else list(targets)
    _refuse(group, reference, named, dry_run=dry_run)
    listed = check_run.chosen(group, [tables] if isinstance(tables, str) else tables)
    wanted = Wanted(
        group=name,
        tables=tuple(listed),
        reference=reference,
        targets=tuple(dict.fromkeys(named)),
        extra=choice(RectifyExtra, extra, "extra"),
        missing=choice(Missing, missing, "missing"),
        only=_only(site, listed, only),
        most=most,
    )
    try:
        plan = planning.plan(site, wanted, progress)
    except DBAPIError as error:
        if not only or not isinstance(error.orig, pg.DataError):
            raise
        raise BadKey(f"A key is none of {listed[0]}: {error.orig}") from None
    done = plan.reports
    if not dry_run:
        with lost.told_of(*map(site.peer, planning.concerned(plan, wanted))):
            done = mend.mend(site, wanted, plan, progress)
    return GroupRectifyReport(
        group=name,
        reference=reference,
        targets=plan.targets,
        left_out=plan.left_out,
        away=plan.away,
        dry_run=dry_run,
        tables=done,
        at=at,
        seconds=time.monotonic() - began,
    )


def _refuse(
    group: Group, reference: str, targets: Sequence[str], *, dry_run: bool
) -> None:
    for name in (reference, *targets):
        group.master(name)
    if reference in targets:
        raise CannotReplicate(
            f"{reference} is the reference, and is not changed.", master=reference
        )
    if group.status is not Status.NORMAL and not dry_run:
        raise CannotReplicate(
            f"Group {group.name} is {group.status}: its masters take no corrections "
            "until it is resumed.",
            group=group.name,
        )


def _only(
    site: Site, tables: Sequence[QualifiedName], given: Sequence[RectifyKey]
) -> dict[QualifiedName, Keys]:
    """The keys in the order of the table's."""
    if not given:
        return {}
    if len(tables) > 1:
        raise BadOption("The rows of one table can be chosen by their keys: name it.")
    with site.transaction() as connection:
        key = describe(connection, tables[0]).key
    rows = []
    for one in given:
        named = (
            dict(one) if isinstance(one, Mapping) else dict(zip(key, one, strict=False))
        )
        if len(one) != len(key) or named.keys() != {*key}:
            raise BadKey(
                f"The key of {tables[0]} has the columns {', '.join(key)}.",
                columns=list(key),
            )
        rows.append([named[column] for column in key])
    return {tables[0]: keys.of_rows(rows, list(numbered("k", key)))}
