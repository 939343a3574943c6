"""Rows that a rule or a foreign key changes at one master of a group are listed."""

from collections.abc import Callable, Mapping

import pytest
from sqlalchemy import text

import deferred
import groups
import synchronous
from deferred.parked import differing
from groups.differences import differences
from masters import rules
from sites import Directory, Site
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, assert_masters_equal, found_group, push_all
from tests.linked_table import link, rows, run, run_each, run_everywhere

PARENT = "id int PRIMARY KEY, code text UNIQUE, note text"
CHILD = (
    "id int PRIMARY KEY,"
    " parent int REFERENCES parent (id) ON DELETE {} ON UPDATE CASCADE"
)
#: Two masters change the same row.
CLASH = {"lax": "UPDATE orders SET qty = 50", "hq": "UPDATE orders SET qty = 7"}
WHY = "rule {} settled a change of {} in another way than other masters may"


def order(sites: Mapping[str, Site], *masters: str) -> None:
    """A group of masters with one order."""
    found_group(sites, *masters)
    run(sites["hq"], "INSERT INTO orders (id, name, qty) VALUES (1, 'a', 5)")
    push_all(sites)


@prepared_once("hq", "lax")
def two(sites: Directory) -> None:
    """A group of hq and lax with one order."""
    order(sites, "hq", "lax")


@prepared_once("hq", "lax", "bos")
def three(sites: Directory) -> None:
    """The same of three masters."""
    order(sites, "hq", "lax", "bos")


def family(sites: Mapping[str, Site], action: str = "CASCADE") -> None:
    """A group of parents and children at all sites."""
    for site in sites.values():
        run(
            site,
            f"CREATE TABLE parent ({PARENT})",
            f"CREATE TABLE child ({CHILD.format(action)})",
        )
    found_group(sites, *sites, tables=("parent", "child"))
    run(
        sites["hq"],
        "INSERT INTO parent VALUES (5, 'a', ''), (6, 'b', '')",
        "INSERT INTO child VALUES (50, 5), (60, 6)",
    )
    push_all(sites)


def entries(site: Site) -> list[tuple[str, Mapping[str, str] | None, str]]:
    """What is listed at a master, whether or not it is equal by now."""
    with site.session() as connection:
        found = differing.listed(connection)
    return [(one.table.name, one.key, one.why) for one in found]


def keys(site: Site, table: str = "orders") -> list[str]:
    """The keys of the listed rows of a table; `*` is any row."""
    found = [key for name, key, _ in entries(site) if name == table]
    return sorted("*" if key is None else ",".join(key.values()) for key in found)


def settle_updates(site: Site, method: str, **parameters: object) -> None:
    rules.set_column_group(site, "orders", "amount", ["qty"])
    rules.add_update_resolution(
        site, "orders", "amount", method, parameters=parameters or None
    )


def clash(sites: Mapping[str, Site]) -> None:
    for name, statement in CLASH.items():
        run(sites[name], f"{statement} WHERE id = 1")
    push_all(sites)


# --- rules --------------------------------------------------------------------------


def test_rule_that_does_not_converge_lists_its_row(two: Directory) -> None:
    hq, lax = two["hq"], two["lax"]
    for site in (hq, lax):
        settle_updates(site, "discard")
    clash(two)
    assert rows(hq) != rows(lax)
    assert entries(hq) == [("orders", {"id": "1"}, WHY.format("discard", "lax"))]
    assert entries(lax) == [("orders", {"id": "1"}, WHY.format("discard", "hq"))]
    [told] = differences(hq, GROUP)
    assert (told.key, told.why) == ("id=1", WHY.format("discard", "lax"))
    run(hq, "UPDATE orders SET qty = 50 WHERE id = 1")
    assert differences(hq) == differences(lax) == []
    assert entries(hq) == entries(lax) == []


@pytest.mark.parametrize(
    ("method", "masters", "is_listed"),
    [
        ("additive", "three", False),
        ("minimum", "two", False),
        ("minimum", "three", True),
        ("overwrite", "two", True),
    ],
)
def test_rule_that_converges_lists_nothing(
    request: pytest.FixtureRequest, method: str, masters: str, is_listed: bool
) -> None:
    parameters = {"column": "qty"} if method == "minimum" else {}
    sites: Directory = request.getfixturevalue(masters)
    for site in sites.values():
        settle_updates(site, method, **parameters)
    clash(sites)
    assert bool(entries(sites["hq"])) == bool(entries(sites["lax"])) == is_listed
    if not is_listed:
        assert_masters_equal(sites, *sites)


def test_backup_of_the_newest_stamp_lists_nothing(two: Directory) -> None:
    """All masters rank rows of equal stamps alike."""
    for site in two.values():
        rules.set_column_group(site, "orders", "amount", ["qty", "at"])
        for method, column in (("latest_timestamp", "at"), ("maximum", "qty")):
            rules.add_update_resolution(
                site, "orders", "amount", method, parameters={"column": column}
            )
    for name, quantity in (("hq", 7), ("lax", 50)):
        run(two[name], f"UPDATE orders SET qty = {quantity}, at = '2026-01-01'")
    push_all(two)
    assert assert_masters_equal(two, "hq", "lax")[0][2] == 50
    assert entries(two["hq"]) == entries(two["lax"]) == []


def test_answer_to_a_snapshots_change_goes_to_all_masters(
    make_sites: Callable[..., Directory],
) -> None:
    """It begins where the rule decides."""
    sites = make_sites("hq", "lax", "jfk")
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites)
    order(sites, "hq", "lax")
    run_everywhere({"jfk": jfk}, "INSERT INTO orders (id, name, qty) VALUES (1,'a',5)")
    settle_updates(hq, "overwrite")
    rules.add_unique_resolution(
        hq, "orders", "orders_name_key", "append_site_name",
        parameters={"column": "name"},
    )  # fmt: skip
    run(hq, "UPDATE orders SET qty = 7 WHERE id = 1")
    run(jfk, "UPDATE orders SET qty = 50 WHERE id = 1")
    run(hq, "INSERT INTO orders (id, name) VALUES (2, 'b')")
    run(jfk, "INSERT INTO orders (id, name) VALUES (3, 'b')")
    push_all(sites)
    found = assert_masters_equal(sites, "hq", "lax")
    assert [row[:3] for row in found] == [
        (1, "a", 50),
        (2, "b", None),
        (3, "bjfk", None),
    ]
    assert entries(hq) == entries(sites["lax"]) == []


def test_answer_to_a_synchronous_change_goes_to_all_masters(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "lax", "jfk")
    link(sites, synchronous=True)
    order(sites, "hq", "lax")
    run_everywhere(
        {"jfk": sites["jfk"]}, "INSERT INTO orders (id, name, qty) VALUES (1,'a',5)"
    )
    settle_updates(sites["hq"], "overwrite")
    run(sites["hq"], "UPDATE orders SET qty = 7 WHERE id = 1")
    with synchronous.begin(sites["jfk"]) as connection:
        connection.execute(text("UPDATE public.orders SET qty = 50 WHERE id = 1"))
        connection.commit()
    push_all(sites)
    assert assert_masters_equal(sites, "hq", "lax")[0][2] == 50
    assert entries(sites["hq"]) == entries(sites["lax"]) == []


def test_answer_that_is_sent_on_does_not_reach_where_the_change_began(
    make_sites: Callable[..., Directory],
) -> None:
    """Hq's change is settled at lax, whose answer goes on to bos, not back to hq."""
    sites = make_sites("hq", "lax", "bos")
    found_group(sites, "hq", "lax", "bos", via={"bos": "lax"})
    run(sites["hq"], "INSERT INTO orders (id, qty) VALUES (1, 5)")
    push_all(sites)
    settle_updates(sites["lax"], "average")
    run(sites["lax"], "UPDATE orders SET qty = 50 WHERE id = 1")
    deferred.push(sites["lax"], "bos")
    run(sites["hq"], "UPDATE orders SET qty = 10 WHERE id = 1")
    deferred.push(sites["hq"], "lax")
    deferred.push(sites["lax"], "bos")
    quantities = [rows(sites[name])[0][2] for name in ("hq", "lax", "bos")]
    assert quantities == [10, 30, 30]
    assert keys(sites["lax"]) == ["1"]
    assert entries(sites["bos"]) == []


def test_transaction_that_is_parked_after_all_lists_nothing(two: Directory) -> None:
    """Until it is retried, when a rule settles all of it."""
    hq, lax = two["hq"], two["lax"]
    settle_updates(hq, "overwrite")
    run(hq, "INSERT INTO orders (id, name) VALUES (2, 'b')")
    push_all(two)
    run(hq, "UPDATE orders SET qty = 7 WHERE id = 1", "DELETE FROM orders WHERE id = 2")
    change = "UPDATE orders SET qty = 50 WHERE id = {}"
    run(lax, change.format(1), change.format(2))
    assert deferred.push(lax, "hq").errors == 1
    assert entries(hq) == []
    rules.add_delete_resolution(hq, "orders", "ignore")
    [error] = deferred.list_errors(hq)
    [report] = deferred.retry_errors(hq, [error.id])
    assert report.applied, report.reason
    assert [(key, why) for _, key, why in entries(hq)] == [
        ({"id": "1"}, WHY.format("overwrite", "lax")),
        ({"id": "2"}, WHY.format("ignore", "lax")),
    ]


def test_rules_settle_several_transactions_at_once(two: Directory) -> None:
    hq, lax = two["hq"], two["lax"]
    settle_updates(hq, "overwrite")
    run(hq, "INSERT INTO orders (id, qty) SELECT n, 5 FROM generate_series(2, 9) n")
    push_all(two)
    run(hq, "UPDATE orders SET qty = 7 WHERE id < 4")
    run_each(lax, *(f"UPDATE orders SET qty = 50 WHERE id = {n}" for n in range(1, 9)))
    report = deferred.push(lax, "hq")
    assert (report.transactions, report.errors) == (8, 0)
    found = run(hq, "SELECT count(DISTINCT xmin::text) FROM orders WHERE qty = 50")
    assert found == [(1,)], "not compiled"
    assert keys(hq) == ["1", "2", "3"]


def test_many_rows_are_listed_as_their_table(
    two: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(differing, "MANY", 2)
    hq, lax = two["hq"], two["lax"]
    settle_updates(hq, "overwrite")
    run(hq, "INSERT INTO orders (id, qty) SELECT n, 5 FROM generate_series(2, 9) n")
    push_all(two)
    run(hq, "UPDATE orders SET qty = 7")
    for n, listed in enumerate((["1"], ["1", "2"], ["*"], ["*", "4"]), 1):
        run(lax, f"UPDATE orders SET qty = 50 WHERE id = {n}")
        deferred.push(lax, "hq")
        assert keys(hq) == listed
    run(lax, "UPDATE orders SET qty = 50 WHERE id > 4")
    deferred.push(lax, "hq")
    assert keys(hq) == ["*"]
    run(lax, "UPDATE orders SET qty = 50")
    run(hq, "UPDATE orders SET qty = 50")
    assert differences(hq, tables=True) == []
    assert entries(hq) == []


def test_row_that_is_listed_again_while_it_is_compared_stays(two: Directory) -> None:
    hq, lax = two["hq"], two["lax"]
    settle_updates(hq, "overwrite")
    clash(two)
    with hq.session() as connection:
        found = [one.id for one in differing.listed(connection)]
    run(hq, "UPDATE orders SET qty = 8")
    run(lax, "UPDATE orders SET qty = 51")
    deferred.push(lax, "hq")
    with hq.transaction() as connection:
        differing.drop(connection, found)
    assert keys(hq) == ["1"]


def test_keys_are_those_by_which_the_queue_knows_rows(two: Directory) -> None:
    """The table has got another primary key since."""
    hq = two["hq"]
    groups.suspend(hq, GROUP)
    ddl = "DROP CONSTRAINT orders_pkey, ADD UNIQUE (id), ADD PRIMARY KEY (name)"
    groups.execute_ddl(hq, GROUP, f"ALTER TABLE orders {ddl}")
    groups.resume(hq, GROUP)
    settle_updates(hq, "discard")
    clash(two)
    assert [key for _, key, _ in entries(hq)] == [{"name": "a"}]
    [told] = differences(hq)
    assert told.key == "name=a"


def test_rows_that_follow_a_renamed_row_are_listed(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "lax")
    for site in sites.values():
        run(
            site,
            "CREATE TABLE product (code text PRIMARY KEY)",
            "CREATE TABLE line (code text REFERENCES product, n int,"
            " PRIMARY KEY (code, n))",
        )
    found_group(sites, "hq", "lax", tables=("product", "line"))
    hq, lax = sites["hq"], sites["lax"]
    rules.add_unique_resolution(
        hq, "product", "product_pkey", "append_site_name", parameters={"column": "code"}
    )
    run(hq, "INSERT INTO product VALUES ('a')")
    run(lax, "INSERT INTO product VALUES ('a')", "INSERT INTO line VALUES ('a', 1)")
    assert deferred.push(lax, "hq").errors == 0
    assert rows(hq, "line") == [("alax", 1)]
    assert keys(hq, "product") == ["a", "alax"]
    assert keys(hq, "line") == ["1,a", "1,alax"]


# --- foreign keys -------------------------------------------------------------------

#: What lax does to parent 5, whose key another parent then gets.
TAKEN_ALONG = {
    "deleted": "DELETE FROM parent WHERE id = 5",
    "given another key": "UPDATE parent SET id = 7 WHERE id = 5",
}


@pytest.mark.parametrize("what", TAKEN_ALONG)
@pytest.mark.parametrize("action", ["CASCADE", "SET NULL"])
def test_row_that_a_foreign_key_takes_along_at_one_master(
    make_sites: Callable[..., Directory], what: str, action: str
) -> None:
    """At lax, it then refers to the other parent; no conflict tells of it."""
    sites = make_sites("hq", "lax")
    family(sites, action)
    hq, lax = sites["hq"], sites["lax"]
    rules.add_delete_resolution(hq, "parent", "cascade")
    run(hq, "UPDATE child SET parent = 5 WHERE id = 60")
    run_each(lax, TAKEN_ALONG[what], "INSERT INTO parent VALUES (5, 'c', '')")
    assert deferred.push(lax, "hq").errors == deferred.push(hq, "lax").errors == 0
    assert rows(hq, "child") != rows(lax, "child")
    assert keys(hq, "child") == ["60"]
    [told] = differences(hq)
    assert (told.table, told.key) == ("child", "id=60")
    assert told.why == "a foreign key acted on rows that a change of lax reached"
    for site in (hq, lax):
        run(site, "DELETE FROM child WHERE id = 60")
    assert differences(hq) == []


@pytest.mark.parametrize("how", ["on its way", "in an error queue"])
def test_equal_row_stays_listed_while_a_change_may_come(
    make_sites: Callable[..., Directory], how: str
) -> None:
    """Hq has lost a child that lax does not have yet."""
    sites = make_sites("hq", "lax")
    family(sites)
    hq, lax = sites["hq"], sites["lax"]
    rules.add_delete_resolution(hq, "parent", "cascade")
    run(hq, "INSERT INTO child VALUES (61, 5)")
    run(lax, "DELETE FROM parent WHERE id = 5")
    deferred.push(lax, "hq")
    if how == "in an error queue":
        assert deferred.push(hq, "lax").errors == 1
    assert differences(hq) == []
    run(lax, "INSERT INTO parent VALUES (5, 'c', '')")
    deferred.push(lax, "hq")
    if how == "on its way":
        assert deferred.push(hq, "lax").errors == 0
    else:
        [error] = deferred.list_errors(lax)
        assert deferred.retry_errors(lax, [error.id])[0].applied
    assert (61, 5) in rows(lax, "child")
    assert [one.key for one in differences(hq)] == ["id=61"]
    run(lax, "DELETE FROM child WHERE id = 61")
    assert differences(hq) == []
    assert entries(hq) == []


def test_row_whose_own_key_follows(make_sites: Callable[..., Directory]) -> None:
    """Listed under both keys, and so is one that refers to it in turn."""
    sites = make_sites("hq", "lax")
    line = (
        "parent int REFERENCES parent ON UPDATE CASCADE, n int, PRIMARY KEY (parent, n)"
    )
    part = (
        "id int PRIMARY KEY, parent int, n int,"
        " FOREIGN KEY (parent, n) REFERENCES line ON UPDATE CASCADE"
    )
    for site in sites.values():
        run(
            site,
            f"CREATE TABLE parent ({PARENT})",
            f"CREATE TABLE line ({line})",
            f"CREATE TABLE part ({part})",
        )
    found_group(sites, "hq", "lax", tables=("parent", "line", "part"))
    hq, lax = sites["hq"], sites["lax"]
    run(hq, "INSERT INTO parent VALUES (5, 'a', '')")
    push_all(sites)
    run(hq, "INSERT INTO line VALUES (5, 1)", "INSERT INTO part VALUES (50, 5, 1)")
    run(lax, "UPDATE parent SET id = 7")
    assert deferred.push(lax, "hq").errors == 0
    assert rows(hq, "part") == [(50, 7, 1)]
    assert keys(hq, "line") == ["1,5", "1,7"]
    assert keys(hq, "part") == ["50"]


def test_rows_of_a_change_that_a_rule_drops_are_not_taken_along(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "lax")
    family(sites)
    hq, lax = sites["hq"], sites["lax"]
    rules.add_delete_resolution(hq, "parent", "ignore")
    run(hq, "UPDATE child SET parent = 5 WHERE id = 60")
    run(lax, "DELETE FROM parent WHERE id = 5")
    assert deferred.push(lax, "hq").errors == 0
    assert rows(hq, "child") == [(60, 5)]
    assert keys(hq, "parent") == ["5"]
    assert keys(hq, "child") == []


def test_what_a_foreign_key_does_for_a_snapshots_change_goes_to_all_masters(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "lax", "jfk")
    link(sites, "parent", PARENT)
    run(sites["hq"], f"CREATE TABLE child ({CHILD.format('CASCADE')})")
    run(
        sites["lax"],
        f"CREATE TABLE parent ({PARENT})",
        f"CREATE TABLE child ({CHILD.format('CASCADE')})",
    )
    found_group(sites, "hq", "lax", tables=("parent", "child"))
    run_each(
        sites["jfk"],
        "INSERT INTO parent VALUES (5, 'a', '')",
        "INSERT INTO parent VALUES (6, 'b', '')",
    )
    push_all(sites)
    run(sites["hq"], "INSERT INTO child VALUES (50, 5), (60, 6)")
    rules.add_delete_resolution(sites["hq"], "parent", "cascade")
    run_each(
        sites["jfk"],
        "UPDATE parent SET id = 7 WHERE id = 5",
        "DELETE FROM parent WHERE id = 6",
    )
    push_all(sites)
    for name in ("hq", "lax"):
        assert rows(sites[name], "child") == [(50, 7)]
        assert deferred.list_errors(sites[name]) == []
        assert entries(sites[name]) == []
