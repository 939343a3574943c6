"""Prints column groups and rules as a table, and warns of bad stamps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.text import Text

from masters import rules
from masters.analysis import stamps
from sites import Site
from snaptide.cli.output import show, table
from snaptide.cli.program import Program


@contextmanager
def changed(ctx: typer.Context, site: str) -> Iterator[Site]:
    """Give the block a master to change, then show its rules and new warnings."""
    program = Program.of(ctx)
    master = program.site(site)
    before = rules.list_rules(master)
    yield master
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
    show(program, found, lambda: table(_COLUMNS, _rows(found)))


_COLUMNS = ["table", "conflict", "of", "columns", "place", "method", "parameters"]


def _rows(found: list[rules.TableRules]) -> list[list[object]]:
    rows: list[list[object]] = []
    for one in found:
        where = str(one.table)
        rows += [
            [where, what, name, None, None, "not compared", None]
            for what, left_out in (
                ("update", one.comparison.not_at_update),
                ("delete", one.comparison.not_at_delete),
            )
            for name in left_out
        ]
        rows += [
            [where, what, name, None, None, "not sent", None]
            for what, left_out in (
                ("update", one.comparison.not_sent_at_update),
                ("delete", one.comparison.not_sent_at_delete),
            )
            for name in left_out
        ]
        if one.comparison.row_version:
            version = one.comparison.row_version
            rows.append([where, "any", version, None, None, "row version", None])
        ruled = {rule.column_group for rule in one.rules}
        rows += [
            [where, "update", name, columns, None, "none yet", None]
            for name, columns in one.groups.items()
            if name not in ruled
        ]
        rows += [
            [
                where,
                rule.kind.value,
                rule.column_group or rule.constraint,
                one.groups.get(rule.column_group or "", ()),
                rule.sequence_no,
                rule.method,
                json.dumps(dict(rule.parameters)),
            ]
            for rule in one.rules
        ]
    return rows
