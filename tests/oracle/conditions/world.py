"""A world: a master and two sites, users, pushes, refreshes, DDL, a judge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from random import Random

import psycopg
from psycopg import sql

import deferred
import masters
import snapshots
from masters import rules
from sites import Directory
from sites.faults import InjectedFault
from snapshots.definitions.errors import NeedsParent
from snapshots.reports import SnapshotReport
from tests.linked_table import run
from tests.oracle.conditions import acts, plans, schema
from tests.oracle.conditions.acts import Pen
from tests.oracle.conditions.alter import alterations
from tests.oracle.conditions.judge import Judge
from tests.oracle.conditions.logs import Logs
from tests.oracle.conditions.plans import Plan
from tests.oracle.conditions.schema import Schema
from tests.oracle.conditions.users import Users
from tests.oracle.histories.world import SITES, url
from tests.oracle.moments import at_nth_point
from tests.oracle.runner.played import Violation
from tests.oracle.story import Story

ROUNDS = 8
#: How often everything is pushed and refreshed before all must agree.
LAST = 5
#: One of so many histories ends with changes that no others come with.
ALONE = 8


@dataclass
class ConditionsWorld:
    """The sites, and what happens there.

    Parameters:
        chance: draws what concerns all histories.
        pens: by history, what draws for it alone.
    """

    sites: Directory
    chance: Random
    pens: Mapping[int, Pen]
    story: Story
    schema: Schema
    met: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    plans: dict[str, list[Plan]] = field(default_factory=dict)
    users: Users = field(init=False)
    judge: Judge = field(init=False)
    logs: Logs = field(init=False)
    #: by site, tables and snapshots that no fast refresh can follow since its last one
    altered: dict[str, set[str]] = field(default_factory=lambda: _none())
    #: receipts of what operators have given up
    given_up: set[str] = field(default_factory=set)

    def play(self) -> list[Violation]:
        """Build it, play all histories, and judge them."""
        self._build()
        self._meet(schema.shapes(self.schema))
        with ExitStack() as stack:
            urls = {one.name: url(self.sites, one.name) for one in self.sites.values()}
            sessions = {
                name: stack.enter_context(psycopg.connect(where, autocommit=True))
                for name, where in urls.items()
            }
            self.judge = Judge(self.schema, sessions, self.plans)
            self.users = Users(urls, *self._open_to_users(), self.story)
            stack.callback(self.users.close)
            for site in SITES:
                self.judge.look(site, "at first")
            for _ in range(ROUNDS):
                self._round()
            self._settle()
            self._alone()
            self._account()
        return self.judge.found

    # --- the world ----------------------------------------------------------------

    def _build(self) -> None:
        hq, names = self.sites["hq"], self.schema.names
        run(hq, *(statement for one in self.schema.tables for statement in one.ddl()))
        run(hq, "CREATE TABLE receipt (id text PRIMARY KEY, site text NOT NULL)")
        first = [s for pen in self.pens.values() for s in acts.first(pen)]
        run(hq, sql.SQL(";\n").join(first).as_string())
        self.logs = Logs(hq, self.schema, self.story)
        self._meet(self.logs.create())
        masters.create_snapshot_log(hq, "receipt")
        for table in names:
            self._decide(table)
        for site in SITES:
            made = plans.draw(self.schema, self.chance)
            self.plans[site] = [self._created(site, plan) for plan in made]
            mine = f"site = '{site}'"
            snapshots.create(
                self.sites[site],
                "receipt",
                master="hq",
                group="all",
                where=mine,
                updatable=True,
            )
            snapshots.refresh(self.sites[site], "all")
            self._meet(plans.shapes(self.plans[site]))

    def _created(self, site: str, plan: Plan) -> Plan:
        """Create a snapshot; read-only if the site lacks what it asks."""
        for updatable in (True, False) if plan.updatable else (False,):
            self.story.tell(
                f"{site}: {plan.name} of {plan.table} where {plan.where},"
                f" follow {plan.follow}, updatable {updatable}"
            )
            try:
                snapshots.create(
                    self.sites[site],
                    plan.name,
                    master="hq",
                    table=plan.table,
                    group="all",
                    where=plan.where,
                    follow=plan.follow,
                    updatable=updatable,
                    leaving=self._leaving(site, plan, updatable=updatable),
                )
            except NeedsParent as error:
                self.story.tell(f"  {error}")
                if not updatable:
                    raise
                self._meet({"needs a parent"})
                continue
            self._meet({"updatable" if updatable else "read-only"})
            return replace(plan, updatable=updatable)
        raise AssertionError("one of them is created")

    def _leaving(self, site: str, plan: Plan, *, updatable: bool) -> str:
        """What becomes of rows that leave; nothing is drawn, so that histories stay."""
        every = ["keep", "park", "freeze", "drain"] if updatable else ["keep", "drain"]
        made = len(site) + len(str(plan.where)) + self.schema.names.index(plan.table)
        policy = every[made % len(every)]
        self._meet({f"leaving: {policy}"})
        return policy

    def _decide(self, table: str) -> None:
        hq, keys = self.sites["hq"], self.schema[table].key
        columns = [c for c in self.schema[table].columns if c not in keys]
        drawn = self.chance.choice(("", "", "overwrite", "discard"))
        if drawn:
            rules.set_column_group(hq, table, "all", columns)
            rules.add_update_resolution(hq, table, "all", drawn)
        drawn = self.chance.choice(("", "", "ignore", "restore"))
        if drawn:
            rules.add_delete_resolution(hq, table, drawn)

    def _open_to_users(self) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        """By site, the tables that users see, and those that they may write."""
        readable, writable = {"hq": {*self.schema.names}}, {"hq": {*self.schema.names}}
        for site in SITES:
            mine = [plan for plan in self.plans[site] if plan.name == plan.table]
            readable[site] = {plan.table for plan in mine}
            writable[site] = {plan.table for plan in mine if plan.updatable}
        return readable, writable

    def _meet(self, shapes: set[str]) -> None:
        for history in self.pens:
            self.met[history] |= shapes

    # --- rounds -------------------------------------------------------------------

    def _round(self) -> None:
        for one in alterations(self.schema, self.chance):
            if one.done(self.sites["hq"], self.story):
                self._meet({one.name})
                for site in SITES:
                    self.altered[site] |= one.touches
                self.users.close()
        self._meet(self.logs.alter())
        for pen in self.pens.values():
            if pen.chance.random() < 0.85:
                self._act(pen)
        for site in SITES:
            if self.chance.random() < 0.06:
                self._alter(site)
            self._meanwhile(site)
        drawn = self.chance.random()
        if drawn < 0.3:
            self._operate(retry=drawn < 0.15)

    def _alter(self, site: str) -> None:
        """Give a snapshot another condition, and what follows it with it."""
        mine = self.plans[site]
        number = self.chance.randrange(len(mine))
        drawn = plans.drawn(self.schema, self.chance, mine[number].table, mine[:number])
        made = replace(drawn, name=mine[number].name, updatable=mine[number].updatable)
        self.story.tell(f"{site}: {made.name} where {made.where}, follow {made.follow}")
        try:
            altered = snapshots.alter_condition(
                self.sites[site], made.name, where=made.where, follow=made.follow
            )
        except NeedsParent as error:
            self.story.tell(f"  {error}")
            return
        mine[number] = made
        self._meet({"condition altered", *made.met})
        by_name = {one.name: one.condition for one in altered}
        for n, plan in enumerate(mine):
            if plan.name in by_name:
                self.altered[site].add(f"snapshot {plan.name}")
            if plan.name in by_name and n != number:
                self.story.tell(f"  {plan.name} follows: {by_name[plan.name]}")
                asks = plan.asks | made.asks
                mine[n] = replace(plan, defined=by_name[plan.name], asks=asks)
                self._meet({"condition altered with another"})

    def _act(self, pen: Pen) -> None:
        site = pen.chance.choice(("hq", "hq", "hq", *SITES))
        self.met[pen.history] |= self.users.write(site, pen)

    def _meanwhile(self, site: str) -> None:
        drawn = [self.chance.random() for _ in range(5)]
        grouped = self.chance.choice((0, 4, 10_000))
        if drawn[0] < 0.55:
            if drawn[1] < 0.2:
                self._broken(lambda: self._push(site, grouped), "push")
            self._push(site, grouped)
        if drawn[2] < 0.6:
            if drawn[3] < 0.25:
                self._broken(lambda: self._refreshed(site, "?"), "refresh")
            self._refresh(site)
        if drawn[4] < 0.1:
            self.story.tell(f"purge {site}")
            deferred.purge(self.sites[site])
            masters.purge_snapshot_logs(self.sites["hq"])

    def _broken(self, work: Callable[[], None], name: str) -> None:
        """A push or refresh that ends at a fault point, as if it had been killed."""
        at = self.chance.randint(1, 14)
        with at_nth_point(at, lambda: None, fails=True) as moment:
            try:
                work()
            except InjectedFault:
                self.story.tell(f"  killed at {moment.point}")
                self._meet({f"kill in a {name}"})

    def _push(self, site: str, grouped: int = 10_000) -> None:
        self.story.tell(f"push {site} {grouped}")
        report = deferred.push(self.sites[site], group_max_calls=grouped)
        self.story.tell(f"  {report}")
        if report.errors:
            self._meet({"parked"})
        if report.conflicts_resolved:
            self._meet({"resolved"})

    def _refresh(self, site: str) -> None:
        """Refresh a site while users hold rows, write, or rest; then compare."""
        self.judge.prove(self.sites[site], "before a refresh")
        drawn = [self.chance.random() for _ in range(3)]
        method = "c" * len(self.plans[site]) if drawn[0] < 0.07 else "?"
        if drawn[1] < 0.1:
            at = self.chance.randint(1, 12)
            with at_nth_point(at, self._interrupt) as moment:
                self._refreshed(site, method)
            self._meet({"writes during a refresh"} if moment.point else set())
            return
        pens = [pen for pen in self.pens.values() if pen.chance.random() < 0.15]
        if drawn[1] > 0.35:
            self._refreshed(site, method)
            self.judge.look(site, "after a refresh")
            return
        with self.users.holding(site, pens) as kept:
            self._refreshed(site, method)
            self.judge.look(site, "while users hold rows")
            self.judge.prove(self.sites[site], "while users hold rows")
            for receipt in kept:
                self.met[int(receipt.partition("-")[0])].add("held by a user")
            if drawn[2] < 0.4:
                kept.clear()

    def _interrupt(self) -> None:
        self.story.tell("  meanwhile")
        for pen in self.pens.values():
            if pen.chance.random() < 0.2:
                self._act(pen)

    def _refreshed(self, site: str, method: str) -> None:
        self.story.tell(f"refresh {site} {method}")
        report = snapshots.refresh(
            self.sites[site],
            "all",
            push_deferred_rpc=False,
            allow_mass_delete=True,
            method=method,
        )
        by_name = {one.name: one for one in report.snapshots}
        for plan in self.plans[site]:
            self._see(site, plan, by_name[plan.name], method)
        self.altered[site] = set()

    def _see(self, site: str, plan: Plan, one: SnapshotReport, method: str) -> None:
        self.story.tell(f"  {one}")
        if one.held_back:
            self._meet({"held back"})
        if plan.asks and one.method == "fast" and (one.inserted or one.deleted):
            self._meet({"rows of a child came or left"})
        if one.method == "fast":
            return
        self._meet({f"refreshed {one.method}"})
        reasons = {plan.table, *plan.asks, f"snapshot {plan.name}"}
        if method == "?" and not self.altered[site] & reasons:
            self.judge.violate(0, f"{site}:{plan.name} was {one.method} for no reason")

    # --- operators, and the end ---------------------------------------------------

    def _operate(self, *, retry: bool) -> None:
        """Operators retry what is parked, or give it up."""
        hq = self.sites["hq"]
        parked = run(hq, "SELECT id FROM snaptide.error_transaction ORDER BY id")
        if not parked:
            return
        self.story.tell(f"{'retry' if retry else 'give up'} {parked}")
        numbers = [int(number) for (number,) in parked]
        if retry:
            deferred.retry_errors(hq, numbers)
        else:
            self.given_up |= self._parked_receipts()
            deferred.delete_errors(hq, numbers)

    def _parked_receipts(self) -> set[str]:
        found = run(
            self.sites["hq"],
            "SELECT new_values ->> 'id' FROM snaptide.error_call"
            " WHERE target_table = 'receipt'",
        )
        return {str(receipt) for (receipt,) in found}

    def _settle(self) -> None:
        """Push and refresh until nothing is left to do, and compare all."""
        self.story.tell("quiet")
        for _ in range(LAST):
            for site in SITES:
                # What was withdrawn goes back into the queue.
                for one in deferred.retry_errors(self.sites[site]):
                    self.story.tell(f"put back at {site}: {one}")
                    self._meet({"put back"})
                self._push(site)
            self._operate(retry=False)
            for site in SITES:
                self._refreshed(site, "?")
                self.judge.look(site, "when quiet")
        for site in SITES:
            self.judge.look_at_last(site)
            self.judge.prove(self.sites[site], "at last", nothing=True)

    def _alone(self) -> None:
        """Few users of the master write, each alone before a refresh."""
        self.story.tell("alone")
        for history, pen in self.pens.items():
            if history % ALONE == 0:
                self.met[history] |= self.users.write("hq", pen)
                self._seen_alone()
        # A table that conditions ask, and nothing else: of some the site has no rows.
        asked = (one.asks for mine in self.plans.values() for one in mine)
        for name in sorted({*chain.from_iterable(asked)}):
            flip = f"UPDATE {name} SET v = CASE WHEN v = 1 THEN 2 ELSE 1 END"
            self.story.tell(f"hq: {flip}")
            run(self.sites["hq"], flip)
            has = [{one.table for one in mine} for mine in self.plans.values()]
            everywhere = all(name in tables for tables in has)
            self._meet({"only a parent" if everywhere else "only a parent elsewhere"})
            self._seen_alone()

    def _seen_alone(self) -> None:
        for site in SITES:
            self._refreshed(site, "?")
            self.judge.look(site, "after a change alone")

    def _account(self) -> None:
        """Each transaction of a site has come once, or operators have given it up."""
        there = {str(one) for (one,) in run(self.sites["hq"], "SELECT id FROM receipt")}
        for receipt, (site, history) in self.users.deeds.items():
            if (receipt in there) == (receipt in self.given_up):
                what = "given up and there" if receipt in there else "lost"
                self.judge.violate(history, f"{site}'s transaction {receipt} is {what}")


def _none() -> dict[str, set[str]]:
    return {site: set() for site in SITES}
