"""What statements of ours tell the planner of the machine."""

from __future__ import annotations

import pytest
from sqlalchemy import select, text

from sites import Directory
from sites.sessions import settings


@pytest.mark.parametrize(("before", "after"), [("4", "1.1"), ("0.5", "0.5")])
def test_a_page_costs_no_more_than_on_a_fast_disk(
    sites: Directory, before: str, after: str
) -> None:
    with sites["hq"].connect() as connection:
        with connection.begin():
            connection.execute(text(f"SET random_page_cost = {before}"))
        with connection.begin():
            connection.execute(select(settings.lookups()))
            assert connection.scalar(text("SHOW random_page_cost")) == after
        # What is not ours is planned as ever.
        assert connection.scalar(text("SHOW random_page_cost")) == before
        connection.rollback()
        with connection.begin():
            connection.execute(text("RESET random_page_cost"))
