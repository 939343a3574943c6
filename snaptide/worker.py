"""Runs Celery's worker and beat as the settings say."""

from __future__ import annotations

from collections.abc import Sequence

from celery import Celery

from snaptide.application import queue_of


def run_worker(
    app: Celery,
    sites: Sequence[str],
    *,
    pool: str,
    concurrency: int,
    log_level: str,
) -> None:
    """Run a worker for the queues of some sites until it is told to stop.

    Parameters:
        sites: names; the worker also takes tasks that belong to no site.
        pool: threads or solo, because a JVM does not survive fork.
    """
    app.worker_main(
        [
            "worker",
            f"--pool={pool}",
            f"--concurrency={concurrency}",
            f"--loglevel={log_level}",
            f"--queues={','.join(['snaptide', *map(queue_of, sites)])}",
            # Each worker on a machine needs a name of its own.
            f"--hostname={'-'.join(sorted(sites))[:100]}-%i@%h",
            # Workers have no state to share with each other.
            "--without-gossip",
            "--without-mingle",
        ]
    )


def run_beat(app: Celery, *, log_level: str) -> None:
    """Run beat until it is told to stop."""
    app.start(["beat", f"--loglevel={log_level}"])
