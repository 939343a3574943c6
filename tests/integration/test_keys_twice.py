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
