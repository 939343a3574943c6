"""The operator's verb: mend the rows that a check has proven to differ."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from deferred.errors import BadOption
from sites import extras
from sites.names import parse
from sites.progress import Progress
from sites.sessions import lost
from sites.sessions.site import Site
from snapshots import keys
from snapshots.check import run as check_run
from snapshots.check import saved
from snapshots.check.report import Reason
from snapshots.definitions.snapshot import Snapshot
from snapshots.keys import Keys
from snapshots.rectify import mend, planning
from snapshots.rectify.choose import Policy
from snapshots.rectify.errors import BadPlan
from snapshots.rectify.planning import Wanted
from snapshots.rectify.report import (
    Extra,
    Missing,
    PlannedRow,
    RectifyReport,
    Reference,
    SnapshotRectified,
    Take,
)
from snapshots.rectify.rules import RectifyRule, ready

#: A key: values in the order of its columns, or by column, as texts.
Key = Sequence[str | None] | Mapping[str, str | None]

#: By group and snapshot, the rows that are looked at.
_Groups = dict[str, dict[str, list[Wanted]]]


def rectify(
    site: Site,
    what: str | Sequence[str] = (),
    *,
    reference: Reference | str = Reference.MASTER,
    extra: Extra | str = Extra.DELETE,
    missing: Missing | str = Missing.COPY,
    run: int | None = None,
    only: Sequence[Key] = (),
    plan: Sequence[PlannedRow] | None = None,
    rules: Sequence[RectifyRule] | None = None,
    dry_run: bool = False,
    most: int | None = 1000,
    allow_mass_delete: bool = False,
    progress: Progress | None = None,
) -> RectifyReport:
    """Mend the rows of snapshots that differ from their master without a reason.

    Users, pushes and refreshes go on meanwhile. A refresh reads the master's row again
    where the site's is wrong; where the master's is wrong, a deferred transaction of
    the user `rectify` carries the site's there, with the master's present row as old
    values. What users change in between is not lost. Rows that differ for a reason take
    their course. In the end the rows are compared again. Oracle:
    DBMS_RECTIFIER_DIFF.RECTIFY, which deletes and inserts rows in quiet tables;
    Informix: `cdr check replicate --repair`.

    Parameters:
        what: refresh groups and snapshots; all of the site if none is given.
        reference: the side that is right: `master`, `site`, or `newest`, the one whose
            row was written last. With `newest`, rows that only one side has are treated
            as with `master`, because the other side has no time for them.
        extra: what becomes of rows that the reference does not have: `delete`, `keep`
            or `merge` (the reference gets them).
        missing: what becomes of rows that only the reference has: `copy` or `skip`.
        run: only rows that this saved check lists without a reason; it lists no more
            than it was told to. Rows are compared anew, so its age does not matter.
        only: only the rows of one snapshot with these keys.
        plan: rows and what to take for each, as a report has them; what chooses rows
            and references does not count then. A row that is equal by now, or has a
            reason, is left alone.
        rules: decide for each row: the first that fits it counts, and a row that none
            fits is left as it is. `reference`, `extra` and `missing` do not count then.
        dry_run: write nothing.
        most: how many rows of each snapshot are listed; None is all of them.
        allow_mass_delete: as of a refresh, which deletes rows at the site.
        progress: is told how far the work is.

    Raises:
        UnknownSnapshot: the site has no group or snapshot of that name.
        NoSuchCheck: the site keeps no check of that number.
        BadOption: an option has no such value.
        CannotSend: rows of a read-only or synchronous snapshot would go to the master.
        NoCommitTimes: a database does not keep the times at which rows were written.
        BadPlan: a key does not fit its snapshot.
        BadRule: a rule names a snapshot, column or condition that does not fit.
        RefreshRunning: another refresh of the group does not end.
        MassDelete, MassLeave: more rows would go than `allow_mass_delete` allows.
        SiteUnreachable, SiteChanged, SiteRestored, SiteReplaced, MasterChanged: one of
            the two databases is away, or was restored or replaced. What was written
            before one went away is kept, and the next rectify goes on with it.
        OlderSchema, NewerSchema: another version of Snaptide made the schema of a side.
        PositionMoved: refreshes came in between again and again.
        MissingExtra: `snaptide[spark]` is not installed.
    """
    extras.require("spark")
    if run is not None and only:
        raise BadOption("run and only both choose rows: give one of them.")
    if plan is not None and rules is not None:
        raise BadOption("plan and rules both decide about rows: give one of them.")
    began, at = time.monotonic(), datetime.now(UTC)
    policy = Policy.of(reference=reference, extra=extra, missing=missing)
    names = [what] if isinstance(what, str) else list(what)
    if plan is not None:
        looked_at = _of_rows(site, [(row.snapshot, row.key, row.take) for row in plan])
    elif run is not None:
        looked_at = _of_rows(site, _of_run(site, run, names, policy))
    else:
        looked_at = _whole(site, names, only, policy)
    if rules is not None:
        looked_at = _by_rules(site, looked_at, rules)
    # First all plans: what one group cannot do is refused before any is mended.
    plans = [
        planning.plan(site, group, wanted, most, progress)
        for group, wanted in looked_at.items()
    ]
    found: list[SnapshotRectified] = []
    for made in plans:
        if dry_run:
            found += made.reports
            continue
        with lost.told_of(site, made.master):
            found += mend.mend(
                site, made, allow_mass_delete=allow_mass_delete, progress=progress
            )
    return RectifyReport(
        site=site.name,
        dry_run=dry_run,
        snapshots=tuple(found),
        not_loaded=tuple(name for made in plans for name in made.not_loaded),
        at=at,
        seconds=time.monotonic() - began,
    )


def _whole(
    site: Site, names: Sequence[str], only: Sequence[Key], policy: Policy
) -> _Groups:
    """All rows of snapshots, or those of one with the keys that are given.

    Raises:
        BadOption: keys are given, and more than one snapshot may have rows with them.
    """
    groups = check_run.chosen(site, names)
    if only and sum(map(len, groups.values())) > 1:
        raise BadOption(
            "The rows of one snapshot can be chosen by their keys: name it."
        )
    return {
        group: {
            one.key: [Wanted(keys=_keys(one, only) if only else None, take=policy)]
            for one in members
        }
        for group, members in groups.items()
    }


def _of_run(
    site: Site, run: int, names: Sequence[str], policy: Policy
) -> Iterator[tuple[str, Key, Policy]]:
    """The rows that a saved check lists without a reason, of these snapshots or all."""
    report = saved.show_check(site, run)
    chosen = check_run.chosen(site, names).values() if names else ()
    wanted = {one.key for members in chosen for one in members}
    for one in report.snapshots:
        if not names or one.name in wanted:
            for row in one.differences:
                if row.reason is Reason.UNEXPLAINED:
                    yield one.name, row.key, policy


def _of_rows(site: Site, rows: Iterable[tuple[str, Key, Take | Policy]]) -> _Groups:
    """Some rows of snapshots, each with what decides about it."""
    given: dict[str, dict[Take | Policy, list[Key]]] = {}
    for name, key, take in rows:
        of_snapshot = given.setdefault(str(parse(name)), {})
        of_snapshot.setdefault(take, []).append(key)
    groups = check_run.chosen(site, [*given]) if given else {}
    return {
        group: {
            one.key: [
                Wanted(keys=_keys(one, keys), take=take)
                for take, keys in given[one.key].items()
            ]
            for one in members
        }
        for group, members in groups.items()
    }


def _by_rules(site: Site, looked_at: _Groups, given: Sequence[RectifyRule]) -> _Groups:
    """The same rows, decided about by rules."""
    decided: _Groups = {}
    for group, wanted in looked_at.items():
        members = check_run.chosen(site, [*wanted])[group]
        rules = ready(site, group, members, given)
        decided[group] = {
            name: [replace(one, take=rules) for one in some]
            for name, some in wanted.items()
        }
    return decided


def _keys(one: Snapshot, given: Sequence[Key]) -> Keys:
    """Keys in the order of the snapshot's.

    Raises:
        BadPlan: one of them has other columns.
    """
    identity = one.identity_columns
    rows = []
    for key in given:
        if isinstance(key, Mapping):
            fits, values = key.keys() == {*identity}, [*map(key.get, identity)]
        else:
            fits, values = len(key) == len(identity), list(key)
        if not fits:
            raise BadPlan(
                f"The key of snapshot {one.key} has the columns {', '.join(identity)}.",
                snapshot=one.key,
                key=key,
            )
        rows.append(values)
    return keys.of_rows(rows, one.key_names)
