"""`snaptide purge`: what every snapshot and destination has seen goes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import typer
from rich.console import Group

import deferred
import masters
from snaptide.cli.arguments import Json, SiteName
from snaptide.cli.output import facts, show, table
from snaptide.cli.program import Program


def purge(ctx: typer.Context, site: SiteName, json: Json = False) -> None:
    """Purge a site's queue of delivered calls, and its snapshot logs.

    Example: snaptide purge hq
    """
    program = Program.of(ctx)
    chosen = program.site(site)
    report: dict[str, Any] = {
        "queue": deferred.purge(
            chosen, retention=timedelta(days=program.settings.queue.retention_days)
        ),
        "logs": masters.purge_snapshot_logs(chosen),
    }
    rows = [(log.table, log.emptied, log.busy) for log in report["logs"]]
    show(
        program,
        report,
        lambda: Group(
            facts(report["queue"]),
            table(["log of", "partitions emptied", "busy"], rows),
        ),
    )
