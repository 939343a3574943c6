"""`snaptide site`: initialises, lists, checks and repairs sites."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sites import Site
from sites.sessions import revisions
from snaptide import doctor, migrate
from snaptide import grants as rights
from snaptide import repair as repairs
from snaptide.cli.arguments import SiteArgument, SiteNames, complete_site
from snaptide.cli.doctor import end_with, findings_table
from snaptide.cli.output import facts, show, table
from snaptide.cli.program import Program
from snaptide.cli.verbs import Verbs
from snaptide.errors import BadArgument

app = Verbs()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReport:
    """The schema of a site, before and after a change."""

    site: str
    before: str | None
    now: str | None
    #: statements that grant roles their rights, printed or run
    grants: tuple[str, ...] = ()


class Grants(StrEnum):
    """Whether to print or run the statements that grant roles their rights."""

    PRINT = "print"
    RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSite:
    """A site of the settings, without its password."""

    name: str
    address: str
    user: str | None


@app.command()
def init(
    program: Program,
    sites: Annotated[
        list[str], typer.Argument(metavar="SITE...", autocompletion=complete_site)
    ],
    grants: Annotated[
        Grants | None,
        typer.Option(
            help="Print or run the GRANTs of the roles that push, refresh, purge "
            "and look."
        ),
    ] = None,
) -> None:
    """Create the schema snaptide at sites, or upgrade it to this version.

    Example: snaptide site init hq jfk --grants run
    """
    reports = [_init(program.site(name), grants) for name in sites]
    show(program, reports, lambda: _initialised(reports))


@app.command("list")
def list_(program: Program) -> None:
    """List the sites of the settings; connects to none of them.

    Example: snaptide site list --json
    """
    listed = [
        ListedSite(name=site.name, address=site.address, user=site.url.username)
        for site in program.directory.values()
    ]
    rows = [(site.name, site.address, site.user) for site in listed]
    show(program, listed, lambda: table(["site", "address", "user"], rows))


@app.command()
def check(
    program: Program,
    sites: SiteNames = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Let a restored, promoted or copied database go on as this site.",
        ),
    ] = False,
    restored: Annotated[
        bool,
        typer.Option(
            "--restored", help="With --repair: even if nothing here shows a restore."
        ),
    ] = False,
) -> None:
    """Check that sites answer, have the right schema, and are the databases they were.

    It asks all other sites, too: a site that was restored does not remember what the
    others do. Ends with 3 if there are findings.

    Example: snaptide site check hq

    Example: snaptide site check jfk --repair
    """
    if repair:
        _repair(program, sites, restored=restored)
        return
    findings = [
        found for site in program.chosen(sites) for found in doctor.check_site(site)
    ]
    show(program, findings, lambda: findings_table(findings))
    end_with(findings)


@app.command()
def downgrade(
    program: Program,
    site: SiteArgument,
    revision: Annotated[
        str, typer.Argument(help="A revision like 0003, or base to remove the schema.")
    ],
) -> None:
    """Take a site's schema back to an older version.

    Example: snaptide site downgrade jfk base
    """
    before = _revision(site)
    migrate.downgrade(site, revision)
    report = SchemaReport(site=site.name, before=before, now=_revision(site))
    show(program, report, lambda: _schemas([report]))


def _repair(program: Program, sites: list[str] | None, *, restored: bool) -> None:
    if not sites:
        raise BadArgument("Name the sites to repair.")
    reports = [repairs.repair(program.site(name), restored=restored) for name in sites]
    show(program, reports, lambda: Group(*map(_repaired, reports)))


def _repaired(report: repairs.RepairReport) -> RenderableType:
    if not report.repaired:
        return Text(f"{report.site}: nothing to repair here.")
    return facts(report)


def _init(site: Site, wanted: Grants | None) -> SchemaReport:
    before = _revision(site)
    migrate.upgrade(site)
    return SchemaReport(
        site=site.name,
        before=before,
        now=_revision(site),
        grants=_grant(site, wanted),
    )


def _grant(site: Site, wanted: Grants | None) -> tuple[str, ...]:
    if wanted is Grants.RUN:
        return tuple(rights.run(site))
    if wanted is Grants.PRINT:
        with site.session() as connection:
            return tuple(rights.statements(connection))
    return ()


def _initialised(reports: list[SchemaReport]) -> RenderableType:
    """The revisions, and below them the grants, one per line, for psql."""
    lines = [f"{one};" for report in reports for one in report.grants]
    return Group(_schemas(reports), *map(Text, lines))


def _revision(site: Site) -> str | None:
    with site.session() as connection:
        return revisions.of_site(connection)


def _schemas(reports: list[SchemaReport]) -> Table:
    rows = [(report.site, report.before, report.now) for report in reports]
    return table(["site", "revision before", "now"], rows)
