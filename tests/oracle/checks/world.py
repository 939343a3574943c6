"""A world where checks run while users write, and pushes and refreshes go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

import deferred
import masters
import snapshots
from deferred.errors import NoSuchError, PushInterrupted, PushRunning
from masters import rules
from snapshots import CheckReport, Reason
from snapshots.check import compare, gently
from snapshots.differences import comparison
from snapshots.errors import (
    PositionMoved,
    RefreshRunning,
    UsersInTheWay,
)
from tests.linked_table import run
from tests.oracle.checks import tables, truth
from tests.oracle.checks.crowd import Pace, Work, busy
from tests.oracle.checks.plants import PLANTS, Planter, Session
from tests.oracle.checks.tables import KINDS, RESERVED, Target
from tests.oracle.checks.truth import Found
from tests.oracle.conditions import acts
from tests.oracle.conditions.acts import Pen
from tests.oracle.conditions.judge import Judge
from tests.oracle.conditions.users import Users
from tests.oracle.conditions.world import ConditionsWorld
from tests.oracle.histories.world import SITES, url
from tests.oracle.runner.played import Violation

#: How many rows, or pairs of rows, each run plants.
PLANTED = 4
#: What pushes and refreshes may be told while others are at work.
MEANWHILE = (
    PositionMoved,
    PushInterrupted,
    PushRunning,
    RefreshRunning,
    UsersInTheWay,
)
#: What users may be told who write tables beside those of the conditions.
REFUSED = (
    psycopg.errors.IntegrityError,
    psycopg.errors.WithCheckOptionViolation,
    psycopg.OperationalError,
)
#: Seconds between two transactions of a user, two pushes, two rows that are held, and
#: two that a site and its master change at once.
WRITES, PUSHES, HOLDS, CLASHES = 0.1, 1, 5, 0.6
#: What all do in so many seconds is what they do for a plant or a check, at most.
STEP = 1

#: What the story counts.
PUSHED, CONFLICTS = "transactions pushed", "transactions in conflict"
ROWS = "rows planted"
#: How a check may be made, and how often it is not made plainly.
WAYS = ("gently", "where", "by Spark's executors")
OTHERWISE = 0.3


def _one(*_: object) -> int:
    return 1


@dataclass
class ChecksWorld(ConditionsWorld):
    """The world of conditions, with more tables, and all at work at once."""

    targets: dict[str, list[Target]] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    #: sites where a plant has made the generated column an ordinary one, for good
    uncomputed: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    pace: Pace = field(init=False)
    #: transactions of sites that were in conflict, by origin and id there
    conflicts: set[tuple[str, str]] = field(default_factory=set)

    def play(self) -> list[Violation]:
        """Build it, make all runs, and see at last that all is equal."""
        self._build()
        self._build_more()
        with ExitStack() as stack:
            urls = {one.name: url(self.sites, one.name) for one in self.sites.values()}
            self.sessions = {
                name: stack.enter_context(psycopg.connect(where, autocommit=True))
                for name, where in urls.items()
            }
            self.judge = Judge(self.schema, self.sessions, self.plans)
            works = [*self._works(urls, stack)]
            with busy(works, self.failed, STEP) as self.pace:
                for history, pen in self.pens.items():
                    self._run(history, pen.chance)
            self._compute_again()
            self._operate(retry=False)
            self._settle()
        self._count_conflicts()
        return [*self.judge.found, *(Violation(0, what) for what in self.failed)]

    # --- the world ----------------------------------------------------------------

    def _build_more(self) -> None:
        hq, chance = self.sites["hq"], self.chance
        pen = Pen(RESERVED, Random(chance.random()), self.schema)
        run(hq, *tables.DDL, *(one.as_string() for one in acts.first(pen)))
        masters.create_snapshot_log(hq, tables.KINDS)
        masters.create_snapshot_log(hq, tables.KEYLESS, with_rowid=True)
        rules.set_column_group(hq, tables.KINDS, "note", ["note"])
        method = chance.choice(("overwrite", "discard"))
        rules.add_update_resolution(hq, tables.KINDS, "note", method)
        for name in SITES:
            where = chance.choice((None, "v IS DISTINCT FROM 3", "h <> 3"))
            made = [tables.kinds(where), tables.keyless()]
            for one in made:
                snapshots.create(
                    self.sites[name],
                    one.name,
                    master="hq",
                    group="all",
                    where=one.defined,
                    updatable=True,
                )
            snapshots.refresh(self.sites[name], "all")
            self.targets[name] = made + [
                tables.of_plan(self.schema, one.name, one.table, one.defined)
                for one in self.plans[name]
            ]

    def _works(
        self, urls: dict[str, str], stack: ExitStack
    ) -> Iterator[tuple[Work, float]]:
        """Who is at work: each has sessions and chances of its own."""
        readable, writable = self._open_to_users()
        for name in ("hq", *SITES):
            for work, pause in ((self._write, WRITES), (self._hold, HOLDS)):
                users = Users(urls, readable, writable, self.story)
                stack.callback(users.close)
                chance = Random(self.chance.random())
                yield partial(work, users, name, chance), pause
        for name in SITES:
            chance = Random(self.chance.random())
            yield partial(self._push_or_refresh, name, chance), PUSHES
            users = Users(urls, readable, writable, self.story)
            stack.callback(users.close)
            chance = Random(self.chance.random())
            yield partial(self._clash, users, name, chance), CLASHES
        yield partial(self._decide_errors, Random(self.chance.random())), HOLDS

    # --- what goes on -------------------------------------------------------------

    def _pen(self, chance: Random) -> Pen:
        return Pen(chance.choice([*self.pens]), chance, self.schema)

    def _write(self, users: Users, site: str, chance: Random) -> None:
        pen = self._pen(chance)
        if chance.random() < 0.6:
            self.met[pen.history] |= users.write(site, pen)
            return
        session = users.session(site)
        with suppress(*REFUSED), session.transaction():
            for statement in tables.writes(chance, pen.history):
                session.execute(statement)

    def _clash(self, users: Users, site: str, chance: Random) -> None:
        """Change a row at the master and at a site, before either knows of it."""
        statement = tables.clash(chance, chance.choice([*self.pens]))
        for name in ("hq", site):
            session = users.session(name)
            with suppress(*REFUSED), session.transaction():
                session.execute(statement.format(name=name))

    def _push(self, site: str, grouped: int = 10_000) -> None:
        """Push, and remember whose conflicts were not settled."""
        report = deferred.push(self.sites[site], group_max_calls=grouped)
        self.story.tell(f"push {site} {grouped}: {report}")
        self.story.count(PUSHED, report.transactions)
        if report.errors:
            self._meet({"parked"})
            mine = {*report.error_ids}
            parked = deferred.list_errors(self.sites["hq"])
            self.conflicts |= {
                (one.origin, one.origin_transaction)
                for one in parked
                if one.id in mine and one.reason == "conflict"
            }
        if report.conflicts_resolved:
            self._meet({"resolved"})

    def _count_conflicts(self) -> None:
        """Count transactions in conflict: settled by rules, or parked for it."""
        query = "SELECT DISTINCT origin, origin_transaction FROM {}"
        settled = run(self.sites["hq"], query.format("snaptide.resolution_record"))
        self.conflicts |= {(str(origin), str(made)) for origin, made in settled}
        self.story.count(CONFLICTS, len(self.conflicts))

    def _hold(self, users: Users, site: str, chance: Random) -> None:
        """Hold rows of a site while it is refreshed, if that comes."""
        if site == "hq":
            return
        with (
            suppress(psycopg.OperationalError),
            self._others_at_work(),
            users.holding(site, [self._pen(chance)]) as kept,
        ):
            if chance.random() < 0.3:
                kept.clear()
            self._refresh_all(site)

    def _push_or_refresh(self, site: str, chance: Random) -> None:
        with self._others_at_work():
            if chance.random() < 0.5:
                self._push(site, chance.choice((4, 10_000)))
            else:
                self._refresh_all(site)
        if chance.random() < 0.05:
            with suppress(*MEANWHILE):
                deferred.purge(self.sites[site])
                masters.purge_snapshot_logs(self.sites["hq"])

    @contextmanager
    def _others_at_work(self) -> Iterator[None]:
        """Accept what pushes and refreshes are told because of others."""
        try:
            yield
        except MEANWHILE:
            self.story.count("told that others are at work")

    def _refresh_all(self, site: str) -> None:
        report = snapshots.refresh(
            self.sites[site], "all", push_deferred_rpc=False, allow_mass_delete=True
        )
        if any(one.held_back for one in report.snapshots):
            self._meet({"held back"})

    def _decide_errors(self, chance: Random) -> None:
        """Decide about half of what is parked."""
        hq = self.sites["hq"]
        parked = [one.id for one in deferred.list_errors(hq)]
        decide = (
            deferred.retry_errors if chance.random() < 0.3 else deferred.delete_errors
        )
        # Those that are left keep others back, which then are no conflicts.
        with suppress(NoSuchError, *MEANWHILE):
            decide(hq, chance.sample(parked, -(-len(parked) // 2)))

    # --- runs ---------------------------------------------------------------------

    def _run(self, history: int, chance: Random) -> None:
        """Check under load, then plant rows and have checks find these alone."""
        self._compare(history, chance.choice(SITES), "under load")
        at = chance.choice(SITES)
        planted: list[Planter] = []
        while len(planted) < PLANTED:
            one = self._planted(history, chance, at, len(planted))
            planted += [one] if one is not None else []
        self.story.count(ROWS, len(planted))
        for site in SITES:
            if site == at or not all(one.at_site for one in planted):
                self._compare(history, site, "planted")
        for one in reversed(planted):
            one.put_back()

    def _planted(
        self, history: int, chance: Random, site: str, number: int
    ) -> Planter | None:
        """Plant something that a site differs by; None if it does not."""
        self.pace.step()
        taken = {shape.removeprefix("planted: ") for shape in self.met[history]}
        name = chance.choice([one for one in PLANTS if one not in taken])
        plant = PLANTS[name]
        fit = [one for one in self.targets[site] if plant.only in (None, one.table)]
        target = chance.choice(fit)
        before = truth.differences(self.targets[site], site, self.sessions)
        found = truth.keys(self.sessions[site], target, plant.where)
        touched = {one[2] for one in before if one[0] == target.name}
        keys = [key for key in found if key not in touched]
        if len(keys) < plant.needs:
            return None
        at_site = plant.at_site or chance.random() < 0.6
        as_refresh = at_site and not plant.first and chance.random() < 0.5
        session = self.sessions[site if at_site else "hq"]
        made = Planter(session, target, at_site, as_refresh, f"kept_{number}")
        made.keep()
        made.plant(plant, chance.sample(keys, plant.needs), chance)
        if plant.first:
            self.uncomputed.add(site)
        after = truth.differences(self.targets[site], site, self.sessions)
        new = [one for one in after - before if one[0] == target.name]
        self.story.tell(f"planted at {site}, {name}, {made}: {new}")
        as_it_says = (
            plant.kind is None
            or (one[1], one[3]) == (plant.kind.value, frozenset(plant.columns))
            for one in new
        )
        # A row of the master may leave the subset, or two may have had the same values.
        # A change as of a refresh may look like one that a trigger made meanwhile.
        noted = at_site and truth.noted(session, target) & {one[2] for one in new}
        if len(new) < plant.needs or not all(as_it_says) or noted:
            made.put_back()
            return None
        self.met[history].add(f"planted: {name}")
        return made

    def _compare(self, history: int, site: str, when: str) -> None:
        """Hold a check against what is true of the reserved rows."""
        while True:
            self.pace.step()
            before = truth.differences(self.targets[site], site, self.sessions)
            try:
                report = self._checked(history, site)
            except PositionMoved:
                self.met[history].add("refreshed again and again")
                continue
            after = truth.differences(self.targets[site], site, self.sessions)
            if before == after:
                break
        said, explained = self._told(history, site, report)
        if said != before:
            missed = [(one, explained.get(one)) for one in before - said]
            false = sorted(said - before, key=str)
            self._blame(history, f"{when}, {site}: missed {missed}, false {false}")

    def _checked(self, history: int, site: str) -> CheckReport:
        """A check as an operator may ask for it; each looks at the reserved rows."""
        drawn = self.pens[history].chance.random()
        way = WAYS[int(drawn / OTHERWISE * len(WAYS))] if drawn < OTHERWISE else None
        options: dict[str, Any] = {"gently": way == "gently"}
        what: str | list[str] = "all"
        with pytest.MonkeyPatch.context() as patch:
            if way == "where":
                what = [one.name for one in self.targets[site]]
                options["where"] = f"h = {RESERVED}"
            elif way == "by Spark's executors":
                # Of this check alone: refreshes that go on meanwhile would take long.
                few = SimpleNamespace(**{**vars(comparison), "most_rows": _one})
                patch.setattr(compare, "comparison", few)
            elif way == "gently":
                patch.setattr(gently, "LONGEST_REST", 0.01)
                patch.setattr(gently, "STEP", 0.001)
            report = snapshots.check(self.sites[site], what, most=100_000, **options)
        if way is not None:
            self.met[history].add(f"checked: {way}")
        return report

    def _told(
        self, history: int, site: str, report: CheckReport
    ) -> tuple[set[Found], dict[Found, Reason]]:
        """What a check found unexplained, and what it explained."""
        said: set[Found] = set()
        explained: dict[Found, Reason] = {}
        for one in report.snapshots:
            for count in one.counts:
                if count.reason is not Reason.UNEXPLAINED:
                    self.met[history].add(f"explained: {count.reason.value}")
            for row in one.differences:
                key = tuple(str(value) for value in row.key.values())
                found = (one.name, row.kind.value, key, frozenset(row.columns))
                if row.reason is not Reason.UNEXPLAINED:
                    explained[found] = row.reason
                elif not self._drifted(site, found):
                    said.add(found)
        return said, explained

    def _drifted(self, site: str, found: Found) -> bool:
        """Whether a row of a user differs by a column that its site computed before."""
        name, _, key, columns = found
        return (
            site in self.uncomputed
            and (name, columns) == (KINDS, frozenset({"twice"}))
            and int(key[0]) // 100 in self.pens
        )

    def _compute_again(self) -> None:
        """Mend rows that drifted: no refresh looks at them if nobody changes them.

        A refresh may have begun before the column was made an ordinary one, and have
        brought a row afterwards, without its value.
        """
        for site in sorted(self.uncomputed):
            target = next(one for one in self.targets[site] if one.name == KINDS)
            mended = Planter(self.sessions[site], target, True, False, "")
            mended.change(f"UPDATE {mended.table} SET twice = v * 2")

    def _blame(self, history: int, what: str) -> None:
        self.story.tell(f"  wrong: {what}")
        self.judge.violate(history, what)
