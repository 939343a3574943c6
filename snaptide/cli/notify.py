"""`snaptide notify`: tells hooks what has gone wrong, each thing once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Group
from rich.text import Text

from snaptide.cli.arguments import SiteNames
from snaptide.cli.failures import end_if
from snaptide.cli.output import show
from snaptide.cli.program import Program
from snaptide.cli.services import Format
from snaptide.limits import age_of
from snaptide.news import hooks
from snaptide.news.telling import Told, tell
from snaptide.settings import find

log = logging.getLogger(__name__)

#: The file that remembers what was told, beside the settings.
LEDGER = "snaptide.told"


def notify(
    program: Program,
    sites: SiteNames = None,
    every: Annotated[
        str | None, typer.Option(help="Look again and again, as every 30s.")
    ] = None,
    told: Annotated[
        Path | None,
        typer.Option(
            "--told",
            dir_okay=False,
            help="The file that remembers what was told; default: snaptide.told "
            "beside the settings.",
        ),
    ] = None,
    log_format: Format = None,
) -> None:
    """Tell hooks what has gone wrong at sites, each thing once.

    That is parked transactions, failed schedules, destinations that are invalid, checks
    that found rows that differ without a reason, and rows that a master of a group has
    listed because they may differ from those of others. The hooks are command and
    webhook in [notification]; without them it only prints. Ends with 3 if a hook has
    failed, with 4 if a site is away.

    Example: snaptide notify --every 30s
    """
    path = told or find(program.config).absolute().parent / LEDGER
    look = partial(
        tell,
        program.chosen(sites),
        hooks.configured(program.settings.notification),
        path,
    )
    if every is not None:
        form = log_format or program.settings.worker.log_format
        _go_on(look, age_of(every).total_seconds(), as_json=form == "json")
    found = look()
    show(program, found, lambda: Group(*map(Text, [*_lines(found)])))
    end_if(unreachable=found.away, attention=found.failed)


def _lines(found: Told) -> Iterator[str]:
    yield from (one.text for one in found.news)
    yield from _problems(found)


def _problems(found: Told) -> Iterator[str]:
    yield from (f"{site} is away: {why}" for site, why in found.away.items())
    yield from (f"Hook {name}: {why}" for name, why in found.failed.items())
    yield from (f"No hook has taken for a day: {one.text}" for one in found.given_up)


def _go_on(look: Callable[[], Told], pause: float, *, as_json: bool) -> NoReturn:
    """Look again and again, and log what is new."""
    _log_lines(as_json)
    before: set[str] = set()
    while True:
        found = look()
        for one in found.news:
            about = {"event": one.kind, "site": one.site, "subject": one.subject}
            log.warning("%s", one.text, extra=about)
        problems = [*_problems(found)]
        for line in problems:
            if line not in before:
                log.error("%s", line)
        before = {*problems}
        time.sleep(pause)


def _log_lines(as_json: bool) -> None:
    """Log to stderr, as other services do."""
    form = logging.Formatter("[%(asctime)s: %(levelname)s] %(message)s")
    if as_json:
        from snaptide import logs

        form = logs.as_json()
    handler = logging.StreamHandler()
    handler.setFormatter(form)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
