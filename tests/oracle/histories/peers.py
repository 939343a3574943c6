"""A world of masters whose rules do not converge, or that have none.

What meets is parked and decided upon, or settled at each master in its own way. Rows
may differ between masters when it is quiet, but not in silence: an error queue holds a
change of the row, or the list of rows that may differ names it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import deferred
import groups
from deferred.errors import BadSkip, NoSuchError, PushInterrupted
from deferred.pushing.push import destinations
from groups.differences import differences
from groups.errors import CannotDrain
from sites import Directory
from sites.faults import InjectedFault
from tests.linked_table import run
from tests.oracle.histories import peers_tables as tables
from tests.oracle.histories.acts import Pen, Statement
from tests.oracle.histories.ledger import Effect, Rows
from tests.oracle.histories.peers_judge import PeersJudge, history_of, untriggered
from tests.oracle.histories.users import Refusal, Users
from tests.oracle.histories.world import url
from tests.oracle.moments import at_nth_point
from tests.oracle.runner.played import Violation
from tests.oracle.story import Story

GROUP = "peers"
MASTERS = ("a", "b", "c")
ROUNDS = 8
#: Shapes of this kind of world.
SHAPES = frozenset(
    {
        *(f"masters: on delete {one.lower()}" for one in tables.ACTIONS),
        *(f"masters: trigger {what}" for what in tables.TRIGGERS if what),
        *(
            f"masters: {what}"
            for what in (
                "delete",
                "key change",
                "parked",
                "retried",
                "retried in vain",
                "edited",
                "left out",
                "deleted",
                "swapped names",
                "statement on a partition",
                "partition that is away",
                "partition that changed while away",
                "reference to its own table",
                "procedure",
                "push broken off",
            )
        ),
        *(
            f"masters: settled by {method}"
            for method in {*tables.UPDATES, *tables.DELETES, *tables.UNIQUES} - {""}
        ),
    }
)
#: About a parked transaction. What stands here often happens often.
DECISIONS = (
    "",
    *("retry", "retry", "retry"),
    *("edit", "edit", "edit"),
    *("leave out", "leave out"),
    "delete",
)
#: A row by its table and key.
_Key = tuple[str, str]


@dataclass
class PeersWorld:
    """Three masters whose users write the same few rows, and operators.

    Parameters:
        chance: draws what concerns all histories.
        pens: by history, what draws for it alone.
    """

    sites: Directory
    chance: Random
    pens: Mapping[int, Pen]
    story: Story
    met: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    users: Users = field(init=False)
    #: receipts by history
    receipts: list[tuple[int, str]] = field(default_factory=list)
    #: by history, what transactions have changed
    effects: defaultdict[int, list[Effect]] = field(
        default_factory=lambda: defaultdict(list)
    )
    #: the second master sends on what it gets, unless it has parked it
    _forwards: bool = False
    #: masters that have no partition
    _away: set[str] = field(default_factory=set)
    #: the one whose operators do not let the procedure run, where some do not
    _closed: str = ""
    _closes: bool = False
    #: users call a procedure: whatever comes after one that is parked waits for it
    _calls: bool = False
    #: calls are given up: then all rows are listed, and nothing more is to be seen
    _gives_up: bool = False

    def play(self) -> list[Violation]:
        """Build it, play all histories, and judge them."""
        self._build()
        urls = {one.name: url(self.sites, one.name) for one in self.sites.values()}
        self.users = Users(urls, (*tables.TABLES, "counter"), {}, self.story)
        try:
            for number in range(ROUNDS):
                if number and self.chance.random() < 0.25:
                    self._alter()
                self._move_part(self.chance.choice(MASTERS))
                self._allow(self.chance.choice(("", "", *MASTERS)))
                for pen in self.pens.values():
                    for _ in range(pen.chance.randint(0, 3)):
                        self._act(pen)
                for name in self.chance.sample(MASTERS, 2):
                    self._push(name, self.chance.choice((0, 0, 0, 3, 9)))
                for name in MASTERS:
                    self._operate(name)
            self._push_all()
            return [*self._judge().judged()]
        finally:
            self.users.close()

    def _build(self) -> None:
        action, own, trigger = tables.draw(self.chance)
        parts = [self.chance.choice(tables.PARTS) for _ in MASTERS]
        self.story.tell(f"on delete {action}, {own}; trigger {trigger}; {parts}")
        self._all_met(f"masters: on delete {action.lower()}")
        if trigger:
            self._all_met(f"masters: trigger {trigger}")
        for name, part in zip(MASTERS, parts, strict=True):
            run(self.sites[name], *tables.ddl(action, own, trigger, part))
            deferred.allow_procedure(self.sites[name], "add_one")
        home = self.sites["a"]
        groups.create_group(home, GROUP)
        for table in (*tables.TABLES, "counter", "receipt"):
            groups.add_table(home, GROUP, table)
        for name in MASTERS[1:]:
            groups.add_master(home, GROUP, name)
        if self.chance.random() < 0.75:
            for name in MASTERS:
                given = tables.rule(self.chance, self.sites[name])
                self.story.tell(f"{name}: rules {given}")
        self._forwards = self.chance.random() < 0.5
        self._calls = self.chance.random() < 0.25
        self._closes = self.chance.random() < 0.5
        self._gives_up = self.chance.random() < 0.1
        groups.set_paths(
            home, GROUP, groups.chain if self._forwards else groups.full_mesh
        )
        run(home, *(s.as_string() for h in self.pens for s in tables.first(h)))
        self._push_all()

    # --- what happens -------------------------------------------------------------

    def _meet(self, pen: Pen) -> None:
        """Users of two masters do what cannot both be."""
        first, second = pen.chance.sample(MASTERS, 2)
        what = pen.chance.choice(tables.MEETINGS)
        then: list[Statement] = []

        def write(rows: Rows) -> Sequence[Statement]:
            pen.rows = rows
            mine, theirs = tables.meeting(pen, what)
            then.extend(theirs)
            return mine

        self._write(pen, first, write)
        self._write(pen, second, lambda _rows: then)

    def _act(self, pen: Pen) -> None:
        if pen.chance.random() < 0.3:
            self._meet(pen)
            return
        who, met = pen.chance.choice(MASTERS), self.met[pen.history]
        what = pen.chance.choice(tables.ACTS)
        leaf = pen.chance.random() < 0.5
        if what == "call" and self._calls:
            self._call(pen, who)
            return

        def write(rows: Rows) -> Sequence[Statement]:
            pen.rows = rows
            return tables.statements(pen, what, leaf=leaf)

        effect = self._write(pen, who, write)
        if not effect:
            return
        if what in ("delete", "key change"):
            met.add(f"masters: {what}")
        if leaf and any(table == "part" for table, _ in effect):
            met.add("masters: statement on a partition")
        if any(table == "person" for table, _ in effect):
            met.add("masters: reference to its own table")

    def _write(
        self, pen: Pen, who: str, write: Callable[[Rows], Sequence[Statement]]
    ) -> Effect:
        """A transaction of a user; what it has changed, if it was not refused."""
        done, _ = self.users.write(who, pen.history, write)
        if isinstance(done, Refusal) or not done.effect:
            return {}
        self.receipts.append((pen.history, done.receipt))
        self.effects[pen.history].append(done.effect)
        return done.effect

    def _call(self, pen: Pen, who: str) -> None:
        """A transaction that calls a procedure, which adds one at every master."""
        here = pen.chance.random() < 0.5
        receipt = f"{pen.history}-{pen.token()}"
        self.story.tell(f"{who}: calls add_one({pen.history}), here: {here}; {receipt}")
        with self.sites[who].begin() as connection:
            connection.exec_driver_sql(
                "INSERT INTO receipt VALUES (%s, %s)", (receipt, who)
            )
            deferred.call(connection, "add_one", [pen.history], here=here)
        self.receipts.append((pen.history, receipt))
        self.met[pen.history].add("masters: procedure")

    def _allow(self, closed: str) -> None:
        """Another master, or none, does not let the procedure run."""
        if self._closed:
            deferred.allow_procedure(self.sites[self._closed], "add_one")
            self._closed = ""
        if closed and self._closes:
            self.story.tell(f"{closed}: allows add_one no more")
            deferred.revoke_procedure(self.sites[closed], "add_one")
            self._closed = closed

    def _alter(self) -> None:
        """Two columns exchange their names, or a partition goes and comes back.

        The group is closed to users.
        """
        home = self.sites["a"]
        moves = not self._away and self.chance.random() < 0.3
        ddl = f"{tables.AWAY}; {tables.BACK}" if moves else tables.SWAP
        self.story.tell(ddl)
        self.users.close()
        try:
            groups.suspend(home, GROUP)
            groups.execute_ddl(home, GROUP, ddl)
            self._all_met(
                "masters: " + ("partition that is away" if moves else "swapped names")
            )
        except CannotDrain as error:
            self.story.tell(f"  {error}")
        groups.resume(home, GROUP)

    def _move_part(self, name: str) -> None:
        """The partition of one master leaves, changes or comes back."""
        what = self.chance.choice((*[""] * 12, "change", "change", "other", "nothing"))
        # Those of many users: a partition is rarely away.
        changed = [one for one in self.pens if self.chance.random() < 0.5]
        if not what and name not in self._away:
            return
        before = [] if name in self._away else [tables.AWAY]
        meanwhile = {
            "change": [
                f"UPDATE part_low SET note = 'away' WHERE h = {h}" for h in changed
            ],
            "other": [tables.OTHER],
        }.get(what, [])
        back = [tables.BACK] if self.chance.random() < 0.6 else []
        for statement in (*before, *meanwhile, *back):
            self.story.tell(f"{name}: {statement}")
            run(self.sites[name], statement)
        self._away.discard(name)
        if not back:
            self._away.add(name)
        self._all_met("masters: partition that is away")
        if what == "change":
            for history in changed:
                self.met[history].add("masters: partition that changed while away")

    def _push(self, name: str, at: int = 0) -> int:
        moved = 0
        for to in destinations(self.sites[name]):
            self.story.tell(f"push {name} to {to}" + (f", fails at {at}" if at else ""))
            if not at:
                report = deferred.push(self.sites[name], to)
                self.story.tell(f"  {report}")
                moved += report.transactions
                continue
            with (
                at_nth_point(at, lambda: None, fails=True) as moment,
                suppress(InjectedFault, PushInterrupted),
            ):
                deferred.push(self.sites[name], to)
            if moment.point:
                self.story.tell(f"  broken off at {moment.point}")
                self._all_met("masters: push broken off")
        return moved

    def _push_all(self) -> None:
        while sum(self._push(name) for name in MASTERS):
            pass

    def _operate(self, name: str) -> None:
        """Somebody decides about parked transactions of a master, or not yet."""
        master = self.sites[name]
        if self.chance.random() < 0.3:
            self._see_a_doctor(name)
        for error in deferred.list_errors(master):
            with suppress(NoSuchError):  # gone with one that it waited for
                self._decide(name, deferred.show_error(master, error.id))

    def _see_a_doctor(self, name: str) -> None:
        """Compare tables in which any row may differ, and create triggers that lack."""
        self.story.tell(f"{name}: {differences(self.sites[name], tables=True)}")
        for finding in untriggered(self.sites[name]):
            command, _, _ = finding.todo.partition("; then ")
            self.story.tell(f"{name}: {command}")
            run(self.sites[name], *command.split("; "))

    def _decide(self, name: str, error: deferred.ErrorTransaction) -> None:
        number, calls, history = error.id, error.calls, history_of(error.calls)
        pen, met = self.pens[history], self.met[history]
        met.add("masters: parked")
        what = pen.chance.choice(DECISIONS)
        # Who gives up a call has all rows listed, and nothing more is to be seen.
        gives_up = what in ("edit", "delete") and not self._gives_up
        if error.procedures and (gives_up or what == "leave out"):
            what = "retry"
        if not what:
            return
        self.story.tell(f"{name}: {what} {number}")
        if what == "delete":
            deferred.delete_errors(self.sites[name], [number])
            met.add("masters: deleted")
            return
        if what == "leave out":
            with suppress(BadSkip):  # it has no other call to apply
                self._leave_out(name, error, pen)
            return
        edits = _edits(calls, pen) if what == "edit" else []
        [report] = deferred.retry_errors(self.sites[name], [number], edits=edits)
        self.story.tell(f"  {report}")
        done = "edited" if edits else "retried"
        met.add(f"masters: {done if report.applied else 'retried in vain'}")

    def _leave_out(self, name: str, error: deferred.ErrorTransaction, pen: Pen) -> None:
        """Retry without one of the calls, which stays parked."""
        call = pen.chance.choice(error.calls).call_no
        self.story.tell(f"  without call {call}")
        [report] = deferred.retry_errors(self.sites[name], [error.id], skip=[call])
        self.story.tell(f"  {report}")
        done = "left out" if report.applied else "retried in vain"
        self.met[pen.history].add(f"masters: {done}")

    def _judge(self) -> PeersJudge:
        return PeersJudge(
            sites=self.sites,
            users=self.users,
            story=self.story,
            histories=self.pens,
            receipts=self.receipts,
            effects=self.effects,
            forwards=self._forwards,
            met=self.met,
        )

    def _all_met(self, what: str) -> None:
        for history in self.pens:
            self.met[history].add(what)


def _edits(calls: Sequence[deferred.ErrorCall], pen: Pen) -> list[deferred.Edit]:
    """What may let rows in: other notes and codes, and references to nobody."""
    return [
        deferred.Edit(call=call.call_no, column=column, value=value)
        for call in calls
        for column, value in (
            ("note", pen.token()),
            ("code", pen.token()),
            ("parent_id", None),
            ("above", None),
        )
        if call.new is not None and column in call.new
    ]
