"""Hands work to a worker instead of doing it here (`--enqueue`)."""

from __future__ import annotations

from dataclasses import dataclass

from snaptide.cli.output import show
from snaptide.cli.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """A task that a worker will run; `snaptide status` shows its progress."""

    task: str
    site: str
    subject: str | None
    id: str


def hand_over(
    program: Program, task: str, site: str, subject: str | None, **options: object
) -> None:
    """Put a task into its site's queue, and print its id.

    Parameters:
        task: push or refresh.

    Raises:
        UnknownSite, NoBroker.
    """
    # Import it late: Celery takes longer to load than most commands take to run.
    from snaptide import application

    name = {"push": application.PUSH, "refresh": application.REFRESH}[task]
    app = application.celery_app(program.settings)
    known = program.site(site).name
    number = application.enqueue(app, name, known, subject, options=options)
    show(program, Queued(task=task, site=known, subject=subject, id=number))
