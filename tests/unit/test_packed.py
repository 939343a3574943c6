"""Several tables in one, and their parts back."""

from __future__ import annotations

import pyarrow as pa

from snapshots.differences.shared_job import Pair, pack


def _pair(master: pa.Table, present: pa.Table, *key: str) -> Pair:
    names = master.column_names
    return Pair(master=master, present=present, key=list(key), columns=names)


def _two() -> list[Pair]:
    people = pa.table({"c1": pa.array([1, 2], pa.int32()), "c2": ["ann", None]})
    places = pa.table({"c1": ["x", "y"], "c2": ["here", "there"], "c3": [True, None]})
    return [
        _pair(people, people.slice(0, 1), "c1"),
        _pair(places, places.slice(0, 0), "c1"),
    ]


def test_keys_share_columns_with_keys_of_their_type_alone() -> None:
    packed = pack(_two()).pair
    assert packed.key == ["c1", "c2", "c4"]
    assert packed.columns == ["c1", "c2", "c3", "c4", "c5"]
    assert packed.master.to_pylist() == [
        {"c1": 0, "c2": 1, "c3": "ann", "c4": None, "c5": None},
        {"c1": 0, "c2": 2, "c3": None, "c4": None, "c5": None},
        {"c1": 1, "c2": None, "c3": "here", "c4": "x", "c5": True},
        {"c1": 1, "c2": None, "c3": "there", "c4": "y", "c5": None},
    ]
    assert packed.present.num_rows == 1


def test_parts_come_back_as_they_were() -> None:
    pairs = _two()
    packed = pack(pairs)
    found = packed.pair.master.append_column(
        "op", pa.repeat(pa.scalar("I"), packed.pair.master.num_rows)
    )
    parts = packed.unpack(found)
    assert [part.drop_columns(["op"]) for part in parts] == [p.master for p in pairs]
    assert all(part.column_names[0] == "op" for part in parts)


def test_columns_of_one_type_stay_apart_and_are_shared_by_number() -> None:
    wide = pa.table({"c1": [1], "c2": ["a"], "c3": ["b"], "c4": ["c"]})
    narrow = pa.table({"c1": [2], "c2": ["d"], "c3": ["e"]})
    twice = pa.table({"c1": [3], "c2": [4]})
    pairs = [
        _pair(wide, wide.slice(1), "c1"),
        _pair(narrow, narrow, "c1"),
        _pair(twice, twice, "c1", "c2"),
    ]
    packed = pack(pairs).pair
    assert packed.key == ["c1", "c2", "c6"]
    assert [tuple(row.values()) for row in packed.master.to_pylist()] == [
        (0, 1, "a", "b", "c", None),
        (1, 2, "d", "e", None, None),
        (2, 3, None, None, None, 4),
    ]
    assert [one.rows for one in [*pairs, packed]] == [1, 2, 2, 5]


def test_rows_that_differ_come_back_with_the_columns_and_keys_of_their_table() -> None:
    apart = pa.table({"c1": ["v"], "c2": [1], "c3": ["w"], "c4": [2]})
    pairs = [*_two(), _pair(apart, apart, "c4", "c3")]
    packed = pack(pairs)
    assert packed.pair.key == ["c1", "c2", "c4", "c7"]
    found = pa.table(
        {
            "kind": ["missing", "differs", "differs"],
            "differs": [None, "c3,c5", "c3,c6"],
            "k1": ["0", "1", "2"],
            "k2": ["7", None, None],
            "k3": [None, "x", "w"],
            "k4": [None, None, "2"],
        }
    )
    assert [part.to_pydict() for part in packed.unpack_rows(found)] == [
        {"kind": ["missing"], "differs": [None], "k1": ["7"]},
        {"kind": ["differs"], "differs": ["c2,c3"], "k1": ["x"]},
        {"kind": ["differs"], "differs": ["c1,c2"], "k1": ["2"], "k2": ["w"]},
    ]
