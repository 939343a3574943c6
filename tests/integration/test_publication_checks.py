"""Checks of a site by the login of a grant: these read no more than its refreshes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy.exc import DBAPIError

import groups
import masters
import snapshots
from sites import Directory
from sites.conditions.where import BadCondition
from sites.errors import SnaptideError
from snaptide.embedded import PostgresServer
from tests.granted import as_login, login, stores
from tests.linked_table import run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

COLUMNS = ["id", "store_id", "what"]


@pytest.fixture
def reached(sites: Directory, server: PostgresServer) -> Iterator[Directory]:
    """jfk, and hq as its login reaches it: to the sales of store 3, without cost."""
    hq = sites["hq"]
    stores(hq)
    where = {"sale": "store_id = :store"}
    masters.create_publication(
        hq, "sales", ["sale"], where=where, columns={"sale": COLUMNS}
    )
    with login(server, hq) as name:
        # Conditions are tried in a temporary table.
        run(hq, f'GRANT TEMPORARY ON DATABASE "{hq.url.database}" TO {name}')
        values = {"store": "3"}
        masters.grant(hq, "sales", "jfk", login=name, parameters=values, updatable=True)
        with as_login(sites, name) as directory:
            jfk = directory["jfk"]
            snapshots.create(jfk, "sale", master="hq", columns=COLUMNS)
            refresh(jfk, "sale")
            yield directory


@pytest.mark.parametrize("gently", [False, True], ids=["at once", "gently"])
def test_a_check_tells_nothing_of_rows_of_others(
    sites: Directory, reached: Directory, gently: bool
) -> None:
    """A right guess of a row of another store looks like a wrong one."""
    jfk = reached["jfk"]
    assert snapshots.check(jfk, "sale", gently=gently).equal
    run(
        jfk,
        'ALTER TABLE public."snap$_sale" DISABLE TRIGGER ALL',
        "INSERT INTO public.\"snap$_sale\" VALUES (3, 4, 'thing 3'), (5, 4, 'wrong'),"
        " (99, 4, 'none')",
    )
    [found] = snapshots.check(jfk, "sale", gently=gently).snapshots
    told = {
        one.key["id"]: (one.kind, one.reason, one.detail) for one in found.differences
    }
    assert sorted(map(str, told)) == ["3", "5", "99"]
    assert told["3"] == told["5"] == told["99"]
    assert [one.master for one in found.differences] == [None, None, None]
    assert found.rows_master == 5


@pytest.mark.parametrize("gently", [False, True], ids=["at once", "gently"])
def test_a_condition_of_a_check_asks_nothing_else(
    sites: Directory, reached: Directory, gently: bool
) -> None:
    """Nor is it tried on rows of others, of which its errors would tell."""
    jfk = reached["jfk"]
    asked = {
        "cost > 5": "permission denied for table sale",
        "EXISTS (SELECT FROM public.salary)": "cannot be kept up to date",
        "id IN (SELECT id FROM public.salary)": "permission denied for table salary",
    }
    for where in asked:
        with pytest.raises(BadCondition):
            snapshots.check(jfk, "sale", where=where, gently=gently)
    whole = {"sale": "store_id = :store"}
    masters.alter_publication(sites["hq"], "sales", ["sale"], where=whole)
    refresh(jfk, "sale")
    for where, says in asked.items():
        if where == "cost > 5":
            with pytest.raises((SnaptideError, DBAPIError)):
                snapshots.check(jfk, "sale", where=where, gently=gently)
        else:
            with pytest.raises(BadCondition, match=says):
                snapshots.check(jfk, "sale", where=where, gently=gently)
    for where in ("1 / (store_id - 4) <> 0", "1 / (id % 2 - 1) <> 0"):
        assert snapshots.check(jfk, "sale", where=where, gently=gently).equal


def test_columns_of_a_check_are_those_of_the_snapshot(reached: Directory) -> None:
    with pytest.raises(SnaptideError, match="cost"):
        snapshots.check(reached["jfk"], "sale", columns=["cost"])


def test_a_login_compares_no_masters(sites: Directory, reached: Directory) -> None:
    """A published table is in no group, and what groups there are no login reads."""
    groups.create_group(sites["hq"], "all")
    with pytest.raises((SnaptideError, DBAPIError), match="permission denied"):
        groups.check(reached["hq"], "all")
