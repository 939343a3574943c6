"""Prints column groups and rules as a table, and warns of bad stamps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from masters import rules
from masters.analysis import stamps
from sites import Site
from snaptide import rules_listed
from snaptide.cli.output import show, table
from snaptide.cli.program import Program


@contextmanager
def changed(program: Program, master: Site) -> Iterator[None]:
    """Let the block change a master, then show its rules and new warnings."""
    before = rules.list_rules(master)
    yield
    since = rules.list_rules(master)
    show_rules(program, since)
    _warn(master, before, since)


def _warn(
    master: Site, before: list[rules.TableRules], since: list[rules.TableRules]
) -> None:
    """Print problems with the stamp columns that new rules decide by."""
    known = [(one.table, rule) for one in before for rule in one.rules]
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for finding in stamps.check(master, since):
        if (finding.table, finding.rule) not in known:
            console.print(Text(f"{finding.table}: {finding.reason}."))


def show_rules(program: Program, found: list[rules.TableRules]) -> None:
    """Print column groups and rules."""
    show(
        program,
        found,
        lambda: table(rules_listed.COLUMNS, rules_listed.rows(found)),
    )
