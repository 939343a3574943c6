"""Holds the snapshots of a site against their defining queries at the master."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

import snapshots
from sites import Site
from snapshots import Reason
from tests.oracle.conditions.plans import Plan
from tests.oracle.conditions.schema import Schema, Table
from tests.oracle.runner.played import Violation

Session = psycopg.Connection[TupleRow]
#: By key, the history and the values of a row.
_Rows = dict[str, tuple[int, str]]


@dataclass(slots=True)
class Judge:
    """Compares what is at rest, by sessions of its own.

    Parameters:
        sessions: in autocommit, by site.
        plans: the snapshots of each site.
    """

    schema: Schema
    sessions: Mapping[str, Session]
    plans: Mapping[str, Sequence[Plan]]
    found: list[Violation] = field(default_factory=list)
    _blamed: set[tuple[str, str, int]] = field(default_factory=set)

    def look(self, site: str, when: str) -> None:
        """Compare all snapshots of a site, but the keys in their own logs."""
        for plan in self.plans[site]:
            here = self._base(site, plan)
            self._compare(site, plan, here, self._log(site, plan), when)

    def look_at_last(self, site: str) -> None:
        """Compare all, tables and user views; nothing may wait."""
        for plan in self.plans[site]:
            log = self._log(site, plan)
            if log:
                self._blame(0, f"{site}:{plan.name}: {sorted(log)} wait at last")
            self._compare(site, plan, self._base(site, plan), set(), "at last")
            name = sql.Identifier(plan.name)
            seen = self._rows(site, self.schema[plan.table], name, None)
            self._compare(site, plan, seen, set(), "in its view")

    def prove(self, site: Site, when: str, *, nothing: bool = False) -> None:
        """Have a check explain all differences, or find none at all."""
        for one in snapshots.check(site, "all", most=5).snapshots:
            for row in one.differences:
                if nothing or row.reason is Reason.UNEXPLAINED:
                    self._blame(0, f"check {when}, {site.name}:{one.name}: {row}")

    def violate(self, history: int, what: str) -> None:
        """Note what somebody else has found."""
        self.found.append(Violation(history, what))

    def _compare(
        self, site: str, plan: Plan, here: _Rows, log: set[str], when: str
    ) -> None:
        table = self.schema[plan.table]
        there = self._rows("hq", table, sql.Identifier(plan.table), plan.defined)
        for key in sorted({*here, *there} - log):
            mine, theirs = here.get(key), there.get(key)
            if mine == theirs:
                continue
            history, _ = mine or theirs or (0, "")
            if (site, plan.name, history) not in self._blamed:
                self._blamed.add((site, plan.name, history))
                self._blame(
                    history,
                    f"{when}, {site}:{plan.name} of {plan.table} has {mine} for {key},"
                    f" the master {theirs}; {plan.defined}",
                )

    def _blame(self, history: int, what: str) -> None:
        self.found.append(Violation(history, what))

    def _base(self, site: str, plan: Plan) -> _Rows:
        base = sql.Identifier(f"snap$_{plan.name}")
        return self._rows(site, self.schema[plan.table], base, None)

    def _rows(
        self, site: str, table: Table, name: sql.Identifier, condition: str | None
    ) -> _Rows:
        query = sql.SQL("SELECT {}::text, h, {}::text FROM {} AS {} WHERE {}").format(
            _array(table.key),
            _array(table.columns),
            name,
            sql.Identifier(table.name),
            sql.SQL(condition or "true"),
        )
        found = self.sessions[site].execute(query).fetchall()
        return {key: (history, values) for key, history, values in found}

    def _log(self, site: str, plan: Plan) -> set[str]:
        key = self.schema[plan.table].key
        numbered = _array([f"k{number}" for number, _ in enumerate(key, 1)])
        query = sql.SQL("SELECT DISTINCT {}::text FROM snaptide.{}").format(
            numbered, sql.Identifier(f"uslog$_{plan.name}")
        )
        return {key for (key,) in self.sessions[site].execute(query).fetchall()}


def _array(columns: Sequence[str]) -> sql.Composed:
    named = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("jsonb_build_array({})").format(named)
