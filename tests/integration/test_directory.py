"""A program's own directory of sites."""

import time

from sites import Directory
from tests.linked_table import run


def test_no_connection_is_left_after_the_block(sites: Directory) -> None:
    def sessions() -> object:
        [found] = run(
            sites["hq"],
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        return found[0]

    before = sessions()
    with Directory({"hq": sites["hq"].url}) as mine:
        run(mine["hq"], "SELECT 1")
        assert sessions() != before  # it is idle now, in the pool
    until = time.monotonic() + 60
    while sessions() != before and time.monotonic() < until:
        time.sleep(0.05)
    assert sessions() == before
