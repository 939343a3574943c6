"""`snaptide purge`: removes what all snapshots and destinations have seen."""

from __future__ import annotations

from typing import Any

from rich.console import Group

import deferred
import masters
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.output import facts, show, table
from snaptide.cli.program import Program


def purge(program: Program, site: SiteArgument) -> None:
    """Purge a site's queue of delivered calls, and its snapshot logs.

    Example: snaptide purge hq
    """
    settings = program.settings
    report: dict[str, Any] = {
        "queue": deferred.purge(site, retention=settings.queue.retention),
        "logs": masters.purge_snapshot_logs(
            site, deletes_kept=settings.resolution.deletes_kept
        ),
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
