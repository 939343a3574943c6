"""`snaptide revoke`: lets a site read a publication of a master no more."""

from __future__ import annotations

import masters
from snaptide.cli.arguments import SiteArgument
from snaptide.cli.grant import ToSite
from snaptide.cli.output import show_facts
from snaptide.cli.program import Program
from snaptide.cli.publication import Name


def revoke(
    program: Program, site: SiteArgument, publication: Name, name: ToSite
) -> None:
    """Let a site read a publication of a master no more.

    Its next refresh is refused. Its snapshots keep their rows.

    Example: snaptide revoke hq sales store3
    """
    masters.revoke(site, publication, name)
    show_facts(program, site=site.name, publication=publication, revoked=name)
