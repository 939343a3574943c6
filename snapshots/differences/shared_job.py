"""Lets refreshes that run at the same time share Spark jobs.

A job costs a tenth of a second whatever it does, and several small ones get in each
other's way. So one runs at a time, and the next compares all that threads have asked
for meanwhile. A thread never waits so that others can join its job.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TypeAlias

from sites.extras import pa, pc

#: One job compares about so many images together, or so many bytes of them.
MOST, MOST_BYTES = 100_000, 64 * 2**20

#: A column of the common table: for keys or not, its type, its number among these.
_Slot: TypeAlias = "tuple[bool, pa.DataType, int]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Images of one snapshot at both sides, with the columns `c1` to `cn`."""

    master: pa.Table
    present: pa.Table
    key: list[str]
    columns: list[str]

    @property
    def rows(self) -> int:
        """How many images there are, of both sides."""
        return int(self.master.num_rows + self.present.num_rows)

    @property
    def share(self) -> float:
        """The share that it has of a job; with 1 or more, it fills one by itself."""
        size = self.master.nbytes + self.present.nbytes
        return max(self.rows / MOST, int(size) / MOST_BYTES)


@dataclass(slots=True, eq=False)
class _Request:
    """What one thread wants compared."""

    pairs: Sequence[Pair]
    #: a job has taken it
    taken: bool = False
    #: what that job found; None if it failed
    found: list[pa.Table] | None = None

    @property
    def share(self) -> float:
        return sum(pair.share for pair in self.pairs)


@dataclass(slots=True)
class SharedJobs:
    """The jobs of a process that compare few rows, one after the other."""

    #: compares pairs in one job, and returns their differences in the same order
    compare: Callable[[Sequence[Pair]], list[pa.Table]]
    _running: threading.Lock = field(default_factory=threading.Lock)
    _waiting: SimpleQueue[_Request] = field(default_factory=SimpleQueue)

    def differences(self, pairs: Sequence[Pair]) -> list[pa.Table]:
        """The difference of each pair; pairs that fill a job run at once, in their own.

        If a job of several threads fails, each compares its own pairs in another one:
        so none gets an error that is not its own.
        """
        own = _Request(pairs)
        if own.share >= 1:
            return self.compare(pairs)
        self._waiting.put(own)
        with self._running:
            while not own.taken:
                self._run_next()
        return self.compare(pairs) if own.found is None else own.found

    def _run_next(self) -> None:
        """Run one job for waiting requests, of which one may be this thread's.

        Its error is raised only if it had one request, and that is this thread's: after
        one of another thread, which does not fill a job, it takes a second.
        """
        taken = list(self._take())
        try:
            found = iter(self.compare([pair for one in taken for pair in one.pairs]))
        except Exception:
            if len(taken) == 1:
                raise
            return
        for one in taken:
            one.found = [next(found) for _ in one.pairs]

    def _take(self) -> Iterator[_Request]:
        """Take the requests for one job, in the order in which they came."""
        share = 0.0
        while share < 1:
            try:
                one = self._waiting.get_nowait()
            except Empty:
                return
            one.taken = True
            share += one.share
            yield one


@dataclass(frozen=True, slots=True)
class Packed:
    """Several pairs as one."""

    pair: Pair
    #: for each pair, the common table's columns for its own, in their order
    _places: list[dict[str, str]]
    #: for each pair, the columns of its key
    _keys: list[list[str]]

    def unpack(self, found: pa.Table) -> list[pa.Table]:
        """The part of each pair in a difference (`op`, `c1`, ...) of the common one."""
        return [
            found.filter(pc.equal(found["c1"], number))
            .select(["op", *places.values()])
            .rename_columns(["op", *places])
            for number, places in enumerate(self._places)
        ]

    def unpack_rows(self, found: pa.Table) -> list[pa.Table]:
        """The part of each pair in `kind`, `differs`, k1, ... of the common one."""
        return [
            self._rows_of(found.filter(pc.equal(found["k1"], str(number))), number)
            for number, _ in enumerate(self._places)
        ]

    def _rows_of(self, found: pa.Table, number: int) -> pa.Table:
        places = self._places[number]
        own = {common: (n, name) for n, (name, common) in enumerate(places.items())}
        differs = [
            # The common table may have the columns in another order.
            text
            and ",".join(name for _, name in sorted(own[c] for c in text.split(",")))
            for text in found["differs"].to_pylist()
        ]
        keys = [
            f"k{self.pair.key.index(places[name]) + 1}" for name in self._keys[number]
        ]
        columns = {
            "kind": found["kind"],
            "differs": pa.array(differs, pa.string()),
            **{f"k{n}": found[key] for n, key in enumerate(keys, 1)},
        }
        return pa.table(columns)


def pack(pairs: Sequence[Pair]) -> Packed:
    """Make one pair of several, so that one job compares them all.

    The tables share columns of the common table, by type, and keys only with keys;
    columns that a table lacks are NULL in its rows. The first column, which is part of
    the key, says which table a row is from.
    """
    slots = [_slots(pair) for pair in pairs]
    every = {slot: f"c{n}" for n, slot in enumerate(_all(slots), start=2)}
    masters = [_packed(n, p.master, slots[n], every) for n, p in enumerate(pairs)]
    presents = [_packed(n, p.present, slots[n], every) for n, p in enumerate(pairs)]
    common = Pair(
        master=pa.concat_tables(masters),
        present=pa.concat_tables(presents),
        key=["c1", *(name for slot, name in every.items() if slot[0])],
        columns=["c1", *every.values()],
    )
    places = [{c: every[slot] for c, slot in one.items()} for one in slots]
    return Packed(common, places, [pair.key for pair in pairs])


def _slots(pair: Pair) -> dict[str, _Slot]:
    """Which column of the common table each column takes."""
    taken: Counter[tuple[bool, pa.DataType]] = Counter()
    slots = {}
    for name in pair.columns:
        kind = (name in pair.key, pair.master.schema.field(name).type)
        slots[name] = (*kind, taken[kind])
        taken[kind] += 1
    return slots


def _all(slots: Sequence[dict[str, _Slot]]) -> list[_Slot]:
    return [*dict.fromkeys(slot for one in slots for slot in one.values())]


def _packed(
    number: int, table: pa.Table, slots: dict[str, _Slot], every: dict[_Slot, str]
) -> pa.Table:
    own = {slot: name for name, slot in slots.items()}
    rows = table.num_rows
    columns = {
        name: table[own[slot]] if slot in own else pa.nulls(rows, slot[1])
        for slot, name in every.items()
    }
    return pa.table({"c1": pa.repeat(pa.scalar(number, pa.int32()), rows), **columns})
