"""`snaptide doctor`: prints findings, and what to do about each."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from snaptide import doctor as diagnosis
from snaptide.cli.arguments import SiteNames
from snaptide.cli.failures import end_if
from snaptide.cli.output import show
from snaptide.cli.program import Program
from snaptide.doctor import Finding, Severity

_STYLES = {
    Severity.FATAL: "bold red",
    Severity.ERROR: "red",
    Severity.WARNING: "yellow",
    Severity.INFO: "green",
}


def doctor(
    program: Program,
    sites: SiteNames = None,
    fix_hints: Annotated[
        bool, typer.Option(help="Show what to do about each finding.")
    ] = True,
) -> None:
    """Look for problems at sites; ends with 3 if there are any.

    Also says when each snapshot was last checked against its master.

    Example: snaptide doctor hq jfk
    """
    # Imported late: other commands print findings, too.
    from snaptide.doctor import imports

    chosen = program.chosen(sites)
    findings = list(imports.check())
    # Ask all sites at once: a site that is away takes long to time out.
    with ThreadPoolExecutor(max_workers=max(len(chosen), 1)) as pool:
        examine = partial(diagnosis.examine, informed=True)
        findings += [f for found in pool.map(examine, chosen) for f in found]
    show(program, findings, lambda: findings_table(findings, hints=fix_hints))
    end_with(findings)


def findings_table(
    findings: Sequence[Finding], *, hints: bool = True
) -> RenderableType:
    """Findings, each with its remedy below it."""
    problems = [one for one in findings if one.severity is not Severity.INFO]
    lines: list[RenderableType] = []
    if not problems:
        lines.append(Text("No problems found.", style="green"))
    known = [one for one in findings if one.severity is Severity.INFO]
    for finding in problems + known:
        severity = (f"{finding.severity.value:8}", _STYLES[finding.severity])
        what = f"{finding.site}  {finding.subject}: {finding.what}"
        lines.append(Text.assemble(severity, what))
        if hints and finding.todo:
            lines.append(Text(f"{'':8}-> {finding.todo}", style="dim"))
    return Group(*lines)


def end_with(findings: Sequence[Finding]) -> None:
    """End with the exit code for findings; return if there are no problems.

    Raises:
        typer.Exit: there are findings.
    """
    end_if(
        unreachable=any(finding.subject == "SNP-002" for finding in findings),
        attention=any(finding.severity is not Severity.INFO for finding in findings),
    )
