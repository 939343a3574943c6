"""Celery tasks of this package: names in, nothing out; every one may run twice."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from celery import shared_task

import snapshots
from deferred import runs
from deferred.options import CheckOptions
from deferred.schedules import EVERYTHING
from deferred.tasks import RETRYING
from sites import Site, configured, extras, replies
from sites.sessions import activity
from sites.tables import locks
from sites.words import counted
from snapshots.check.errors import CheckRunning, NotAllCompared, RowsDiffer
from snapshots.check.report import CheckReport
from snapshots.errors import RefreshRunning
from snapshots.reports import RefreshReport, as_json

log = logging.getLogger(__name__)


@shared_task(name="snapshots.tasks.refresh", **RETRYING)
def refresh(site: str, group: str, request: str | None = None, **options: Any) -> None:
    """Refresh a group of snapshots to one moment of its master.

    Parameters:
        request: names the command that waits for it (`sites.replies`).
    """
    home = configured.site(site)
    if request is not None:
        # Before the command is told that a worker has begun: it may do without.
        extras.require("spark")
    try:
        with replies.replying(home, request) as reply:
            report = _refresh(home, group, reply, options)
            reply.say(replies.REPORT, as_json(report))
    except replies.NotWaitedFor:
        log.info("refresh %s %s: it is not waited for any more.", site, group)
    except RefreshRunning:
        log.info("refresh %s %s: another refresh is running.", site, group)
    else:
        counts = _counts(report)
        log.info(
            "refresh %s %s: %s",
            site,
            group,
            _in_words(counts, report.seconds),
            extra={
                "event": "refresh",
                "site": site,
                "subject": group,
                **counts,
                "seconds": report.seconds,
            },
        )
        _tell_behind(report)


def _tell_behind(report: RefreshReport) -> None:
    """Warn of a push that was refused, and each snapshot that was left behind."""
    if report.not_pushed is not None:
        log.warning(
            "refresh %s %s: not pushed before: %s",
            report.site,
            report.group,
            " ".join(report.not_pushed.split()),
        )
    for one in report.behind:
        if one.depends_on is not None:
            why = f"it depends on {one.depends_on}."
        else:
            why = f"{one.code} {one.why} Hint: {one.hint}"
        log.warning(
            "refresh %s %s: %s stays behind: %s",
            report.site,
            report.group,
            one.name,
            " ".join(why.split()),
        )


def _refresh(
    home: Site, group: str, reply: replies.Reply, options: Mapping[str, Any]
) -> RefreshReport:
    with (
        runs.outcome(home, "refresh", group, in_progress=RefreshRunning),
        activity.report(home, "refresh", group, also=reply.progress) as progress,
    ):
        return snapshots.refresh(home, group, progress=progress, **options)


@shared_task(name="snapshots.tasks.check", **RETRYING)
def check(site: str, subject: str = EVERYTHING, **options: Any) -> None:
    """Check a refresh group, or all of them, and save what is found at the site.

    If the same check is running still, that one goes on alone.

    Raises:
        RowsDiffer: rows differ without a reason; so the schedule shows a failure.
        NotAllCompared: a master does not answer; what was found of others is saved.
    """
    try:
        _check(configured.site(site), subject, options)
    except CheckRunning:
        log.info("check %s %s: another check is running.", site, subject)


def _check(home: Site, subject: str, options: Mapping[str, Any]) -> None:
    message = f"Another check of {subject} is running at site {home.name}."
    busy = partial(CheckRunning, message, site=home.name, subject=subject)
    with (
        runs.outcome(home, "check", subject, in_progress=CheckRunning),
        locks.alone(home, "snaptide.check", subject, busy),
        activity.report(home, "check", subject) as progress,
    ):
        chosen = CheckOptions.of(options)
        report = snapshots.check(
            home,
            () if subject == EVERYTHING else subject,
            **chosen.model_dump(exclude={"since"}),
            since=chosen.written_within,
            save=True,
            progress=progress,
        )
        log.log(
            logging.WARNING if report.unproven else logging.INFO,
            "check %s %s: %s, %s of them unexplained, %s cannot be told, in %.1f s.",
            home.name,
            subject,
            counted(report.differing, "row", "differ"),
            f"{report.unexplained:,}",
            f"{report.unproven:,}",
            report.seconds,
            extra={
                "event": "check",
                "site": home.name,
                "subject": subject,
                "differing": report.differing,
                "unexplained": report.unexplained,
                "unproven": report.unproven,
                "seconds": report.seconds,
            },
        )
        _judge(home, report)


def _judge(home: Site, report: CheckReport) -> None:
    """Fail if rows differ without a reason, or else if groups were not compared.

    Raises:
        RowsDiffer, NotAllCompared: so it is.
    """
    if report.unexplained:
        raise RowsDiffer(
            f"{counted(report.unexplained, 'row', 'differ')} without a reason: "
            f"check {report.run}.",
            site=home.name,
            run=report.run,
        )
    for group, why in report.away.items():
        raise NotAllCompared(f"Group {group} was not compared: {why}", site=home.name)


def _counts(report: RefreshReport) -> dict[str, int]:
    """How many rows a refresh wrote and left alone, and snapshots it left behind."""
    each = report.snapshots
    return {
        "inserted": sum(one.inserted for one in each),
        "updated": sum(one.updated for one in each),
        "deleted": sum(one.deleted for one in each),
        "left": sum(one.left for one in each),
        "to_leave": sum(sum(one.staying.values()) for one in each),
        "withdrawn": sum(one.withdrawn for one in each),
        "held_back": sum(one.held_back for one in each),
        "refused": sum(sum(one.refused.values()) for one in each),
        "behind": len(report.behind),
    }


def _in_words(counts: Mapping[str, int], seconds: float) -> str:
    parts = [f"{counts[name]:,} {name}" for name in ("inserted", "updated", "deleted")]
    if left := counts["left"]:
        parts[-1] += f" ({left:,} of them left)"
    said = {
        "to_leave": "are to leave",
        "withdrawn": "withdrawn",
        "held_back": "held back",
        "refused": "refused by the site",
    }
    parts += [
        f"{counts[what]:,} {words}" for what, words in said.items() if counts[what]
    ]
    if behind := counts["behind"]:
        parts.append(f"{counted(behind, 'snapshot')} left behind")
    return f"{', '.join(parts)} in {seconds:.1f} s."
