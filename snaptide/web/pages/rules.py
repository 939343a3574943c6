"""The rules of a master: listed, as a document, and where they do not converge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import groups
from masters.analysis import topology
from masters.analysis.convergence import Finding
from masters.rules import list_rules
from masters.rules.document import documents
from sites import QualifiedName, Site, names
from snaptide import rules_listed, toml
from snaptide.web.listed import listed, problems_of, start_of
from snaptide.web.page import Page
from snaptide.web.visit import Visit, command

#: So many bytes of a page are for the rules, and for the findings.
ROOM, ROOM_OF_FINDINGS = 24_000, 14_000
#: The document is cut after so many characters.
LONGEST = 5_000


def read(visit: Visit) -> Mapping[str, Any]:
    """The rules of all tables, or of one, and what the check finds in them."""
    table = visit.query("table")
    wanted = names.parse(table) if table else None
    every = visit.ask("rules", list_rules)
    some = [one for one in every if wanted in (None, one.table)]
    lines = rules_listed.rows(some)
    site = visit.site.name
    return {
        "table": table,
        "columns": rules_listed.COLUMNS,
        "lines": listed(lines, lambda line: line, start=start_of(visit), room=ROOM),
        "document": toml.written(documents(some)).strip() if some else "",
        "longest": LONGEST,
        **_checked(visit, wanted),
        "check": command("conflicts", "check", site),
        "export": command("rules", "export", site),
        "command": command("rules", "list", site),
    }


def _checked(visit: Visit, wanted: QualifiedName | None) -> Mapping[str, Any]:
    """What the check finds, or why it cannot tell."""
    asked = {visit.site.name: visit.site}
    [answer] = visit.console.questions.ask_all(asked, "convergence", _check).values()
    found = [one for one in answer.value or () if wanted in (None, one.table)]
    return {
        "findings": listed(found, cells, room=ROOM_OF_FINDINGS),
        "problems": problems_of({visit.site.name: answer.error}),
    }


def _check(site: Site) -> Sequence[Finding]:
    masters = groups.masters_of_tables(site, settle=False)
    return topology.check_site(site, masters)


def cells(one: Finding) -> Sequence[object]:
    """What a page shows of a finding."""
    rule = one.rule
    return (
        one.table,
        rule.kind,
        rule.reference,
        rule.method,
        one.severity,
        one.reason,
    )


PAGE = Page(path="/sites/{site}/rules", template="rules.html", read=read)
