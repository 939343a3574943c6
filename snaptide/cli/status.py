"""`snaptide status`: shows all sites on one screen."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sites import Site
from snaptide.cli.arguments import SiteNames
from snaptide.cli.doctor import findings_table
from snaptide.cli.failures import end_if
from snaptide.cli.output import cell, console, show, table
from snaptide.cli.program import Program
from snaptide.errors import BadArgument
from snaptide.status import Activity, SiteStatus
from snaptide.status import status as ask
from snaptide.units import duration, size


def status(
    program: Program,
    sites: SiteNames = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Repeat it until Ctrl-C.")
    ] = False,
    every: Annotated[
        float, typer.Option(min=0.2, help="Seconds between two updates.")
    ] = 2.0,
) -> None:
    """Show queues, refreshes, lag, errors, schedules and running work of sites.

    Ends with 3 if work has stopped that should run (a failed refresh or push, a paused
    or invalid destination, a contract that is not kept, parked errors, an overdue
    schedule, no beat), or if rows may differ between the masters of a group because of
    a decision there; ends with 4 if a site is away. Doctor finds the same.

    Example: snaptide status --watch
    """
    chosen = program.chosen(sites)
    if watch:
        if program.json or not sys.stdout.isatty():
            raise BadArgument("--watch is for terminals; use --json in a loop.")
        _watch(chosen, every)
        return
    found = ask(chosen)
    show(program, found, lambda: screen(found))
    end_if(
        unreachable=not all(one.reachable for one in found),
        attention=any(one.error or one.findings for one in found),
    )


def screen(found: list[SiteStatus]) -> RenderableType:
    """The screen: sites, queues, groups, schedules, running work, then findings."""
    parts: list[RenderableType] = [_sites(found)]
    parts += [Text(f"{one.site}: {one.error}") for one in found if one.error]
    of_masters = _contracts, _answers, _publications, _images
    tables = (
        *(_queues, _groups, _behind, *of_masters, _numbers),
        *(_schedules, _running),
    )
    for made in (shown(found) for shown in tables):
        if made.row_count:
            parts += [Text(), made]
    if findings := [finding for one in found for finding in one.findings]:
        parts += [Text(), findings_table(findings)]
    return Group(*parts)


def _watch(sites: list[Site], every: float) -> None:
    with Live(console=console(), screen=True, auto_refresh=False) as live:
        while True:
            live.update(screen(ask(sites)), refresh=True)
            time.sleep(every)


def _sites(found: list[SiteStatus]) -> Table:
    made = table(["site", "", "schema", "queued", "oldest", "parked"], [])
    for one in found:
        made.add_row(
            one.site,
            _how(one),
            one.revision or "-",
            f"{one.queued:,}",
            duration(one.waited),
            Text(f"{one.parked:,}", style="red" if one.parked else ""),
        )
    return made


def _how(one: SiteStatus) -> Text:
    if not one.reachable:
        return Text("away", style="red")
    return Text("not ready", "yellow") if one.error else Text("up", "green")


def _queues(found: list[SiteStatus]) -> Table:
    rows = [
        (
            f"{one.site} -> {queue.destination}",
            queue.transactions,
            queue.calls,
            size(queue.bytes),
            duration(one.since(queue.oldest)),
            queue.last_push_at,
            queue.standing,
        )
        for one in found
        for queue in one.backlog
    ]
    columns = ["queue", "transactions", "calls", "size", "age", "last push", ""]
    return table(columns, rows)


def _groups(found: list[SiteStatus]) -> Table:
    rows = [
        (
            f"{one.site} <- {group.master}",
            group.name,
            group.snapshots,
            "never refreshed" if group.age is None else duration(group.age),
            group.lag.rows if group.lag else None,
            group.lag.transactions if group.lag else None,
            group.last_error or "",
        )
        for one in found
        for group in one.groups
    ]
    columns = [
        "refresh",
        "group",
        "snapshots",
        "age",
        "rows behind",
        "transactions",
        "",
    ]
    return table(columns, rows)


def _behind(found: list[SiteStatus]) -> Table:
    rows = [
        (
            f"{one.site} <- {group.master}",
            behind.snapshot,
            behind.refreshed_at or "never refreshed",
            f"{behind.why} {behind.todo}",
        )
        for one in found
        for group in one.groups
        for behind in group.behind
    ]
    return table(["stays behind", "snapshot", "refreshed", ""], rows)


def _contracts(found: list[SiteStatus]) -> Table:
    rows = [
        (
            f"{one.site} -> {contract.site}",
            contract.group,
            contract.state,
            contract.since,
            duration(contract.age),
            contract.reason or "",
        )
        for one in found
        for contract in one.contracts
    ]
    return table(["contract", "group", "", "since", "age", ""], rows)


def _publications(found: list[SiteStatus]) -> Table:
    """A line for each grant, and one for what is granted to no site."""
    rows = []
    for one in found:
        for each in one.publications:
            told = f"{one.site} -> {{}}", each.name, each.tables
            grants: list[tuple[object, ...]] = [
                (
                    *(told[0].format(grant.site), *told[1:], grant.parameters),
                    *(grant.login, grant.updatable),
                )
                for grant in each.grants
            ]
            rows += grants or [(told[0].format("no site"), *told[1:], {}, "", "")]
    columns = ["granted", "publication", "tables", "values", "login", "updatable"]
    return table(columns, rows)


def _images(found: list[SiteStatus]) -> Table:
    rows = [
        (
            f"{one.site}: {image.name}",
            image.tables,
            image.made_at or "not complete",
            _expires(image.expires_at, one.now),
            image.logs_since,
        )
        for one in found
        for image in one.images
    ]
    columns = ["image", "tables", "made", "expires", "logs kept since"]
    return table(columns, rows)


def _expires(at: datetime, now: datetime | None) -> datetime | str:
    return "expired: the next purge" if now is not None and at <= now else at


def _answers(found: list[SiteStatus]) -> Table:
    rows = [
        (
            f"{one.site} -> {answer.master}",
            answer.group,
            answer.state,
            answer.since,
            duration(answer.age),
            duration(answer.within),
        )
        for one in found
        for answer in one.answers
    ]
    return table(["answers to", "group", "", "since", "age", "within"], rows)


def _numbers(found: list[SiteStatus]) -> Table:
    rows = [
        (
            f"{one.site} <- {column.master}",
            f"{column.snapshot}.{column.column}",
            column.left,
            column.lease,
            column.per_day,
            column.lasts_days,
            column.last_error or "",
        )
        for one in found
        for column in one.numbers
    ]
    columns = ["numbers", "column", "left", "lease", "a day", "lasts days", ""]
    return table(columns, rows)


def _schedules(found: list[SiteStatus]) -> Table:
    rows = [
        (
            one.site,
            f"{schedule.kind} {schedule.subject}",
            schedule.interval,
            "paused"
            if schedule.disabled
            else f"overdue by {duration(schedule.overdue)}"
            if schedule.overdue
            else schedule.next_at,
            schedule.last_error or "",
        )
        for one in found
        for schedule in one.schedules
    ]
    return table(["schedule of", "", "every", "next", ""], rows)


def _running(found: list[SiteStatus]) -> Table:
    made = table(["running at", "", "", "", "since"], [])
    for one in found:
        for work in one.activities:
            made.add_row(
                one.site,
                cell(f"{work.kind} {work.subject}"),
                ProgressBar(total=work.total, completed=work.done, width=30),
                _how_far(work),
                cell(work.started_at),
            )
    return made


def _how_far(work: Activity) -> str:
    of = f" of {work.total:,}" if work.total else ""
    rate = f", {work.rate:,.0f}/s" if work.rate else ""
    left = "" if work.remaining is None else f", {duration(work.remaining)} left"
    return f"{work.done:,}{of} {work.unit}{rate}{left}"
