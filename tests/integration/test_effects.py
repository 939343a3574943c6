"""What users' triggers and procedures change because of what Snaptide writes.

It is a change made there, whoever made the cause: queued and sent on as any other.
"""

import json
from collections.abc import Callable

import pytest
from sqlalchemy import text

import deferred
import groups
import masters
import snapshots
import synchronous
from groups import TargetType
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.grouped import (
    GROUP,
    assert_masters_equal,
    found_group,
    group_id,
    push_all,
)
from tests.linked_table import (
    ORDERS,
    as_refresh,
    calls,
    link,
    parked,
    queued,
    rows,
    run,
)

STOCK = "id int PRIMARY KEY, qty int"

UPDATE = "UPDATE public.stock SET qty = qty - NEW.qty WHERE id = 1"
TAKE = f"""
CREATE FUNCTION public.take() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {UPDATE};
    RETURN NULL;
END $$;
CREATE TRIGGER take AFTER INSERT ON public.orders
FOR EACH ROW EXECUTE FUNCTION public.take()
"""

PLACE = "INSERT INTO public.orders (id, qty) VALUES (1, 3)"

#: Functions that an INSERT at a master runs at the depth of the push's own statement.
CALLED = {
    language: f"""
CREATE FUNCTION public.counted(n int) RETURNS boolean
LANGUAGE {language} AS $$ {body} $$;
ALTER TABLE public.orders ADD CONSTRAINT counted CHECK (public.counted(qty)) NOT VALID
"""
    for language, body in {
        "sql": f"{UPDATE.replace('NEW.qty', 'n')}; SELECT true",
        "plpgsql": f"BEGIN {UPDATE.replace('NEW.qty', 'n')}; RETURN true; END",
    }.items()
}


def _stock(sites: Directory, *, synchronous: bool = False) -> None:
    """Orders of jfk at hq, where each takes from the stock, of which lax is master."""
    link(sites, synchronous=synchronous)
    link(sites, "stock", STOCK, origin="hq", master="lax")
    for name in ("hq", "lax"):
        as_refresh(sites[name], "INSERT INTO stock VALUES (1, 10)")
    run(sites["hq"], TAKE)


@prepared_once("hq", "jfk", "lax")
def stock(sites: Directory) -> None:
    _stock(sites)


def assert_taken(sites: Directory, left: int = 7) -> None:
    """The stock's master has what the order took at the master of orders."""
    assert rows(sites["hq"], "stock") == [(1, left)]
    report = deferred.push(sites["hq"], "lax")
    assert (report.transactions, report.errors) == (1, 0)
    assert rows(sites["lax"], "stock") == [(1, left)]


def test_of_a_push(stock: Directory) -> None:
    run(stock["jfk"], PLACE)
    assert deferred.push(stock["jfk"], "hq").errors == 0
    assert run(
        stock["hq"],
        "SELECT origin_user = session_user, origin, origin_transaction"
        " FROM snaptide.deferred_transaction",
    ) == [(True, None, None)]
    assert_taken(stock)


@pytest.mark.parametrize("batch_size", [1, 1000])
def test_of_several_transactions(stock: Directory, batch_size: int) -> None:
    for n in (1, 2, 3):
        run(stock["jfk"], f"INSERT INTO orders (id, qty) VALUES ({n}, {n})")
    deferred.push(stock["jfk"], "hq", batch_size=batch_size)
    assert rows(stock["hq"], "stock") == [(1, 4)]
    assert deferred.push(stock["hq"], "lax").errors == 0
    assert rows(stock["lax"], "stock") == [(1, 4)]


def test_of_a_retry(stock: Directory) -> None:
    run(stock["hq"], "ALTER TABLE orders ADD CONSTRAINT few CHECK (qty < 3)")
    run(stock["jfk"], PLACE)
    assert deferred.push(stock["jfk"], "hq").errors == 1
    assert queued(stock["hq"]) == 0
    run(stock["hq"], "ALTER TABLE orders DROP CONSTRAINT few")
    [report] = deferred.retry_errors(stock["hq"])
    assert report.applied
    assert_taken(stock)


def test_of_a_synchronous_change(make_sites: Callable[..., Directory]) -> None:
    sites = make_sites("hq", "jfk", "lax")
    _stock(sites, synchronous=True)
    with synchronous.begin(sites["jfk"]) as connection:
        connection.execute(text(PLACE))
    assert_taken(sites)


def test_of_a_procedure(stock: Directory) -> None:
    run(
        stock["hq"],
        "CREATE PROCEDURE public.give(n int) LANGUAGE sql"
        " AS 'UPDATE public.stock SET qty = qty - n'",
    )
    deferred.allow_procedure(stock["hq"], "give")
    with stock["jfk"].begin() as connection:
        deferred.call(connection, "give", [3])
    assert deferred.push(stock["jfk"], "hq").errors == 0
    assert_taken(stock)


def test_of_a_refresh(stock: Directory) -> None:
    """The site that has the trigger here is hq, for what it gets from elsewhere."""
    link(stock, "prices", STOCK, origin="hq", master="lax")
    run(stock["hq"], TAKE.replace("orders", "prices").replace("take", "dear"))
    as_refresh(stock["hq"], "INSERT INTO prices VALUES (1, 4)")
    assert_taken(stock, left=6)
    assert [call[0] for call in calls(stock["hq"])] == ["stock"]


def test_one_that_is_refused_parks_its_cause(stock: Directory) -> None:
    """The stock of a synchronous snapshot cannot be changed like this: one is told."""
    link(stock, "exact", STOCK, origin="hq", master="lax", synchronous=True)
    for name in ("hq", "lax"):
        as_refresh(stock[name], "INSERT INTO exact VALUES (1, 10)")
    run(stock["hq"], TAKE.replace("stock", "exact").replace("take", "take_exactly"))
    run(stock["jfk"], PLACE, "INSERT INTO orders (id, qty) VALUES (2, 1)")
    assert deferred.push(stock["jfk"], "hq").errors == 1
    assert [row[2] for row in parked(stock["hq"])] == ["P0001"]
    assert rows(stock["hq"], "exact") == rows(stock["lax"], "exact")


@pytest.mark.usefixtures("spark")
def test_a_read_only_snapshot_is_refused(stock: Directory) -> None:
    run(stock["lax"], f"CREATE TABLE prices ({STOCK})", "INSERT INTO prices VALUES (1)")
    masters.create_snapshot_log(stock["lax"], "prices")
    snapshots.create(stock["hq"], "prices", master="lax")
    snapshots.refresh(stock["hq"], "prices")
    base = '"snap$_prices"'
    run(stock["hq"], TAKE.replace("stock", base).replace("take", "raise_price"))
    run(stock["jfk"], PLACE)
    assert deferred.push(stock["jfk"], "hq").errors == 1
    [error] = deferred.list_errors(stock["hq"])
    assert "read-only" in error.error_message
    run(stock["lax"], "UPDATE prices SET qty = 5")
    assert snapshots.refresh(stock["hq"], "prices").snapshots[0].updated == 1


@pytest.mark.usefixtures("spark")
def test_a_read_only_snapshot_is_refused_during_a_refresh(stock: Directory) -> None:
    hq, lax = stock["hq"], stock["lax"]
    for name in ("prices", "labels"):
        run(lax, f"CREATE TABLE {name} ({STOCK})", f"INSERT INTO {name} VALUES (1, 1)")
        masters.create_snapshot_log(lax, name)
        snapshots.create(hq, name, master="lax")
        snapshots.refresh(hq, name)
    take = TAKE.replace("INSERT", "UPDATE").replace("stock", '"snap$_labels"')
    run(hq, take.replace("orders", '"snap$_prices"').replace("take", "relabel"))
    run(lax, "UPDATE prices SET qty = 5")
    [report] = snapshots.refresh(hq, "prices").snapshots
    assert (report.updated, report.held_back) == (0, 1)
    [why] = report.refused
    assert "read-only" in why
    assert rows(hq, '"snap$_labels"') == [(1, 1)]


NOTED = """
CREATE FUNCTION public.noted(n int) RETURNS boolean LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO public."snap$_labels" VALUES (2, n); RETURN true; END $$;
ALTER TABLE "snap$_prices" ADD CHECK (public.noted(qty)) NOT VALID
"""
RULE = 'CREATE RULE also AS ON UPDATE TO "snap$_prices" DO ALSO '

#: What acts at the depth of the merge's own statement, and yet is no cascade.
BESIDES = {
    "a rule inserts": RULE + 'INSERT INTO "snap$_labels" VALUES (2, NEW.qty)',
    "a rule updates": RULE + 'UPDATE "snap$_labels" SET qty = NEW.qty',
    "a check inserts": NOTED,
    # The key has an action, but no refresh writes the table that it refers to.
    "a rule updates rows that others would": RULE
    + 'UPDATE "snap$_labels" SET qty = NEW.qty; CREATE TABLE kinds (id int PRIMARY KEY)'
    + '; ALTER TABLE "snap$_labels" ADD kind int REFERENCES kinds ON DELETE CASCADE',
}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("besides", BESIDES)
@pytest.mark.parametrize("updatable", [True, False])
def test_what_is_done_besides_a_refresh(
    sites: Directory, besides: str, updatable: bool
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    for name in ("prices", "labels"):
        run(hq, f"CREATE TABLE {name} ({STOCK})", f"INSERT INTO {name} VALUES (1, 1)")
        masters.create_snapshot_log(hq, name)
        snapshots.create(jfk, name, master="hq", updatable=updatable)
        snapshots.refresh(jfk, name)
    run(jfk, BESIDES[besides])
    run(hq, "UPDATE prices SET qty = 5")
    [report] = snapshots.refresh(jfk, "prices").snapshots
    if updatable:
        assert (report.updated, report.held_back) == (1, 0)
        assert deferred.push(jfk).transactions == 1
        assert rows(hq, "labels") == rows(jfk, "labels") != [(1, 1)]
    else:
        assert (report.updated, report.held_back) == (0, 1)
        [why] = report.refused
        assert "read-only" in why
        assert rows(hq, "labels") == rows(jfk, "labels") == [(1, 1)]


NOTED_THERE = """
CREATE FUNCTION public.noted(n int) RETURNS boolean LANGUAGE plpgsql AS
$$ BEGIN
    IF n = 5 THEN INSERT INTO public."snap$_prices" VALUES (2, 0); END IF;
    RETURN true;
END $$;
ALTER TABLE "snap$_prices" ADD CHECK (public.noted(qty)) NOT VALID
"""


@pytest.mark.usefixtures("spark")
def test_of_a_check_of_the_very_table_that_a_refresh_writes(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, f"CREATE TABLE prices ({STOCK})", "INSERT INTO prices VALUES (1, 1)")
    masters.create_snapshot_log(hq, "prices")
    snapshots.create(jfk, "prices", master="hq", updatable=True)
    snapshots.refresh(jfk, "prices")
    run(jfk, NOTED_THERE)
    run(hq, "UPDATE prices SET qty = 5")
    [report] = snapshots.refresh(jfk, "prices").snapshots
    assert (report.updated, report.held_back) == (1, 0)
    assert deferred.push(jfk).transactions == 1
    assert rows(hq, "prices") == rows(jfk, "prices") == [(1, 5), (2, 0)]


@pytest.mark.parametrize(
    ("change", "undo"),
    [
        (TAKE, "DROP TRIGGER take ON orders"),
        (CALLED["plpgsql"], "ALTER TABLE orders DROP CONSTRAINT counted"),
    ],
)
def test_a_protected_master_is_refused(
    make_sites: Callable[..., Directory], change: str, undo: str
) -> None:
    """So is what a push takes along there, by a trigger or check that nobody asks."""
    sites = make_sites("hq", "lax", "copy")
    for site in sites.values():
        run(site, f"CREATE TABLE stock ({STOCK})")
    run(sites["copy"], f"CREATE TABLE orders ({ORDERS})")
    found_group(sites, "hq", "lax", tables=("orders", "stock"))
    groups.add_master(
        sites["hq"], GROUP, "copy", target_type=TargetType.PROTECTED_READ_ONLY
    )
    run(sites["hq"], "INSERT INTO stock VALUES (1, 10)")
    push_all(sites)
    run(sites["copy"], change)
    run(sites["lax"], PLACE)
    push_all(sites)
    [error] = deferred.list_errors(sites["copy"])
    assert "changes public.stock" in error.error_message
    assert rows(sites["copy"], "stock") == [(1, 10)]
    run(sites["copy"], undo)
    deferred.retry_errors(sites["copy"])
    assert_masters_equal(sites, "hq", "lax", "copy")


def test_a_group_table_is_not_truncated(make_sites: Callable[..., Directory]) -> None:
    """No master would send that on."""
    sites = make_sites("hq", "lax")
    for site in sites.values():
        run(site, f"CREATE TABLE stock ({STOCK})")
    found_group(sites, "hq", "lax", tables=("orders", "stock"))
    run(sites["hq"], "INSERT INTO stock VALUES (1, 10)")
    push_all(sites)
    run(sites["lax"], TAKE.replace(UPDATE, "TRUNCATE public.stock"))
    run(sites["hq"], PLACE)
    push_all(sites)
    assert [row[2] for row in parked(sites["lax"])] == ["P0001"]
    assert rows(sites["lax"], "stock") == rows(sites["hq"], "stock")


def test_what_a_foreign_key_does_at_a_protected_master_passes(
    make_sites: Callable[..., Directory],
) -> None:
    """It is part of the statement that a master has sent."""
    sites = make_sites("hq", "copy")
    below = f"{STOCK}, up int REFERENCES orders (id) ON DELETE CASCADE"
    for site in sites.values():
        run(site, f"CREATE TABLE orders ({ORDERS})", f"CREATE TABLE below ({below})")
    found_group(sites, "hq", tables=("orders", "below"))
    groups.add_master(
        sites["hq"], GROUP, "copy", target_type=TargetType.PROTECTED_READ_ONLY
    )
    run(sites["hq"], PLACE, "INSERT INTO below VALUES (1, 1, 1)")
    push_all(sites)
    facts = json.dumps({"sources": {str(group_id(sites["copy"])): "hq"}})
    run(
        sites["copy"],
        "SET LOCAL snaptide.origin = 'hq'",
        f"SET LOCAL snaptide.transaction = '{facts}'",
        "DELETE FROM orders",
    )
    assert rows(sites["copy"], "below") == []


def test_between_masters(make_sites: Callable[..., Directory]) -> None:
    """Only lax counts orders, and counts those that come from hq too."""
    sites = make_sites("hq", "lax", "bos")
    names = ("hq", "lax", "bos")
    for name in names:
        run(sites[name], f"CREATE TABLE stock ({STOCK})")
    found_group(sites, *names, tables=("orders", "stock"))
    run(sites["hq"], "INSERT INTO stock VALUES (1, 10)")
    push_all(sites)
    run(sites["lax"], TAKE)
    run(sites["hq"], PLACE)
    push_all(sites)
    assert rows(sites["hq"], "stock") == [(1, 7)]
    assert_masters_equal(sites, *names)
    for name in names[1:]:
        assert rows(sites[name], "stock") == [(1, 7)]


@pytest.mark.parametrize("language", CALLED)
@pytest.mark.parametrize("other", [(), ("INSERT INTO stock VALUES (2, 2)",)])
def test_of_a_check_between_masters(
    make_sites: Callable[..., Directory], language: str, other: tuple[str, ...]
) -> None:
    """Also where the transaction writes the table that the check's function writes."""
    sites = make_sites("hq", "lax", "bos")
    names = ("hq", "lax", "bos")
    for name in names:
        run(sites[name], f"CREATE TABLE stock ({STOCK})")
    found_group(sites, *names, tables=("orders", "stock"))
    run(sites["hq"], "INSERT INTO stock VALUES (1, 10)")
    push_all(sites)
    run(sites["lax"], CALLED[language])
    run(sites["hq"], PLACE, *other)
    push_all(sites)
    for name in names:
        assert run(sites[name], "SELECT qty FROM stock WHERE id = 1") == [(7,)], name
    assert_masters_equal(sites, *names)


def test_none_where_the_server_tells_parameters_of_errors(
    make_sites: Callable[..., Directory],
) -> None:
    """Its context has a line for those of a push's own statement then."""
    sites = make_sites("hq", "lax")
    found_group(sites, "hq", "lax")
    for site in sites.values():
        name = site.url.database
        run(site, f'ALTER DATABASE "{name}" SET log_parameter_max_length_on_error = -1')
        site.release()
    run(sites["hq"], PLACE)
    assert push_all(sites) == 1
    assert assert_masters_equal(sites, "hq", "lax")


def test_on_the_way_to_another_master(make_sites: Callable[..., Directory]) -> None:
    """What began at hq goes on to bos, what lax makes of it should go to both."""
    sites = make_sites("hq", "lax", "bos")
    names = ("hq", "lax", "bos")
    for name in names:
        run(sites[name], f"CREATE TABLE stock ({STOCK})")
    found_group(sites, *names, via={"bos": "lax"}, tables=("orders", "stock"))
    run(sites["hq"], "INSERT INTO stock VALUES (1, 10)")
    push_all(sites)
    run(sites["lax"], TAKE)
    run(sites["hq"], PLACE)
    push_all(sites)
    [error] = deferred.list_errors(sites["lax"])
    assert "goes on from here" in error.error_message
    assert rows(sites["lax"], "stock") == rows(sites["hq"], "stock")
    run(sites["lax"], "DROP TRIGGER take ON orders")
    deferred.retry_errors(sites["lax"])
    push_all(sites)
    assert_masters_equal(sites, *names)


def test_of_a_snapshot_site_goes_to_all_masters(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "lax", "jfk")
    link(sites)
    for name in ("hq", "lax"):
        run(sites[name], f"CREATE TABLE stock ({STOCK})")
    found_group(sites, "hq", "lax", tables=("orders", "stock"))
    run(sites["hq"], "INSERT INTO stock VALUES (1, 10)", TAKE)
    run(sites["jfk"], PLACE)
    push_all(sites)
    assert_masters_equal(sites, "hq", "lax")
    assert rows(sites["lax"], "stock") == [(1, 7)]


GUARDED = """
CREATE TABLE public.heard (site text, way text);
CREATE FUNCTION public.hear() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.heard VALUES (snaptide.comes_from(), snaptide.comes_by());
    RETURN NULL;
END $$;
CREATE TRIGGER hear AFTER INSERT OR UPDATE ON public.orders
EXECUTE FUNCTION public.hear()
"""


def test_trigger_asks_where_a_change_comes_from(stock: Directory) -> None:
    for name in ("hq", "jfk"):
        run(stock[name], GUARDED)
    run(
        stock["hq"],
        "CREATE PROCEDURE public.more() LANGUAGE sql"
        " AS 'UPDATE public.orders SET qty = qty + 1'",
    )
    deferred.allow_procedure(stock["hq"], "more")
    with stock["jfk"].begin() as connection:
        connection.execute(text(PLACE))
        deferred.call(connection, "more")
    deferred.push(stock["jfk"], "hq")
    run(stock["hq"], "UPDATE orders SET qty = 9")
    as_refresh(stock["jfk"], "UPDATE public.orders SET qty = 9")
    assert run(stock["hq"], "SELECT * FROM heard") == [
        ("jfk", "push"),
        (None, None),
        (None, None),
    ]
    assert run(stock["jfk"], "SELECT * FROM heard") == [(None, None), ("hq", "refresh")]


def test_trigger_asks_in_a_synchronous_change(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "jfk")
    link(sites, synchronous=True)
    run(sites["hq"], GUARDED)
    with synchronous.begin(sites["jfk"]) as connection:
        connection.execute(text(PLACE))
    assert run(sites["hq"], "SELECT * FROM heard") == [("jfk", "synchronous")]


def test_cascade_among_the_rows_of_one_table_leaves_extra_keys(
    sites: Directory,
) -> None:
    """The master may keep the row below: its parent has only left the snapshot."""
    tree = "id int PRIMARY KEY, up int REFERENCES orders (id) {0} DEFERRABLE, qty int"
    link(sites, columns=tree.format("ON DELETE CASCADE"))
    as_refresh(sites["jfk"], "INSERT INTO orders VALUES (1, NULL, 1), (2, 1, 2)")
    as_refresh(sites["jfk"], "DELETE FROM orders WHERE id = 1")
    assert calls(sites["jfk"]) == []
    extra = 'SELECT DISTINCT k1 FROM snaptide."extra$_orders" ORDER BY 1'
    assert (2,) in run(sites["jfk"], extra)
