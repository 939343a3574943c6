"""Holds what the master did against what users did and what they were told.

Each change of a row of the master is somebody's: a user's of the master, or that of a
site's transaction whose receipt came with it, or which an operator has tried again.
What comes of a site's transaction is what it was at the site, row by row and column by
column; where it is not, there is a record of it, or the row is in the error queue.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal

from tests.oracle.histories.ledger import (
    Change,
    Deed,
    Effect,
    Place,
    References,
    Row,
    Rows,
    composed,
    difference,
    resolved,
    twin,
)
from tests.oracle.histories.told import Entry, Named, Record, Told
from tests.oracle.runner.played import Violation

#: By history and row, columns and what they have had there.
_Keys = defaultdict[tuple[int, Place], set[tuple[str, object]]]


@dataclass(slots=True)
class Judge:
    """Judges all histories of a world once it is quiet.

    Parameters:
        deeds: what users of sites have committed, in order.
        own: transactions of the master's own users.
        tried: of each transaction of the master in which an operator tried something
            again, what that was.
        free: by table, columns that triggers of the master write.
    """

    told: Told
    deeds: Sequence[Deed]
    own: set[str]
    tried: Mapping[str, list[Deed]]
    references: References
    free: Mapping[str, set[str]]
    found: list[Violation] = field(default_factory=list)
    #: what was seen in each history, to be counted
    seen: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    records: Mapping[Named, Sequence[Record]] = field(init=False)
    #: by site, table and key of a row, the transactions with a conflict settled there
    settled: Mapping[tuple[str, str, str], Sequence[str]] = field(init=False)
    #: by site and transaction, what foreign keys were allowed to change
    taken_along: Mapping[tuple[str, str], str] = field(init=False)
    #: by history and row, the keys and codes that users of sites have given it
    given: _Keys = field(default_factory=lambda: defaultdict(set))
    #: by history and row, the keys and codes that it has had at the master
    had: _Keys = field(default_factory=lambda: defaultdict(set))

    def judge(self) -> list[Violation]:
        """All violations."""
        self._receipts()
        for deed in self.deeds:
            for place, change in deed.effect.items():
                self.given[deed.history, place] |= _named_by(change.after)
        self.records = self.told.records()
        self.settled = _settled(self.records)
        self.taken_along = self.told.taken_along()
        self._count_methods()
        arrived = defaultdict(list)
        came = dict(self.told.arrivals())
        for deed in self.deeds:  # in their order, whatever that of their receipts is
            if deed.receipt in came:
                arrived[came[deed.receipt]].append(deed)
        masters: defaultdict[int, Rows] = defaultdict(dict)
        for transaction, entries in _transactions(self.told.entries(), [*arrived]):
            self._transaction(transaction, entries, arrived[transaction], masters)
        return self.found

    def _count_methods(self) -> None:
        histories = {(d.site, d.transaction): d.history for d in self.deeds}
        for (site, transaction, table, _), records in self.records.items():
            history = histories.get((site, transaction))
            if history is None:
                continue
            for record in records:
                self.seen[history].add(f"method {record.method}")
                if table == "orders" and record.kind == "uniqueness":
                    gone = record.method == "discard"
                    what = "discarded" if gone else "renamed"
                    self.seen[history].add(f"parent {what}")

    def _receipts(self) -> None:
        """Each transaction has come once, or is parked, or was given up."""
        there = Counter(r for r, _ in self.told.arrivals())
        there.update(self.told.parked_receipts())
        for deed in self.deeds:
            times = there[deed.receipt] + deed.given_up
            if times == 1:
                continue
            # What skip_row parked of it was given up; the rest had come.
            if times == 2 and deed.given_up and there[deed.receipt] == 1:
                continue
            what = "lost" if not times else f"there {times} times"
            self._blame(deed.history, f"{deed.site}'s transaction {deed} is {what}")

    def _transaction(
        self,
        transaction: str,
        entries: Sequence[Entry],
        arrived: Sequence[Deed],
        masters: defaultdict[int, Rows],
    ) -> None:
        by_history: defaultdict[int, list[Entry]] = defaultdict(list)
        for entry in entries:
            by_history[(entry.new or entry.old or {})["h"]].append(entry)
        deeds = sorted({d.history for d in arrived} | set(by_history))
        for history in deeds:
            before = resolved(masters[history], self.references)
            _replay(masters[history], by_history[history])
            after = resolved(masters[history], self.references)
            actual = difference(before, after)
            for place, row in before.items():
                self.had[history, place] |= _named_by(row)
            if transaction in self.own:
                continue
            mine = [d for d in arrived if d.history == history]
            again = [d for d in self.tried.get(transaction, ()) if d.history == history]
            case = _Case(self, history, transaction, before, after, actual, again)
            case.judge(mine)

    def _blame(self, history: int, what: str) -> None:
        self.found.append(Violation(history, what))


@dataclass(slots=True)
class _Case:
    """What one transaction of the master did to the rows of one history."""

    judge_: Judge
    history: int
    transaction: str
    before: Rows
    after: Rows
    actual: Effect
    #: what an operator has tried again in it
    again: Sequence[Deed]
    #: the rows whose changes are about whatever row has their key
    by_key: set[Place] = field(default_factory=set)

    def judge(self, mine: Sequence[Deed]) -> None:
        deeds = [*mine, *(one for one in self.again if one not in mine)]
        expected = composed(d.effect for d in deeds)
        if not deeds and self.actual:
            self._blame(f"nobody's change: {self.actual}")
            return
        self.by_key = self._edited() | {
            place
            for place, change in expected.items()
            if self._was_given_another(place, change, deeds)
        }
        partial = not mine  # what comes later of it is the part that was parked
        for place, change in expected.items():
            wrong = self._wrong(place, change, deeds, expected)
            if wrong and not self._explained(place, change, deeds, partial=partial):
                self._blame(f"{place}: {wrong}, of {_names(deeds)}")
            self._unmeant(place, change, deeds)
        for place in set(self.actual) - set(expected):
            if self._by_its_key(place, self.actual[place], expected):
                continue
            self._unasked(place, self.actual[place], deeds)

    def _wrong(
        self, place: Place, wanted: Change, deeds: Sequence[Deed], expected: Effect
    ) -> str:
        free = self.judge_.free.get(place[0], set())
        edited = {c for d in deeds for p, c in d.edited if p == place}
        free = free | edited
        was, is_ = self._meant(place, wanted)
        was = _seen(was, wanted) if edited else was
        if wanted.after is None:
            return "" if is_ is None else f"is there, {is_}, though it was deleted"
        stay = {c for c in wanted.columns if self._stays(place, c, wanted, expected)}
        if is_ is None:
            # Nobody wrote a row whose references alone lead to other rows now.
            if was is None and stay and stay == wanted.columns:
                return ""
            return f"is not there, but {wanted.after} was written"
        if wanted.before is None:
            columns: Iterable[str] = wanted.after
        else:
            columns = wanted.columns - stay
            others = set(is_) - set(columns) - free - {"stamp"}
            for column in sorted(others):
                if was and not self._same(place[0], column, was[column], is_[column]):
                    return f"{column} was {was[column]!r} and is {is_[column]!r}"
        for column in sorted(set(columns) - free):
            if not self._as_meant(place[0], column, wanted.after[column], is_[column]):
                return f"{column} is {is_[column]!r}, not {wanted.after[column]!r}"
            if (
                was
                and wanted.before is not None
                and not edited
                and was[column] != wanted.after[column]
                and not self._seen_as(
                    place[0], column, wanted.before[column], was[column]
                )
            ):
                return f"{column} was {was[column]!r}, not {wanted.before[column]!r}"
        return ""

    def _meant(self, place: Place, wanted: Change) -> tuple[Row | None, Row | None]:
        """The row before and after; of two with its token, the one with its key.

        An edited call starts from the row that has its key, whoever made that.
        """
        if place in self.by_key:
            start = wanted.before or wanted.after
            return (
                _by_key(self.before, place[0], start),
                _by_key(self.after, place[0], wanted.after),
            )
        was = _with_key(self.before, place, wanted.before)
        is_ = _with_key(self.after, place, wanted.after or was)
        other_is_left = was and is_ and was["id"] != is_["id"]
        if wanted.after is None and other_is_left and twin(place) in self.before:
            return was, None
        return was, is_

    def _stays(
        self, place: Place, column: str, wanted: Change, expected: Effect
    ) -> bool:
        """Whether a reference has its value still: another row has come under it."""
        target = self.judge_.references.get(place[0], {}).get(column)
        if target is None or wanted.before is None or wanted.after is None:
            return False
        left = expected.get(_target(target[0], wanted.before[column]))
        came = expected.get(_target(target[0], wanted.after[column]))
        if left is None or came is None or left.before is None or came.after is None:
            return False
        return bool(left.before[target[1]] == came.after[target[1]])

    def _unmeant(self, place: Place, wanted: Change, deeds: Sequence[Deed]) -> None:
        """Of two rows with one token, the other one is as it was."""
        meant, _ = self._meant(place, wanted)
        for row in _with_token(self.before, place):
            after = _with_token(self.after, place)
            now = next((r for r in after if r["id"] == row["id"]), None)
            if row is not meant and now != row:
                self._unasked(place, Change(row, now), deeds)

    def _unasked(self, place: Place, change: Change, deeds: Sequence[Deed]) -> None:
        free = self.judge_.free.get(place[0], set())
        others = change.columns - free
        was, is_ = change.before, change.after
        if was and is_ and all(self._same(place[0], c, was[c], is_[c]) for c in others):
            return
        self.judge_.seen[self.history].add("rows of others under an action")
        if not self._explained(place, change, deeds, partial=False):
            was, is_ = was and dict(was), is_ and dict(is_)
            self._blame(f"{place}: was {was}, is {is_}, unasked, by {_names(deeds)}")

    def _by_its_key(self, place: Place, change: Change, expected: Effect) -> bool:
        """Whether a row is the one that a change by key started from, or has made."""
        if place in self.by_key:
            # Where it was made, only the key of what it refers to had changed.
            return True
        for one in self.by_key & set(expected):
            was, is_ = self._meant(one, expected[one])
            if one[0] == place[0] and (
                _same_key(change.before, was) or _same_key(change.after, is_)
            ):
                return True
        return False

    def _was_given_another(
        self, place: Place, wanted: Change, deeds: Sequence[Deed]
    ) -> bool:
        """Whether another row has the key of this one, and was made what the site has.

        Its conflict with an earlier change of the site was settled, and is recorded:
        from then on it is the row that the site goes on to change.
        """
        if wanted.before is None or place in self.before:
            return False
        key = str(wanted.before["id"])
        return any(
            int(earlier) < int(deed.transaction)
            for deed in deeds
            for earlier in self.judge_.settled.get((deed.site, place[0], key), ())
        )

    def _edited(self) -> set[Place]:
        """The rows that an operator gave another value when he tried again."""
        return {place for deed in self.again for place, _ in deed.edited}

    def _same(self, table: str, column: str, meant: object, found: object) -> bool:
        """Whether a column has a value.

        A reference has it too where the row that it meant is gone, or has another key,
        and another one has its key now: that is not the reference's doing, and judged
        there. If it is by a column that follows, it has followed.
        """
        if meant == found:
            return True
        return self._by_value(self.judge_.had, table, column, meant, found)

    def _by_value(
        self, keys: _Keys, table: str, column: str, meant: object, found: object
    ) -> bool:
        """Whether the row that is referred to has a key that the other one has had."""
        target = self.judge_.references.get(table, {}).get(column)
        if target is None:
            return False
        had = keys.get((self.history, _target(target[0], meant)), ())
        there = {**self.before, **self.after}.get(_target(target[0], found))
        if there is None:
            return False
        return any((column, there[column]) in had for column in (target[1], "id"))

    def _as_meant(self, table: str, column: str, meant: object, found: object) -> bool:
        """Whether a column has become what it was made.

        An operator who tries a transaction again by its number has references lead to
        the rows that have those values by now, also where a rule has renamed others.
        """
        return self._same(table, column, meant, found) or (
            bool(self.again)
            and self._by_value(self.judge_.given, table, column, meant, found)
        )

    def _seen_as(self, table: str, column: str, meant: object, found: object) -> bool:
        """Whether somebody at a site had this value before him.

        To him, a reference may have led to a row that has never come to the master.
        """
        if self._same(table, column, meant, found) or _rounded(meant) == found:
            return True
        return self._by_value(self.judge_.given, table, column, meant, found)

    def _explained(
        self, place: Place, change: Change, deeds: Sequence[Deed], *, partial: bool
    ) -> bool:
        """Whether a record or the error queue tells of a row in these transactions."""
        images = (change.before, change.after, *self._meant(place, change))
        keys = {str(image["id"]) for image in images if image}
        for deed in deeds:
            for key in keys:
                named = (deed.site, deed.transaction, place[0], key)
                # What is tried again is in the error queue no more.
                if named in self.judge_.told.parked_rows and deed not in self.again:
                    return True
                taken = self.judge_.taken_along.get((deed.site, deed.transaction), "")
                if f"{place[0]} ({key}," in taken:
                    return True
                records = self.judge_.records.get(named, ())
                # Of a part that was parked, they may be about the other one.
                if records and len(deeds) == 1 and not partial:
                    # What one rule made of a row, the next one decides about.
                    self._true(place, key, records[-1])
                if records:
                    return True
        return partial and place not in self.actual and not self._tried(place, keys)

    def _tried(self, place: Place, keys: set[str]) -> bool:
        """Whether a row is of what an operator has tried again."""
        return any(
            (deed.site, deed.transaction, place[0], key) in self.judge_.told.parked_rows
            for deed in self.again
            for key in keys
        )

    def _true(self, place: Place, key: str, record: Record) -> None:
        """A record of a row that is there says what has become of it."""
        row = self.after.get(place)
        if record.kind == "delete" or row is None or record.result is None:
            return
        if str(row["id"]) != key:
            return
        for column in {"id", "note", "code"} & set(row) & set(record.result):
            said, is_ = record.result[column], row[column]
            found = None if is_ is None else str(is_)
            if said != found and not (found or "").startswith("row "):
                self._blame(f"{place}: {column} is {is_!r}, recorded is {said!r}")

    def _blame(self, what: str) -> None:
        self.judge_._blame(self.history, f"master's {self.transaction}: {what}")


def _rounded(value: object) -> object:
    """A number with two digits, as the master has it once its column is narrower.

    What somebody had before him is compared as the master's column would hold it.
    """
    if not isinstance(value, float):
        return value
    exact = Decimal(str(value))
    return float(exact.quantize(Decimal("0.01"), rounding=ROUND_HALF_UP))


def _settled(
    records: Mapping[Named, Sequence[Record]],
) -> Mapping[tuple[str, str, str], Sequence[str]]:
    found: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for (site, transaction, table, key), those in records.items():
        if any(one.kind == "update" for one in those):
            found[site, table, key].append(transaction)
    return found


def _seen(was: Row | None, wanted: Change) -> Row | None:
    """The row that somebody who edits starts from: the one with the key he sees."""
    meant = wanted.before
    return was if was and meant and was["id"] == meant["id"] else None


def _named_by(row: Row | None) -> set[tuple[str, object]]:
    """What references may name a row by."""
    return {(c, row.get(c)) for c in ("id", "code")} if row else set()


def _names(deeds: Sequence[Deed]) -> str:
    return ", ".join(f"{d.site}'s {d.receipt} ({d.transaction})" for d in deeds)


def _transactions(
    entries: Sequence[Entry], arrived: Iterable[str]
) -> list[tuple[str, list[Entry]]]:
    """The entries of each transaction, in the order of their first ones.

    One that has arrived and has changed no row stands before those that began later.
    """
    found: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        found[entry.transaction].append(entry)
    ordered = list(found.items())
    for lone in sorted({*arrived} - set(found), key=int):
        later = (n for n, (one, _) in enumerate(ordered) if int(one) > int(lone))
        ordered.insert(next(later, len(ordered)), (lone, []))
    return ordered


def _target(table: str, reference: object) -> Place:
    return table, str(reference).removeprefix("row ")


def _with_token(rows: Rows, place: Place) -> list[Row]:
    return [rows[p] for p in (place, twin(place)) if p in rows]


def _with_key(rows: Rows, place: Place, row: Row | None) -> Row | None:
    """Of rows with one token, the one with the key of this one, or else the first."""
    there = _with_token(rows, place)
    same = (r for r in there if row is not None and r["id"] == row["id"])
    return next(iter((*same, *there)), None)


def _by_key(rows: Rows, table: str, row: Row | None) -> Row | None:
    """The row of a table that has the key of this one."""
    there = (one for place, one in rows.items() if place[0] == table)
    return next((one for one in there if _same_key(one, row)), None)


def _same_key(one: Row | None, other: Row | None) -> bool:
    return one is not None and other is not None and bool(one["id"] == other["id"])


def _replay(rows: Rows, entries: Sequence[Entry]) -> None:
    for entry in entries:
        table, old, new = entry.table, entry.old, entry.new
        # A changed key may come as a new row first: it has taken the old one's place.
        left = None
        if old is not None:
            if (left := _found(rows, table, old)) is not None:
                del rows[left]
            _put_in_order(rows, table, old)
        if new is not None:
            place = _found(rows, table, new)
            if place is None:
                first, another = _place(table, new), old is None or left is not None
                place = twin(first) if another and first in rows else first
            rows[place] = new
            _put_in_order(rows, table, new)


def _found(rows: Rows, table: str, row: Row) -> Place | None:
    """Where a row with this token and key stands."""
    places = _place(table, row), twin(_place(table, row))
    same = (p for p in places if p in rows and rows[p]["id"] == row["id"])
    return next(same, None)


def _put_in_order(rows: Rows, table: str, row: Row) -> None:
    """Of rows with one token, have the one with the lowest key first, as `placed`."""
    places = _place(table, row), twin(_place(table, row))
    there = sorted((rows.pop(p) for p in places if p in rows), key=lambda r: r["id"])
    rows.update(zip(places, there, strict=False))


def _place(table: str, row: Row) -> Place:
    return table, str(row["uid"])
