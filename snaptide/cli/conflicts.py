"""`snaptide conflicts`: shows what rules decided, and what other rules would have."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group

import groups
from masters.analysis import convergence, records, replay, topology
from masters.analysis.records import Resolved, RulesVersion
from sites import names
from snaptide.cli.arguments import SiteArgument, complete_site
from snaptide.cli.failures import end_if
from snaptide.cli.output import cell, facts, show, show_facts
from snaptide.cli.output import table as table_of
from snaptide.cli.plan import Set
from snaptide.cli.program import Program
from snaptide.cli.rules_file import read_rules
from snaptide.cli.verbs import Verbs

app = Verbs()

Table = Annotated[str | None, typer.Option(help="Only conflicts of this table.")]
Origin = Annotated[
    str | None,
    typer.Option(help="Only conflicts of this site.", autocompletion=complete_site),
]
Limit = Annotated[int, typer.Option(min=1, help="Show only this many of the latest.")]


@app.command("list")
def list_(
    program: Program,
    site: SiteArgument,
    table: Table = None,
    origin: Origin = None,
    method: Annotated[
        str | None, typer.Option(help="Only conflicts that this method settled.")
    ] = None,
    before: Annotated[
        int | None,
        typer.Option(min=1, metavar="ID", help="Only those with a lower number."),
    ] = None,
    limit: Limit = 100,
) -> None:
    """List conflicts that rules settled, the latest first.

    Example: snaptide conflicts list hq --table flights
    """
    found = records.list_resolutions(
        site,
        table=table,
        origin=origin,
        method=method,
        before=before,
        limit=limit,
    )
    columns = [
        "id",
        "settled",
        "table",
        "row",
        "from",
        "conflict",
        "method",
        "decision",
    ]
    rows = [
        (
            one.id,
            one.resolved_at,
            _table(one),
            _key(one.row_key),
            one.origin,
            f"{one.kind} {one.reference}".strip(),
            one.method,
            one.decision,
        )
        for one in found
    ]
    show(program, found, lambda: table_of(columns, rows))


@app.command("show")
def show_(
    program: Program,
    site: SiteArgument,
    number: Annotated[int, typer.Argument(metavar="ID")],
) -> None:
    """Show a settled conflict: inputs, rule, result, and the rules of that time.

    Example: snaptide conflicts show hq 7
    """
    one, rules = records.show_resolution(site, number)
    show(program, {"resolution": one, "rules": rules}, lambda: _whole(one, rules))


@app.command()
def stats(
    program: Program, site: SiteArgument, table: Table = None, origin: Origin = None
) -> None:
    """Count settled conflicts by day, table, method and site.

    Example: snaptide conflicts stats hq
    """
    found = records.resolution_statistics(site, table=table, origin=origin)
    columns = ["day", "table", "conflict", "method", "decision", "from", "conflicts"]
    rows = [
        (s.day, s.table, s.kind, s.method, s.decision, s.origin, s.conflicts)
        for s in found
    ]
    show(program, found, lambda: table_of(columns, rows))


@app.command()
def purge(
    program: Program,
    site: SiteArgument,
    days: Annotated[
        float,
        typer.Option(
            "--older-than",
            min=0,
            metavar="DAYS",
            help="Remove records older than this.",
        ),
    ] = 90,
) -> None:
    """Remove old records of settled conflicts.

    Example: snaptide conflicts purge hq --older-than 365
    """
    gone = records.purge_resolutions(site, timedelta(days=days))
    show_facts(program, site=site.name, purged=gone)


@app.command()
def check(
    program: Program,
    site: SiteArgument,
    masters: Annotated[
        int | None,
        typer.Option(
            min=1, help="How many masters the tables have; default: as in their groups."
        ),
    ] = None,
) -> None:
    """Say which tables may stay different for ever, and why; ends with 3 if any.

    Example: snaptide conflicts check hq --masters 2
    """
    found = topology.check_site(site, masters or groups.masters_of_tables(site))
    columns = ["table", "conflict", "of", "method", "severity", "why"]
    rows = [
        (
            str(one.table),
            one.rule.kind,
            one.rule.reference,
            one.rule.method,
            one.severity,
            one.reason,
        )
        for one in found
    ]
    show(program, found, lambda: table_of(columns, rows))
    end_if(attention=any(one.severity is convergence.Severity.WARNING for one in found))


@app.command("replay")
def replay_(
    program: Program,
    site: SiteArgument,
    rules: Annotated[
        Path,
        typer.Option("--rules", metavar="FILE", help="The other rules, a TOML file."),
    ],
    everything: Annotated[
        bool, typer.Option("--all", help="Also show conflicts that would end the same.")
    ] = False,
    since: Annotated[
        int, typer.Option(min=0, help="Only conflicts with a higher number.")
    ] = 0,
    limit: Annotated[int, typer.Option(min=1, help="Show at most this many.")] = 1000,
    values: Set = None,
) -> None:
    """Show what other rules would have done with the recorded conflicts.

    Example: snaptide conflicts replay hq --rules rules.toml
    """
    told: list[replay.Replayed] = []
    count = otherwise = 0
    book = read_rules(rules, site.name, values)
    for one in replay.replay(site, book, since=since):
        count += 1
        otherwise += one.differs
        if (everything or one.differs) and len(told) < limit:
            told.append(one)
    columns = ["id", "table", "row", "conflict", "method", "result", "would", "result"]
    rows = [
        (
            one.id,
            one.table,
            _key(one.row_key),
            f"{one.kind} {one.reference}".strip(),
            f"{one.method}: {one.decision}",
            _key(one.result),
            f"{one.would_method}: {one.would_decision}",
            _key(one.would_result),
        )
        for one in told
    ]
    title = f"{otherwise} of {count} would end differently"
    show(program, told, lambda: table_of(columns, rows, title))


def _whole(one: Resolved, rules: RulesVersion | None) -> Group:
    images = (one.old_values, one.new_values, one.current_values, one.result_values)
    names_of = list(dict.fromkeys(name for image in images for name in image or ()))
    rows = [(name, *((image or {}).get(name) for image in images)) for name in names_of]
    told = [
        "id",
        "resolved_at",
        "origin",
        "origin_transaction",
        "changed_at",
        "kind",
        "reference",
        "sequence_no",
        "method",
        "rules_version",
        "decision",
        "reason",
    ]
    return Group(
        f"{cell(_table(one))} {cell(_key(one.row_key))}",
        facts(one, told),
        *([facts(rules, ("what", "changed_by", "changed_at"))] if rules else []),
        table_of(["column", "old", "new", "current", "result"], rows),
    )


def _table(one: Resolved) -> str:
    return str(names.QualifiedName(one.table_schema, one.table_name))


def _key(row: Mapping[str, str | None] | None) -> str:
    if row is None:
        return "-"
    return ", ".join(f"{name}={value}" for name, value in row.items())
