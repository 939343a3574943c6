"""`snaptide worker` and `snaptide beat`: run the services that work unattended."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from snaptide.cli.arguments import complete_site
from snaptide.cli.program import Program


class Pool(StrEnum):
    """How a worker runs several tasks."""

    THREADS = "threads"
    SOLO = "solo"


class LogLevel(StrEnum):
    """How much a process logs."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a process writes its log: one sentence, or one JSON object, a line."""

    TEXT = "text"
    JSON = "json"


Level = Annotated[LogLevel | None, typer.Option(help="Default: as in the settings.")]

Format = Annotated[
    LogFormat | None,
    typer.Option(help="Text, or a JSON object a line; default: as in the settings."),
]


def worker(
    program: Program,
    site: Annotated[
        list[str] | None,
        typer.Option(
            help="Sites to work for; default: all.", autocompletion=complete_site
        ),
    ] = None,
    pool: Annotated[
        Pool | None, typer.Option(help="Default: as in the settings (threads).")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="How many tasks threads run at once.")
    ] = None,
    log_level: Level = None,
    log_format: Format = None,
) -> None:
    """Push what users commit, and run what is scheduled or asked for.

    It listens for commits at its sites, and pushes small queues itself. Several workers
    may listen to a site.

    Example: snaptide worker --site jfk --pool threads
    """
    # Import it late: Celery takes longer to load than most commands take to run.
    from snaptide.application import celery_app
    from snaptide.worker import run_worker

    sites = [chosen.name for chosen in program.chosen(site)]
    defaults = program.settings.worker
    run_worker(
        celery_app(program.settings, log_format),
        sites,
        pool=pool or defaults.pool,
        concurrency=concurrency or defaults.concurrency,
        log_level=log_level or defaults.log_level,
    )


def beat(program: Program, log_level: Level = None, log_format: Format = None) -> None:
    """Ask for the work that is scheduled.

    Several beats may run: only one of them takes each due schedule.

    Example: snaptide beat
    """
    from snaptide.application import celery_app
    from snaptide.worker import run_beat

    program.settings.install()
    run_beat(
        celery_app(program.settings, log_format),
        log_level=log_level or program.settings.worker.log_level,
    )
