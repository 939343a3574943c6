"""Rows that refer to a row of their transaction which a rule drops or renames."""

import pytest

import deferred
from deferred.options import ErrorAction
from masters import rules
from masters.analysis import records, replay
from masters.rules import rulebook
from sites import Directory, Site
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, parked, rows, run

TREE = "code text PRIMARY KEY, v int, up text REFERENCES tree (code)"


@prepared_once("hq", "jfk")
def shop(sites: Directory) -> None:
    """Customers by code and name, their orders, and lines of those; a tree.

    The master has a customer C and an order 5 that the site has not seen.
    """
    # Queued, and so looked at, before what they refer to.
    parts = {
        "customer": "code text PRIMARY KEY, name varchar(20) UNIQUE, v int",
        "orders": "id int PRIMARY KEY, customer text REFERENCES customer (code),"
        " name varchar(20) REFERENCES customer (name) ON UPDATE CASCADE",
        "line": "orders int REFERENCES orders (id), no int, v int,"
        " PRIMARY KEY (orders, no)",
        "item": "customer text REFERENCES customer (code), no int, v int,"
        " PRIMARY KEY (customer, no)",
        "part": "id int PRIMARY KEY, customer text, no int,"
        " FOREIGN KEY (customer, no) REFERENCES item (customer, no)",
        "tree": TREE,
        "node": "town text, no int, up int, PRIMARY KEY (town, no),"
        " FOREIGN KEY (town, up) REFERENCES node (town, no)",
    }
    for table, columns in parts.items():
        link(sites, table, columns)
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO customer VALUES ('A', 'Anu', 0), ('B', 'Bel', 0)",
            "INSERT INTO orders VALUES (1, 'A', 'Anu'), (2, 'B', 'Bel')",
            "INSERT INTO line VALUES (1, 1, 0)",
        )
    as_refresh(
        sites["hq"],
        "INSERT INTO customer VALUES ('C', 'Theirs', 0)",
        "INSERT INTO orders VALUES (5, 'C', 'Theirs')",
        "INSERT INTO tree VALUES ('R', 0)",
        "INSERT INTO node VALUES ('Ur', 1)",
    )


def unique_rule(hq: Site, constraint: str, method: str, **parameters: object) -> None:
    table = constraint.partition("_")[0]
    rules.add_unique_resolution(hq, table, constraint, method, parameters=parameters)


def recorded(hq: Site) -> list[tuple[str, str, str, str]]:
    found = records.list_resolutions(hq)
    return sorted((r.table_name, r.kind, r.method, r.decision) for r in found)


def test_rows_go_with_the_row_that_is_dropped(shop: Directory) -> None:
    """The lines of the site's order 5 are not lines of the other order 5."""
    hq, jfk = shop["hq"], shop["jfk"]
    unique_rule(hq, "orders_pkey", "discard")
    run(
        jfk,
        "INSERT INTO orders VALUES (5, 'A', 'Anu'), (6, 'A', 'Anu')",
        "INSERT INTO line VALUES (5, 1, 0), (5, 2, 0), (6, 1, 0)",
        "UPDATE customer SET v = 1 WHERE code = 'A'",
    )
    report = deferred.push(jfk)
    assert (report.errors, report.conflicts_resolved) == (0, 3)
    assert rows(hq, "line") == [(1, 1, 0), (6, 1, 0)]
    assert [row[0] for row in rows(hq)] == [1, 2, 5, 6]
    assert rows(hq, "customer")[0] == ("A", "Anu", 1)
    assert recorded(hq) == [
        ("line", "reference", "discard", "ignore"),
        ("line", "reference", "discard", "ignore"),
        ("orders", "uniqueness", "discard", "ignore"),
    ]
    [one, *_] = [r for r in records.list_resolutions(hq) if r.kind == "reference"]
    assert one.row_key == {"orders": "5", "no": "2"}
    assert (one.reference, one.result_values) == ("line_orders_fkey", None)
    assert one.reason == "refers to a row of orders that was dropped"
    # Nothing else would come of other rules: the conflict is that of the order.
    again = replay.replay(hq, rulebook.export(hq))
    assert [each.kind for each in again] == ["uniqueness"]


def test_rows_go_along_through_several_tables(shop: Directory) -> None:
    hq, jfk = shop["hq"], shop["jfk"]
    unique_rule(hq, "customer_pkey", "discard")
    run(
        jfk,
        "INSERT INTO customer VALUES ('C', 'Mine', 0)",
        "INSERT INTO item VALUES ('C', 1, 0), ('A', 1, 0)",
        "INSERT INTO part VALUES (1, 'C', 1), (2, 'A', 1), (3, NULL, 1)",
        "INSERT INTO orders VALUES (7, 'C', NULL), (8, 'A', NULL)",
        "INSERT INTO line VALUES (7, 1, 0), (8, 1, 0)",
    )
    deferred.push(jfk)
    assert parked(hq) == []
    assert [row[0] for row in rows(hq)] == [1, 2, 5, 8]
    assert rows(hq, "item") == [("A", 1, 0)]
    assert [row[0] for row in rows(hq, "part")] == [2, 3]
    assert rows(hq, "line") == [(1, 1, 0), (8, 1, 0)]
    assert len(recorded(hq)) == 5


def test_update_that_refers_to_a_dropped_row_goes_with_it(shop: Directory) -> None:
    hq, jfk = shop["hq"], shop["jfk"]
    unique_rule(hq, "customer_pkey", "discard")
    run(
        jfk,
        "INSERT INTO customer VALUES ('C', 'Mine', 0)",
        "UPDATE orders SET customer = 'C' WHERE id = 1",
        "UPDATE orders SET customer = 'A' WHERE id = 2",
    )
    deferred.push(jfk)
    assert rows(hq)[:2] == [(1, "A", "Anu"), (2, "A", "Bel")]
    assert recorded(hq) == [
        ("customer", "uniqueness", "discard", "ignore"),
        ("orders", "reference", "discard", "ignore"),
    ]


@pytest.mark.parametrize("method", ["append_site_name", "append_sequence"])
def test_rows_refer_to_the_key_that_the_row_gets(shop: Directory, method: str) -> None:
    """Their own keys too, and what refers to those; the number found is taken too."""
    hq, jfk = shop["hq"], shop["jfk"]
    unique_rule(hq, "customer_pkey", method, column="code")
    as_refresh(hq, "INSERT INTO customer VALUES ('C1', 'One', 0)")
    run(
        jfk,
        "INSERT INTO customer VALUES ('C', 'Mine', 0)",
        "INSERT INTO item VALUES ('C', 1, 0), ('A', 1, 0)",
        "INSERT INTO part VALUES (1, 'C', 1), (2, 'A', 1)",
        "INSERT INTO orders VALUES (7, 'C', NULL)",
        "UPDATE orders SET customer = 'C' WHERE id = 1",
    )
    deferred.push(jfk)
    code = "Cjfk" if method == "append_site_name" else "C2"
    assert parked(hq) == []
    assert (code, "Mine", 0) in rows(hq, "customer")
    assert rows(hq, "item") == [("A", 1, 0), (code, 1, 0)]
    assert rows(hq, "part") == [(1, code, 1), (2, "A", 1)]
    assert [row[1] for row in rows(hq)] == [code, "B", "C", code]
    found = [r for r in records.list_resolutions(hq) if r.kind == "reference"]
    assert {r.decision for r in found} == {"site_wins"}
    assert [r.table_name for r in found] == ["part", "item", "orders", "orders"]
    assert found[1].new_values == {"customer": "C", "no": "1", "v": "0"}
    assert found[1].result_values == {"customer": code, "no": "1", "v": "0"}


def test_rows_refer_to_the_unique_value_that_the_row_gets(shop: Directory) -> None:
    """Also where the site's foreign key has carried a change of it to them."""
    hq, jfk = shop["hq"], shop["jfk"]
    unique_rule(hq, "customer_name_key", "append_site_name", column="name")
    run(
        jfk,
        "INSERT INTO customer VALUES ('D', 'Theirs', 0)",
        "INSERT INTO orders VALUES (7, 'D', 'Theirs')",
    )
    deferred.push(jfk)
    assert rows(hq)[-1] == (7, "D", "Theirsjfk")
    as_refresh(hq, "UPDATE customer SET name = 'Enki' WHERE code = 'C'")
    run(
        jfk,
        "UPDATE customer SET name = 'Enki' WHERE code = 'A'",
        "INSERT INTO orders VALUES (8, 'A', 'Enki')",
    )
    deferred.push(jfk)
    assert parked(hq) == []
    found = {row[0]: row[2] for row in rows(hq)}
    assert found == {1: "Enkijfk", 2: "Bel", 5: "Enki", 7: "Theirsjfk", 8: "Enkijfk"}


@pytest.mark.parametrize("kind", ["uniqueness", "update"])
def test_rows_refer_to_the_value_that_the_master_keeps(
    shop: Directory, kind: str
) -> None:
    """The customer is there; only his new name is not."""
    hq, jfk = shop["hq"], shop["jfk"]
    for site in (hq, jfk):
        as_refresh(site, "INSERT INTO customer VALUES ('D', 'Dag', 0)")
    if kind == "uniqueness":
        unique_rule(hq, "customer_name_key", "discard")
    else:
        rules.set_column_group(hq, "customer", "name", ["name"])
        rules.add_update_resolution(hq, "customer", "name", "discard")
        as_refresh(hq, "UPDATE customer SET name = 'Dagan' WHERE code = 'D'")
    run(
        jfk,
        "UPDATE customer SET name = 'Theirs', v = 7 WHERE code = 'D'",
        "INSERT INTO orders VALUES (8, 'D', 'Theirs')",
    )
    deferred.push(jfk)
    assert parked(hq) == []
    kept = ("Dag", 0) if kind == "uniqueness" else ("Dagan", 7)
    assert rows(hq, "customer")[-1] == ("D", *kept)
    assert rows(hq)[-1] == (8, "D", kept[0])
    assert ("orders", "reference", "discard", "site_wins") in recorded(hq)


def test_rows_of_the_same_table_follow(shop: Directory) -> None:
    hq, jfk = shop["hq"], shop["jfk"]
    statements = (
        "INSERT INTO tree VALUES ('R', 1, NULL), ('S', 1, 'R'), ('T', 1, 'S')",
        "INSERT INTO tree VALUES ('U', 1, NULL)",
        "UPDATE tree SET up = 'S' WHERE code = 'U'",
    )
    unique_rule(hq, "tree_pkey", "append_site_name", column="code")
    run(jfk, *statements)
    deferred.push(jfk)
    assert rows(hq, "tree") == [
        ("R", 0, None),
        ("Rjfk", 1, None),
        ("S", 1, "Rjfk"),
        ("T", 1, "S"),
        ("U", 1, "S"),
    ]


def test_rows_that_refer_to_each_other_follow(shop: Directory) -> None:
    hq, jfk = shop["hq"], shop["jfk"]
    unique_rule(hq, "node_pkey", "append_site_name", column="town")
    run(
        jfk,
        "INSERT INTO node VALUES ('Ur', 1, NULL), ('Ur', 2, 1), ('Ur', 3, 2)",
        "UPDATE node SET up = 2 WHERE no = 1",
    )
    deferred.push(jfk)
    assert parked(hq) == []
    theirs, *mine = rows(hq, "node")
    assert theirs == ("Ur", 1, None)
    assert mine == [("Urjfk", 1, 2), ("Urjfk", 2, 1), ("Urjfk", 3, 2)]


def test_rows_of_the_same_table_are_dropped_with_it(shop: Directory) -> None:
    """Also one that is in conflict itself."""
    hq, jfk = shop["hq"], shop["jfk"]
    unique_rule(hq, "tree_pkey", "discard")
    as_refresh(hq, "INSERT INTO tree VALUES ('T', 0)")
    run(
        jfk,
        "INSERT INTO tree VALUES ('R', 1, NULL), ('S', 1, 'R'), ('T', 1, 'S'),"
        " ('U', 1, NULL)",
        "INSERT INTO tree VALUES ('V', 1, 'U'), ('W', 1, 'T')",
    )
    deferred.push(jfk)
    assert parked(hq) == []
    assert rows(hq, "tree") == [
        ("R", 0, None),
        ("T", 0, None),
        ("U", 1, None),
        ("V", 1, "U"),
    ]
    written = [r for r in records.list_resolutions(hq) if r.result_values is not None]
    assert written == []


@pytest.mark.parametrize("method", ["informix_always", "informix_ignore"])
def test_rows_stay_with_the_version_that_wins(shop: Directory, method: str) -> None:
    """Rows of one key are versions of one row: another master sees it the other way."""
    hq, jfk = shop["hq"], shop["jfk"]
    unique_rule(hq, "orders_pkey", method)
    run(
        jfk,
        "INSERT INTO orders VALUES (5, 'A', NULL)",
        "INSERT INTO line VALUES (5, 1, 0)",
    )
    deferred.push(jfk)
    wins = method == "informix_always"
    assert rows(hq)[-1] == ((5, "A", None) if wins else (5, "C", "Theirs"))
    assert rows(hq, "line") == [(1, 1, 0), (5, 1, 0)]
    decision = "site_wins" if wins else "ignore"
    assert recorded(hq) == [("orders", "uniqueness", method, decision)]


def test_skipped_row_takes_along_what_refers_to_it(shop: Directory) -> None:
    """And what comes later waits for it."""
    hq, jfk = shop["hq"], shop["jfk"]
    run(
        jfk,
        "INSERT INTO orders VALUES (5, 'A', 'Anu'), (6, 'A', 'Anu')",
        "INSERT INTO line VALUES (5, 1, 0), (6, 1, 0)",
    )
    run(jfk, "INSERT INTO line VALUES (5, 2, 0)")
    deferred.push(jfk, error_action=ErrorAction.SKIP_ROW)
    assert rows(hq, "line") == [(1, 1, 0), (6, 1, 0)]
    assert [error[1] for error in parked(hq)] == ["conflict", "dependant"]
    first = deferred.show_error(hq, parked(hq)[0][0])
    assert [(call.table, (call.new or {}).get("no")) for call in first.calls] == [
        ("orders", None),
        ("line", "1"),
    ]
    assert first.calls[1].conflict == "refers to a row that is left out"


def test_later_steps_are_not_applied_to_the_row_of_another_site(
    shop: Directory,
) -> None:
    """What comes behind a procedure is not known when the row is dropped: all waits."""
    hq, jfk = shop["hq"], shop["jfk"]
    unique_rule(hq, "orders_pkey", "discard")
    for site in (hq, jfk):
        run(site, "CREATE FUNCTION public.act() RETURNS void LANGUAGE sql AS ''")
    deferred.allow_procedure(hq, "act")
    with jfk.begin() as connection:
        connection.exec_driver_sql("INSERT INTO public.orders VALUES (5, 'A', 'Anu')")
        deferred.call(connection, "act", [])
        connection.exec_driver_sql("INSERT INTO public.line VALUES (5, 1, 0)")
    deferred.push(jfk)
    [error] = deferred.list_errors(hq)
    assert error.reason == "conflict"
    assert "a later step" in error.error_message
    assert rows(hq, "line") == [(1, 1, 0)]
