"""Packs rows of several tables into one, so that one Spark job compares them all.

A job costs a tenth of a second whatever it does. The tables share columns of the common
table, by type, and keys only with keys; columns that a table lacks are NULL in its
rows. The first column, which is part of the key, says which table a row is from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sites.extras import pa, pc
from snapshots.differences.shared_job import Pair

#: A column of the common table: for keys or not, its type, its number among these.
_Slot: TypeAlias = "tuple[bool, pa.DataType, int]"


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
    """Make one pair of several."""
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
