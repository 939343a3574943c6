"""Judges masters whose rules do not converge: rows may differ, but not in silence."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import deferred
from deferred.parked import differing
from groups.differences import differences
from sites import Directory, Site
from snaptide.doctor import captures, guarded
from snaptide.doctor.finding import Finding
from tests.linked_table import run
from tests.oracle.histories.ledger import Effect
from tests.oracle.histories.users import Users
from tests.oracle.runner.played import Violation
from tests.oracle.story import Story

#: A row by its table and key.
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PeersJudge:
    """Judges all histories of a world once it is quiet.

    Parameters:
        receipts: by history, of all transactions.
        effects: by history, what transactions have changed.
        forwards: a master sends on what it gets, unless it has parked it.
        met: by history, the shapes that occurred, to be completed.
    """

    sites: Directory
    users: Users
    story: Story
    histories: Collection[int]
    receipts: Sequence[tuple[int, str]]
    effects: Mapping[int, Sequence[Effect]]
    forwards: bool
    met: defaultdict[int, set[str]]

    def judged(self) -> Iterator[Violation]:
        """What nobody was told of."""
        self._count_methods()
        told = {name: self._told(name) for name in self.sites}
        every = set().union(*told.values())
        self.story.tell(f"told of all rows: {sorted(t for t, k in every if k == '*')}")
        for name in self.sites:
            yield from self._arrivals(name, every if self.forwards else told[name])
        recorded = every.union(*(self._recorded(name) for name in self.sites))
        for history in self.histories:
            yield from self._rows(history, every)
            yield from self._vanished(history, recorded)

    def _count_methods(self) -> None:
        for name in self.sites:
            for method, key in run(
                self.sites[name],
                "SELECT DISTINCT method, (row_key ->> 'id')::int"
                " FROM snaptide.resolution_record",
            ):
                self.met[key // 10].add(f"masters: settled by {method}")

    def _told(self, name: str) -> set[_Key]:
        """Rows that an error queue or the list of a master names; ("t", "*") is all."""
        master = self.sites[name]
        found: set[_Key] = set()
        for error in deferred.list_errors(master):
            parked = deferred.show_error(master, error.id)
            if parked.procedures:
                found.add(("counter", f"{history_of(parked.calls)}0"))
            for call in parked.calls:
                images = [image for image in (call.old, call.new) if image]
                table = call.table.rpartition(".")[2]
                found |= {(table, str(image["id"])) for image in images}
        with master.session() as connection:
            listed = differing.listed(connection)
        found |= {
            (one.table.name, str(one.key["id"]) if one.key else "*") for one in listed
        }
        found |= {(one.table, "*") for one in differences(master) if one.rows is None}
        return found | {("part", "*") for _ in untriggered(master)}

    def _arrivals(self, name: str, told: set[_Key]) -> Iterator[Violation]:
        there = Counter(
            str(i) for (i,) in run(self.sites[name], "SELECT id FROM receipt")
        )
        for history, receipt in self.receipts:
            known = {("receipt", receipt), ("receipt", "*")} & told
            if not there[receipt] and not known:
                yield Violation(history, f"{receipt} is not at {name}: nobody was told")

    def _rows(self, history: int, told: set[_Key]) -> Iterator[Violation]:
        """By key: one that is edited may bring a row again under its token."""
        rows = {
            name: {
                (table, str(row["id"])): row
                for (table, _), row in self.users.rows(name, history).items()
            }
            for name in self.sites
        }
        for key in sorted({key for some in rows.values() for key in some}):
            images = {name: some.get(key) for name, some in rows.items()}
            known = {key, (key[0], "*")} & told
            if any(one != images["a"] for one in images.values()) and not known:
                yield Violation(history, f"{key}: nobody was told of {images}")

    def _recorded(self, name: str) -> set[_Key]:
        """Rows that the records of a master name."""
        found: set[_Key] = set()
        for table, reason, *keys in run(
            self.sites[name],
            "SELECT table_name, reason, row_key ->> 'id', new_values ->> 'id',"
            " result_values ->> 'id' FROM snaptide.resolution_record",
        ):
            found |= {(str(table), str(key)) for key in keys}
            found |= set(re.findall(r"(\w+) \((\d+),", reason or ""))
        return found

    def _vanished(self, history: int, told: set[_Key]) -> Iterator[Violation]:
        """No row is gone everywhere that nobody has deleted."""
        there = {
            place for name in self.sites for place in self.users.rows(name, history)
        }
        keys, deleted = defaultdict(set), set()
        for effect in self.effects[history]:
            for place, change in effect.items():
                if change.after is None:
                    deleted.add(place)
                else:
                    keys[place].add((place[0], str(change.after["id"])))
        for place in keys.keys() - deleted - there:
            if not {*keys[place], (place[0], "*")} & told:
                yield Violation(history, f"{place} is gone: nobody was told")


def untriggered(master: Site) -> list[Finding]:
    """The triggers that tables of a master lack."""
    with master.transaction() as connection:
        return [
            *captures.check(connection, master.name),
            *guarded.check(connection, master.name),
        ]


def history_of(calls: Sequence[deferred.ErrorCall]) -> int:
    """The history that a parked transaction is of."""
    for call in calls:
        image = call.new or call.old or {}
        if image.get("h"):
            return int(str(image["h"]))
        if call.table.endswith("receipt"):
            return int(str(image["id"]).partition("-")[0])
    raise AssertionError(calls)
