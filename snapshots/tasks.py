"""Celery tasks of this package: names in, nothing out; every one may run twice."""

from __future__ import annotations

import logging
from typing import Any

from celery import shared_task

import snapshots
from deferred import runs
from deferred.options import CheckOptions
from deferred.schedules import EVERYTHING
from deferred.tasks import RETRYING
from sites import activity, configured
from snapshots.check.errors import RowsDiffer
from snapshots.errors import RefreshRunning
from snapshots.reports import RefreshReport

log = logging.getLogger(__name__)


@shared_task(name="snapshots.tasks.refresh", **RETRYING)
def refresh(site: str, group: str, **options: Any) -> None:
    """Refresh a group of snapshots to one moment of its master."""
    home = configured.site(site)
    try:
        with (
            runs.outcome(home, "refresh", group, in_progress=RefreshRunning),
            activity.report(home, "refresh", group) as progress,
        ):
            report = snapshots.refresh(home, group, progress=progress, **options)
    except RefreshRunning:
        log.info("refresh %s %s: another refresh is running.", site, group)
    else:
        log.info("refresh %s %s: %s", site, group, _counts(report))


@shared_task(name="snapshots.tasks.check", **RETRYING)
def check(site: str, subject: str = EVERYTHING, **options: Any) -> None:
    """Check a refresh group, or all of them, and save what is found at the site.

    Raises:
        RowsDiffer: rows differ without a reason; so the schedule shows a failure.
    """
    home = configured.site(site)
    with (
        runs.outcome(home, "check", subject),
        activity.report(home, "check", subject) as progress,
    ):
        chosen = CheckOptions.of(options)
        report = snapshots.check(
            home,
            () if subject == EVERYTHING else subject,
            **chosen.model_dump(),
            save=True,
            progress=progress,
        )
        log.log(
            logging.WARNING if report.unproven else logging.INFO,
            "check %s %s: %s rows differ, %s of them unexplained, %s cannot be told, "
            "in %.1f s.",
            site,
            subject,
            f"{report.differing:,}",
            f"{report.unexplained:,}",
            f"{report.unproven:,}",
            report.seconds,
        )
        if report.unexplained:
            raise RowsDiffer(
                f"{report.unexplained:,} rows differ without a reason: check "
                f"{report.run}.",
                site=site,
                run=report.run,
            )


def _counts(report: RefreshReport) -> str:
    parts = [
        f"{sum(getattr(one, name) for one in report.snapshots):,} {name}"
        for name in ("inserted", "updated", "deleted")
    ]
    if left := sum(one.left for one in report.snapshots):
        parts[-1] += f" ({left:,} of them left)"
    if stay := sum(sum(one.staying.values()) for one in report.snapshots):
        parts.append(f"{stay:,} are to leave")
    if gone := sum(one.withdrawn for one in report.snapshots):
        parts.append(f"{gone:,} withdrawn")
    held = sum(one.held_back for one in report.snapshots)
    if held:
        parts.append(f"{held:,} held back")
    if refused := sum(sum(one.refused.values()) for one in report.snapshots):
        parts.append(f"{refused:,} refused by the site")
    return f"{', '.join(parts)} in {report.seconds:.1f} s."
