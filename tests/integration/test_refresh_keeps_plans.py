"""A refresh plans its statements once, not each time: a master has many sites."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from sqlalchemy import text

import snapshots
from sites import Site
from tests.fix_sites import log
from tests.linked_table import run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

#: The sessions of a refresh at its master.
SESSIONS = 2

_PREPARED = text("SELECT statement FROM pg_prepared_statements")


def planned(site: Site) -> set[str]:
    """The statements that the open sessions have planned."""
    with ExitStack() as opened:
        each = [opened.enter_context(site.session()) for _ in range(SESSIONS)]
        return {one for session in each for one in session.scalars(_PREPARED)}


def test_a_refresh_of_changed_rows_keeps_its_plans(hq: Site, jfk: Site) -> None:
    run(hq, "CREATE TABLE flight (id int PRIMARY KEY, seats int)")
    log(hq, "flight")
    snapshots.create(jfk, "flight", master="hq")
    refresh(jfk, "flight")
    for number in range(2):
        run(hq, f"INSERT INTO flight VALUES ({number}, 100)")
        assert refresh(jfk, "flight")["flight"].inserted == 1
    assert any("site_identity" in one for one in planned(hq))
