"""Refreshes whose windows lie in several partitions of a snapshot log."""

import pytest
from sqlalchemy import text

import snapshots
from masters.log import ring
from sites import Site
from tests.fix_sites import log
from tests.linked_table import application, rows, run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")


def _pass(site: Site) -> None:
    """Use so many transaction ids up that the next change is in another partition."""
    with site.connect() as connection:
        alone = connection.execution_options(isolation_level="AUTOCOMMIT")
        alone.execute(
            text(
                f"DO $$ BEGIN FOR i IN 1..{1 << ring.SLOT_SHIFT} LOOP"
                " PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
            )
        )


def test_changes_of_all_partitions_come_also_if_they_were_open(
    hq: Site, jfk: Site
) -> None:
    run(hq, "CREATE TABLE t (id int PRIMARY KEY, n int)")
    run(hq, "INSERT INTO t SELECT g, 0 FROM generate_series(1, 6) g")
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq")
    refresh(jfk, "t")

    with application(hq) as slow:
        slow.execute("UPDATE t SET n = 1 WHERE id = 1")
        for number in (2, 3):
            _pass(hq)
            run(hq, f"UPDATE t SET n = 1 WHERE id = {number}")
        refresh(jfk, "t")
        assert [n for _, n in sorted(rows(jfk, "t"))] == [0, 1, 1, 0, 0, 0]
        _pass(hq)
        slow.commit()
    run(hq, "UPDATE t SET n = 2 WHERE id = 4")
    refresh(jfk, "t")
    assert rows(jfk, "t") == rows(hq, "t")
    assert [n for _, n in sorted(rows(jfk, "t"))] == [1, 1, 1, 2, 0, 0]
