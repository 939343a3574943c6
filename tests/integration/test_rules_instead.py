"""CREATE RULE ... DO INSTEAD on tables that Snaptide writes.

PostgreSQL counts the rows of the other statement, which may be as many as expected.
"""

import pytest

import deferred
import masters
import snapshots
import synchronous
from sites import Directory, Site
from sites.errors import RowCountMismatch
from snapshots.definitions.errors import UnusableTable
from snapshots.errors import CannotMerge
from snaptide import doctor
from tests.fix_sites import log
from tests.linked_table import as_refresh, link, parked, rows, run
from tests.stories import refresh

COLUMNS = "id int PRIMARY KEY, v text"
ROWS = [(1, "a"), (2, "b")]

#: Each writes as many rows of another table.
RULES = {
    "INSERT": "INSERT INTO public.aside VALUES (NEW.id, NEW.v)",
    "UPDATE": "UPDATE public.aside SET v = NEW.v WHERE id = OLD.id",
    "DELETE": "DELETE FROM public.aside WHERE id = OLD.id",
}
CHANGES = {
    "INSERT": "INSERT INTO {} VALUES (3, 'c')",
    "UPDATE": "UPDATE {} SET v = 'x' WHERE id = 1",
    "DELETE": "DELETE FROM {} WHERE id = 2",
}

every_rule = pytest.mark.parametrize("kind", RULES)


def misdirect(site: Site, table: str, kind: str) -> None:
    """Have all writes of a kind go to another table, which has the same rows."""
    run(
        site,
        f"CREATE TABLE public.aside ({COLUMNS})",
        f"INSERT INTO public.aside VALUES {', '.join(map(str, ROWS))}",
        f"CREATE RULE away AS ON {kind} TO {table} DO INSTEAD {RULES[kind]}",
    )


def found(site: Site, subject: str) -> str:
    return " ".join(f.what for f in doctor.examine(site) if f.subject == subject)


@every_rule
def test_a_push_does_not_go_elsewhere(sites: Directory, kind: str) -> None:
    link(sites, columns=COLUMNS)
    hq, jfk = sites["hq"], sites["jfk"]
    for site in (hq, jfk):
        as_refresh(site, f"INSERT INTO orders VALUES {', '.join(map(str, ROWS))}")
    misdirect(hq, "public.orders", kind)
    run(jfk, CHANGES[kind].format("orders"))
    assert deferred.push(jfk).errors == 1
    ((_, reason, code, _),) = parked(hq)
    assert (reason, code) == ("error", "SNP-009")
    assert rows(hq) == rows(hq, "aside") == ROWS
    run(hq, "DROP RULE away ON orders")
    assert [one.applied for one in deferred.retry_errors(hq)] == [True]
    assert rows(hq) == rows(jfk)


@every_rule
def test_a_synchronous_change_does_not_go_elsewhere(
    sites: Directory, kind: str
) -> None:
    link(sites, columns=COLUMNS, synchronous=True)
    hq, jfk = sites["hq"], sites["jfk"]
    for site in (hq, jfk):
        as_refresh(site, f"INSERT INTO orders VALUES {', '.join(map(str, ROWS))}")
    misdirect(hq, "public.orders", kind)
    with pytest.raises(RowCountMismatch), synchronous.begin(jfk) as connection:
        connection.exec_driver_sql(CHANGES[kind].format("orders"))
    assert rows(hq) == rows(hq, "aside") == rows(jfk) == ROWS


@pytest.mark.usefixtures("spark")
@every_rule
def test_a_refresh_does_not_go_elsewhere(sites: Directory, kind: str) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        f"CREATE TABLE public.t ({COLUMNS})",
        f"INSERT INTO public.t VALUES {', '.join(map(str, ROWS))}",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    assert "DO INSTEAD" not in found(jfk, "snap$_t") + found(hq, "t")
    misdirect(jfk, 'public."snap$_t"', kind)
    run(hq, CHANGES[kind].format("t"))
    with pytest.raises(CannotMerge, match="has a rule away"):
        refresh(jfk, "t")
    assert rows(jfk, "t") == rows(jfk, "aside") == ROWS
    assert "has a rule away" in found(jfk, "snap$_t")
    run(jfk, 'DROP RULE away ON "snap$_t"')
    refresh(jfk, "t")
    assert rows(jfk, "t") == rows(hq, "t") != ROWS
    misdirect(hq, "public.t", kind)
    assert "has a rule away" in found(hq, "t")


def test_only_an_updatable_snapshot_is_refused(sites: Directory) -> None:
    """Of a read-only one, nothing is written at the master."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, f"CREATE TABLE public.t ({COLUMNS})")
    misdirect(hq, "public.t", "DELETE")
    masters.create_snapshot_log(hq, "t")
    with pytest.raises(UnusableTable, match="has a rule away"):
        snapshots.create(jfk, "t", master="hq", updatable=True)
    snapshots.create(jfk, "t", master="hq")
    assert "has a rule" not in found(hq, "t")


@pytest.mark.usefixtures("spark")
def test_a_rule_that_writes_its_own_base_table_is_said(sites: Directory) -> None:
    """What it writes is taken for the refresh; what it writes elsewhere is not."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, f"CREATE TABLE orders ({COLUMNS})")
    log(hq, "orders")
    snapshots.create(jfk, "orders", master="hq", updatable=True)
    refresh(jfk, "orders")
    base = 'public."snap$_orders"'
    also = "CREATE OR REPLACE RULE {} AS ON DELETE TO {} DO ALSO {}"
    run(
        jfk,
        f"CREATE TABLE public.aside ({COLUMNS})",
        also.format("elsewhere", base, "INSERT INTO public.aside VALUES (OLD.id)"),
    )
    assert found(jfk, "snap$_orders") == ""
    for again in (
        f"INSERT INTO {base} VALUES (OLD.id + 100)",
        f"UPDATE {base} SET v = OLD.v WHERE id = OLD.id + 1",
        f"DELETE FROM ONLY {base}",
    ):
        run(jfk, also.format('"Again"', base, again))
        assert "its rule Again" in found(jfk, "snap$_orders"), again
