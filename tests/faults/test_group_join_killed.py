"""A master that joins dies of kill -9 in the middle of its rows: it starts over."""

import signal
from collections.abc import Callable

import psycopg
import pytest

import groups
from sites import Directory
from tests.grouped import GROUP, assert_masters_equal, found_group, push_all
from tests.let_go import wait_until_let_go
from tests.linked_table import ORDERS, run
from tests.processes import ended

pytestmark = pytest.mark.usefixtures("spark")

#: It ends as soon as some rows have come; others it cannot write before.
VICTIM = """
import signal, sys
import groups
from sites.conditions import ranges

def dies(done, total, unit):
    if done:
        os.kill(os.getpid(), signal.SIGKILL)

ranges.PART_BYTES = 64 * 1024
groups.join_master(sites["hq"], sys.argv[1], "bos", source="lax", progress=dies)
"""

#: The last row waits for the session that has the lock. By a check: a copy for a new
#: master fires no trigger of a user.
HELD = """
CREATE FUNCTION hold(id int) RETURNS bool LANGUAGE plpgsql AS
    'BEGIN
        IF id = 5000 THEN PERFORM pg_advisory_xact_lock(7); END IF;
        RETURN true;
    END';
ALTER TABLE orders ADD CONSTRAINT held CHECK (hold(id))
"""


def test_killed_between_its_rows(make_sites: Callable[..., Directory]) -> None:
    sites = make_sites("hq", "lax", "bos")
    found_group(sites, "hq", "lax")
    run(sites["hq"], "INSERT INTO orders (id) SELECT generate_series(1, 5000)")
    push_all(sites)
    run(sites["bos"], f"CREATE TABLE orders ({ORDERS})", HELD)
    with sites["bos"].begin() as holder:
        holder.exec_driver_sql("SELECT pg_advisory_xact_lock(7)")
        done = ended(VICTIM, sites, GROUP)
        assert done.returncode == -signal.SIGKILL, done.stderr
        wait_until_let_go([sites["hq"], sites["lax"]])
        [[there]] = run(sites["bos"], "SELECT count(*) FROM orders")
        assert 0 < there < 5000
        with pytest.raises(psycopg.Error, match="bos is joining group"):
            run(sites["bos"], "DELETE FROM orders WHERE id = 1")
        run(sites["hq"], "UPDATE orders SET qty = 1 WHERE id IN (1, 5000)")
    wait_until_let_go([sites["bos"]])
    run(sites["bos"], "ALTER TABLE orders DROP CONSTRAINT held")
    assert groups.join_master(sites["hq"], GROUP, "bos", source="lax").rows == 5000
    run(sites["lax"], "UPDATE orders SET qty = 2 WHERE id IN (2, 4999)")
    push_all(sites)
    rows = assert_masters_equal(sites, "hq", "lax", "bos")
    assert {row[0]: row[2] for row in rows if row[2]} == {1: 1, 2: 2, 4999: 2, 5000: 1}
    assert run(sites["bos"], "SELECT 1 FROM snaptide.load_range") == []
