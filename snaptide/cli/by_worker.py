"""Has a worker that runs already do what a command would start Spark for.

A worker has Spark warm; a command would have to start it. What the command prints, and
how it ends, is the same by either way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from tenacity import stop_after_delay, wait_random

import snapshots
from sites import Site, retry
from sites.replies import NotBegun, Request, WorkerLost, requesting
from snaptide.cli.program import Program
from snaptide.cli.progress import bar
from snaptide.errors import NoBroker

if TYPE_CHECKING:
    from snapshots.reports import RefreshReport

#: Seconds in which the server ends the sessions of a worker that is gone; as long as
#: one of them is there, the group is locked.
LOCKED = 60.0


def refreshed(
    program: Program, site: Site, what: str, options: Mapping[str, Any]
) -> RefreshReport:
    """Refresh by a worker of the site if there is one, or else here.

    Parameters:
        what: as `snapshots.refresh` takes it.
        options: those that were given.

    Raises:
        the errors of `snapshots.refresh`.
    """

    def here() -> RefreshReport:
        with _bar(program, site, what) as progress:
            return snapshots.refresh(site, what, progress=progress, **options)

    # The traceback of an error in a worker is in the worker's log.
    if program.debug or not _is_served(program, site):
        return here()
    with requesting(site) as request:
        if not _asked(program, site, what, options, request):
            return here()
        try:
            return _answered(program, site, what, request)
        except NotBegun:
            _say(program, "No worker has begun the refresh: it runs here.")
            return here()
        except WorkerLost:
            _say(program, "The worker is gone: the refresh runs here.")
            return _when_let_go(here)


def _is_served(program: Program, site: Site) -> bool:
    broker = program.settings.broker
    if broker is None:
        return False
    # Imported late, as all that speaks to the broker.
    from snaptide import presence

    return presence.is_served(broker.url.get_secret_value(), site.name)


def _asked(
    program: Program,
    site: Site,
    what: str,
    options: Mapping[str, Any],
    request: Request,
) -> bool:
    """Put the task into the site's queue; False if the broker does not answer."""
    from snaptide import application

    app = application.celery_app(program.settings)
    told = {**options, "request": request.name}
    try:
        application.enqueue(app, application.REFRESH, site.name, what, options=told)
    except NoBroker:
        return False
    return True


def _answered(
    program: Program, site: Site, what: str, request: Request
) -> RefreshReport:
    """Wait for the worker; Ctrl-C ends the waiting alone."""
    from snapshots.reports import of_json

    try:
        with _bar(program, site, what) as progress:
            return of_json(request.answer(progress))
    except KeyboardInterrupt:
        if request.begun:
            goes_on = f"snaptide status {site.name} shows it"
            _say(program, f"The refresh goes on in the worker: {goes_on}.")
        else:
            _say(program, "No worker has begun the refresh, and none will.")
        raise


def _when_let_go(here: Callable[[], RefreshReport]) -> RefreshReport:
    """Refresh as soon as the group is not locked any more by what is gone."""
    from snapshots.errors import RefreshRunning

    pause = wait_random(0.5, 1.5)
    return retry.on(RefreshRunning, stop=stop_after_delay(LOCKED), wait=pause)(here)


def _bar(program: Program, site: Site, what: str) -> Any:
    return bar(program, f"refresh {site.name} {what}")


def _say(program: Program, what: str) -> None:
    """Say something beside the report, on the error output; JSON stays alone."""
    if not program.json:
        Console(stderr=True, soft_wrap=True, highlight=False).print(what, markup=False)
