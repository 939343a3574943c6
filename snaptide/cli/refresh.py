"""`snaptide refresh`: brings the changes of a master to the snapshots of a group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group

import snapshots
from deferred.options import RefreshOptions
from sites.words import counted
from snaptide.cli.arguments import SiteName, complete_site
from snaptide.cli.by_worker import refreshed
from snaptide.cli.failures import end_if
from snaptide.cli.options import takes
from snaptide.cli.output import show, table
from snaptide.cli.program import Program
from snaptide.cli.queued import hand_over
from snaptide.errors import BadArgument

if TYPE_CHECKING:
    from snapshots.reports import GroupRefreshed, RefreshReport

COLUMNS = ["snapshot", "method", "compared", "inserted", "updated", "deleted", "held"]
ALL_COLUMNS = ["site", "group", "state", "parked", *COLUMNS[3:]]


@takes(RefreshOptions, push_deferred_rpc="--push/--no-push")
def refresh(
    program: Program,
    site: SiteName = None,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[GROUP|SNAPSHOTS]",
            help="A refresh group, or snapshots of one, separated by commas.",
        ),
    ] = None,
    *,
    every: Annotated[
        bool, typer.Option("--all", help="All groups of the site, or of all sites.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(
            help="With --all: only groups of this master.",
            autocompletion=complete_site,
        ),
    ] = None,
    enqueue: Annotated[
        bool, typer.Option("--enqueue/--wait", help="Let a worker run it.")
    ] = False,
    **options: Any,
) -> None:
    """Refresh a group to one moment of its master.

    If a worker of the site is running, it does the refresh, because it has Spark ready;
    Ctrl-C then ends only the waiting.

    A snapshot that cannot be refreshed stays at the moment that it shows, with those
    that depend on it; the others come to one new moment (--strict: all or none).

    With --all, the groups of all sites are refreshed here (of one site, if SITE is
    given), up to eight sites at the same time; none stops the others. It ends with 1 if
    one is refused, else with 4 if a site or master is away.

    Ends with 3 if snapshots stay behind, if the push before it parked transactions or
    was refused, if changes of rows that left were withdrawn, or if the site refuses
    rows.

    Example: snaptide refresh jfk flights --method cf
    """
    if every:
        if what or enqueue:
            raise BadArgument(
                "--all refreshes all groups, without a worker: leave out the group and "
                "--enqueue."
            )
        _refresh_all(program, site, master, options)
        return
    if site is None or what is None or master is not None:
        raise BadArgument("Name a site and a group, or say --all [--master MASTER].")
    if enqueue:
        hand_over(program, "refresh", site, what, **options)
        return
    report = refreshed(program, program.site(site), what, options)
    show(program, report, lambda: _shown(report))
    end_if(attention=_needs_attention(report))


def _refresh_all(
    program: Program, site: str | None, master: str | None, options: Any
) -> None:
    sites = program.chosen([site] if site else None)
    if master is not None:
        program.site(master)
    found = snapshots.refresh_many(sites, master=master, **options)
    show(program, found, lambda: _all_shown(found))
    end_if(
        failed=any(one.state == "refused" for one in found),
        unreachable=any(one.state == "away" for one in found),
        attention=any(one.report and _needs_attention(one.report) for one in found),
    )


def _all_shown(found: Sequence[GroupRefreshed]) -> Group:
    if not found:
        return Group("There is no group to refresh.")
    lines = [
        f"{one.site} {one.group}: {said}"
        for one in found
        if one.report
        for said in (*_not_plain(one.report), *_behind(one.report))
    ]
    for one in found:
        if one.report is None:
            where = f"{one.site} {one.group}" if one.group else one.site
            lines.append(" ".join(filter(None, (f"{where}:", one.code, one.why))))
            lines += [f"  hint: {one.hint}"] if one.hint else []
    return Group(table(ALL_COLUMNS, map(_row, found)), "", *lines)


def _row(one: GroupRefreshed) -> tuple[object, ...]:
    if one.report is None:
        return one.site, one.group, one.state, *[None] * 5
    pushed, each = one.report.pushed, one.report.snapshots
    counts = (
        sum(getattr(snapshot, name) for snapshot in each)
        for name in ("inserted", "updated", "deleted", "held_back")
    )
    return one.site, one.group, one.state, pushed.errors if pushed else 0, *counts


def _needs_attention(report: RefreshReport) -> bool:
    parked = report.pushed is not None and report.pushed.errors
    return bool(
        parked
        or report.behind
        or report.not_pushed
        or any(one.refused or one.withdrawn for one in report.snapshots)
    )


def _shown(report: RefreshReport) -> Group:
    rows = [
        (
            one.name,
            one.method,
            "all" if one.window_keys is None else one.window_keys,
            one.inserted,
            one.updated,
            one.deleted,
            one.held_back,
        )
        for one in report.snapshots
    ]
    lines = [f"{report.group} shows its master as it was {report.seconds:.1f} s ago."]
    if report.pushed is not None:
        lines.append(
            f"Pushed before: {counted(report.pushed.transactions, 'transaction')}, "
            f"{report.pushed.errors} parked."
        )
    more = (*_not_plain(report), *_behind(report))
    return Group(table(COLUMNS, rows), "", *lines, *more)


def _not_plain(report: RefreshReport) -> Iterator[str]:
    """Say what else has become of changes and rows, if anything."""
    if report.not_pushed is not None:
        yield f"Not pushed before: {report.not_pushed}"
    yield from (
        f"{one.name}: {said}" for one in report.snapshots if (said := one.moves)
    )
    for one in report.snapshots:
        for why, count in one.refused.items():
            yield f"{one.name}: the site refuses {count} of them: {why}"


def _behind(report: RefreshReport) -> Iterator[str]:
    """Say which snapshots stay behind, why, and what to do."""
    for one in report.behind:
        if one.depends_on is not None:
            yield f"{one.name} stays behind with {one.depends_on}."
        else:
            yield f"{one.name} stays behind: {one.code} {one.why}"
            yield f"  hint: {one.hint}"
