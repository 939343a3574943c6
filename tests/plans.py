"""Reading the plans of all statements, whoever's they are: the server logs them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from sites import Site

#: The server logs the plan of each statement, of triggers and foreign keys too.
_ON = {"debug_print_plan": "on", "debug_pretty_print": "off"}

#: Nodes that read a table, or an index of it, from the one end to the other.
_FROM_END_TO_END = re.compile(
    r"\{SEQSCAN .*?:scan\.scanrelid (\d+)"
    r"|\{INDEX(?:ONLY)?SCAN (?:(?!\{INDEX).)*?:scan\.scanrelid (\d+)"
    r" :indexid \d+ :indexqual <>"
)
#: What a statement refers to, in the order of the numbers above.
_ENTRY = re.compile(r"\{RANGETBLENTRY (?:(?!\{RANGETBLENTRY).)*")
_TABLE = re.compile(r":rtekind 0 :relid (\d+)")


class Plans:
    """The plans that a server has logged while the block ran."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._begin = log.stat().st_size

    def scanned(self) -> set[int]:
        """The numbers of all tables that some plan reads from end to end."""
        return {number for plan in self._all() for number in _scanned(plan)}

    def count(self) -> int:
        """How many there are."""
        return sum(1 for _ in self._all())

    def _all(self) -> Iterator[str]:
        with self._log.open(errors="replace") as log:
            log.seek(self._begin)
            # Long lines are broken; what follows begins with a tabulator.
            whole = log.read().replace("\n\t", " ")
        yield from (line for line in whole.splitlines() if "{PLANNEDSTMT " in line)


@contextmanager
def logged(log: Path, sites: Mapping[str, Site]) -> Iterator[Plans]:
    """Have the plans of all new sessions of these sites logged."""
    for site in sites.values():
        _set(site, {name: sql.SQL("= {}").format(value) for name, value in _ON.items()})
    try:
        yield Plans(log)
    finally:
        for site in sites.values():
            _set(site, dict.fromkeys(_ON, sql.SQL("TO DEFAULT")))


def _set(site: Site, values: Mapping[str, sql.Composable]) -> None:
    url = site.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as admin:
        for name, value in values.items():
            admin.execute(
                sql.SQL("ALTER DATABASE {} SET {} {}").format(
                    sql.Identifier(str(site.url.database)), sql.SQL(name), value
                )
            )
    site.close()


def _scanned(plan: str) -> Iterator[int]:
    before, _, after = plan.partition(" :rtable (")
    tables = [_TABLE.search(entry) for entry in _ENTRY.findall(after)]
    for found in _FROM_END_TO_END.finditer(before + after):
        table = tables[int(found[1] or found[2]) - 1]
        if table is not None:
            yield int(table[1])
