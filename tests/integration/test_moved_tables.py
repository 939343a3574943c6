"""Tables that get another name or schema after Snaptide has begun to record them."""

import pytest

import deferred
import snapshots
from sites import Directory
from sites.errors import SnaptideError
from snaptide import doctor
from tests.fix_sites import log
from tests.linked_table import parked, queued, rows, run
from tests.stories import refresh, settle

pytestmark = pytest.mark.usefixtures("spark")

#: By case: what is done to {t}, and what it is called then.
MOVES = {
    "renamed": (["ALTER TABLE {t} RENAME TO other"], "other"),
    "moved": (['CREATE SCHEMA "New"', 'ALTER TABLE {t} SET SCHEMA "New"'], '"New".{t}'),
    "both": (
        [
            "CREATE SCHEMA s",
            "ALTER TABLE {t} RENAME TO other",
            "ALTER TABLE other SET SCHEMA s",
        ],
        "s.other",
    ),
}


@pytest.mark.parametrize("case", MOVES)
@pytest.mark.parametrize("at", ["hq", "jfk"])
def test_doctor_says_what_it_is_called_now(
    sites: Directory, at: str, case: str
) -> None:
    """Nothing is lost meanwhile: what doctor says to run gives all of it back."""
    hq, jfk, where = sites["hq"], sites["jfk"], sites[at]
    run(hq, "CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY HASH (id)")
    for n in range(2):
        part = f"FOR VALUES WITH (MODULUS 2, REMAINDER {n})"
        run(hq, f"CREATE TABLE t{n} PARTITION OF t {part}")
    run(hq, "INSERT INTO t SELECT n, 'a' FROM generate_series(1, 5) n")
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    table = "t" if at == "hq" else '"snap$_t"'
    move, called = MOVES[case]
    called = called.format(t=table)
    run(jfk, "UPDATE t SET v = 'before' WHERE id = 1")
    run(where, *(one.format(t=table) for one in move))
    run(where, f"UPDATE {called} SET v = 'meanwhile' WHERE id = 2")
    with pytest.raises(SnaptideError, match="There is no table"):
        deferred.push(jfk)
    name = table.strip('"')
    (found,) = (one for one in doctor.examine(where) if one.subject == name)
    shown = called.replace('"', "")
    assert f"The table is called {shown} now" in found.what
    run(where, *found.todo.removeprefix("Give it back its name: ").split("; "))
    settle(jfk)
    assert (queued(jfk), parked(hq)) == (0, [])
    assert rows(hq, "t") == rows(jfk, "t")
    assert {"before", "meanwhile"} <= {value for _, value in rows(hq, "t")}


def test_doctor_gives_a_schema_back_that_was_renamed(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(jfk, "CREATE SCHEMA s")
    run(hq, "CREATE SCHEMA s", "CREATE TABLE s.t (id int PRIMARY KEY)")
    run(hq, "CREATE TABLE s.u (id int PRIMARY KEY)")
    log(hq, "s.t", "s.u")
    snapshots.create(jfk, "s.t", master="hq")
    refresh(jfk, "s.t")
    run(hq, "ALTER SCHEMA s RENAME TO other", "INSERT INTO other.t VALUES (1)")
    with pytest.raises(SnaptideError, match=r"There is no table s\.t"):
        refresh(jfk, "s.t")
    found = [one for one in doctor.examine(hq) if one.subject in ("s.t", "s.u")]
    assert [one.what.partition(":")[0] for one in found] == [
        "The table is called other.t now",
        "The table is called other.u now",
    ]
    for one in found:
        run(hq, *one.todo.removeprefix("Give it back its name: ").split("; "))
    refresh(jfk, "s.t")
    assert rows(jfk, "s.t") == [(1,)]
