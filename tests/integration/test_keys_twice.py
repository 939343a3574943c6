"""Master tables in which two rows have the key that identifies one."""

import pytest

import snapshots
from sites import Directory
from snapshots.errors import KeyNotUnique
from snaptide import doctor
from tests.fix_sites import log
from tests.linked_table import rows, run
from tests.stories import assert_equal_to_master, refresh

pytestmark = pytest.mark.usefixtures("spark")

TABLE = "CREATE TABLE t (id int PRIMARY KEY, p int NOT NULL DEFAULT 0, v text)"
WIDER = "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, p)"


@pytest.mark.parametrize(
    "altered",
    [
        WIDER,
        "ALTER TABLE t DROP CONSTRAINT t_pkey; CREATE UNIQUE INDEX ON t (id) WHERE p=0",
    ],
)
def test_key_that_identifies_no_row_any_more(sites: Directory, altered: str) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, TABLE, "INSERT INTO t VALUES (1, 0, 'a')", "CREATE TABLE o (LIKE t)")
    run(hq, "ALTER TABLE o ADD PRIMARY KEY (id)")
    log(hq, "t", "o")
    snapshots.create(jfk, "t", master="hq", group="g")
    snapshots.create(jfk, "o", master="hq", group="g")
    refresh(jfk, "g")
    run(hq, altered, "INSERT INTO t VALUES (1, 1, 'b')", "INSERT INTO o VALUES (1, 0)")

    for method in ("?", "c"):
        with pytest.raises(KeyNotUnique, match=r"no key over id any more"):
            refresh(jfk, "t", strict=True, method=method)
    report = snapshots.refresh(jfk, "g")
    assert [one.code for one in report.behind] == [KeyNotUnique.code]
    assert (rows(jfk, "t"), rows(jfk, "o")) == ([(1, 0, "a")], rows(hq, "o"))
    found = [one.what for one in doctor.examine(hq, informed=True)]
    assert "No key over id identifies its rows." in found

    run(hq, "DELETE FROM t WHERE p = 1", "CREATE UNIQUE INDEX ON t (id)")
    refresh(jfk, "g")
    assert_equal_to_master(jfk)


CHILD = "CREATE TABLE child () INHERITS (t)"


@pytest.mark.parametrize("value", ["a", "b"])
def test_child_with_the_key_of_a_row_of_its_parent(
    sites: Directory, value: str
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, TABLE, CHILD, "INSERT INTO t VALUES (1, 0, 'a')")
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    snapshots.create(jfk, "some", table="t", master="hq", where="p = 0", group="some")
    refresh(jfk, "t")
    refresh(jfk, "some")
    run(hq, "INSERT INTO child VALUES (2, 0, 'a')")
    assert refresh(jfk, "t")["t"].inserted == 1

    run(hq, f"INSERT INTO child VALUES (1, 0, '{value}')")
    told = "t and the tables that inherit from it have several rows whose id is 1"
    for name in ("t", "some"):
        for method in ("?", "c"):
            with pytest.raises(KeyNotUnique, match=told):
                refresh(jfk, name, method=method)
    assert rows(jfk, "t") == [(1, 0, "a"), (2, 0, "a")]
    snapshots.create(jfk, "new", table="t", master="hq", group="new")
    with pytest.raises(KeyNotUnique, match=told):
        refresh(jfk, "new")

    # Those of the snapshot have different keys again.
    run(hq, "UPDATE child SET p = 1 WHERE id = 1")
    refresh(jfk, "some")
    run(hq, "UPDATE ONLY t SET id = 3 WHERE id = 1")
    for name in ("t", "some", "new"):
        refresh(jfk, name)
    assert_equal_to_master(jfk)
