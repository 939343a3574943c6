"""Apply to tables with odd keys, names, columns and triggers."""

from collections.abc import Callable

import pytest

import deferred
from sites import Directory
from tests.grouped import found_group, push_all
from tests.linked_table import as_refresh, link, parked, queued, rows, run

ODD_NAMES = [
    "Order Items",
    "a%b%%c",
    "x:y",
    'quo"te',
    "it's",
    "ünï",
    "select",
    "a;b--c",
]
ODD_COLUMNS = ["%s", "%(x)s", ":n", 'a"b', "a'b", "o1", "x) SELECT 1", "Käse", "unit"]
ODD_TEXTS = ["", " ", "a'b", 'a"b', "%s", ":x", "\\", "\\N", "a\tb\nc", "ß€😀", "NULL"]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_of_tables_and_columns(sites: Directory, name: str) -> None:
    """No name is ever read as SQL, as a parameter or as a format."""
    columns = ", ".join(f"{quoted(column)} text" for column in ODD_COLUMNS)
    table = quoted(name)
    link(sites, table, f"id int PRIMARY KEY, {columns}, UNIQUE ({quoted('%s')})")
    jfk = sites["jfk"]
    run(jfk, f"INSERT INTO {table} (id, {quoted('%s')}) VALUES (1, 'a'), (2, 'b')")
    deferred.push(jfk)
    for column in ODD_COLUMNS:
        run(jfk, f"UPDATE {table} SET {quoted(column)} = id || '%s:x' WHERE id = 1")
    run(
        jfk,
        f"DELETE FROM {table} WHERE id = 2",
        f"INSERT INTO {table} (id, {quoted('%s')}) VALUES (3, 'b')",
    )
    report = deferred.push(jfk)
    assert (report.transactions, report.errors) == (len(ODD_COLUMNS) + 1, 0)
    assert rows(sites["hq"], table) == rows(jfk, table)
    as_refresh(sites["hq"], f"UPDATE {table} SET {quoted(':n')} = 'theirs'")
    run(jfk, f"UPDATE {table} SET {quoted(':n')} = 'mine'")
    deferred.push(jfk)
    [error] = deferred.list_errors(sites["hq"])
    calls = deferred.show_error(sites["hq"], error.id).calls
    assert calls[0].new is not None
    assert calls[0].new[":n"] == "mine"
    reports = deferred.retry_errors(
        sites["hq"],
        edits=[
            deferred.Edit(call=call.call_no, column=":n", value="edited %s")
            for call in calls
        ],
        error_ids=[error.id],
    )
    assert [report.applied for report in reports] == [True]
    assert {row[3] for row in rows(sites["hq"], table)} == {"edited %s"}


def test_odd_schema(sites: Directory) -> None:
    table = '"My.Schema"."T"'
    link(sites, table, "id int PRIMARY KEY, v text")
    run(sites["jfk"], f"INSERT INTO {table} VALUES (1, 'a')")
    deferred.push(sites["jfk"])
    assert rows(sites["hq"], table) == [(1, "a")]


def test_name_of_the_longest_kind(sites: Directory) -> None:
    table = "x" * 63
    link(sites, table, "id int PRIMARY KEY, v text")
    run(sites["jfk"], f"INSERT INTO {table} VALUES (1, 'a')")
    deferred.push(sites["jfk"])
    assert rows(sites["hq"], table) == [(1, "a")]


def test_odd_characters_in_keys_and_values(sites: Directory) -> None:
    link(sites, "t", "k text, l text, v text, PRIMARY KEY (k, l)")
    values = ", ".join(
        f"({literal(a)}, {literal(b)}, {literal(a)})"
        for a in ODD_TEXTS
        for b in ODD_TEXTS[:3]
    )
    run(sites["jfk"], f"INSERT INTO t VALUES {values}")
    deferred.push(sites["jfk"])
    run(sites["jfk"], "UPDATE t SET v = l", "DELETE FROM t WHERE l = ' '")
    run(sites["jfk"], "UPDATE t SET l = l || '%'")
    deferred.push(sites["jfk"])
    assert parked(sites["hq"]) == []
    assert rows(sites["hq"], "t") == rows(sites["jfk"], "t")
    assert len(rows(sites["hq"], "t")) == 2 * len(ODD_TEXTS)


def literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ("a int, b date, c text, v int, PRIMARY KEY (c, a, b)", "1, '2026-01-01', 'x'"),
        ("a uuid PRIMARY KEY, v int", "'d9b5ee4c-9a0c-4f3c-8f64-000000000001'"),
        ("a timestamptz PRIMARY KEY, v int", "'2026-01-01 00:00:00.000001+02'"),
        ("a numeric PRIMARY KEY, v int", "1.500"),
        ("a bytea PRIMARY KEY, v int", "'\\x00ff'"),
        ("a char(5) PRIMARY KEY, v int", "'ab'"),
        ("a int[] PRIMARY KEY, v int", "'{1,2}'"),
        ("a int4range PRIMARY KEY, v int", "'[1,5)'"),
        ("a interval PRIMARY KEY, v int", "'1 day 02:03'"),
        ("a boolean PRIMARY KEY, v int", "true"),
        ("a inet PRIMARY KEY, v int", "'10.0.0.1'"),
        ("a jsonb PRIMARY KEY, v int", "'{\"b\": 1}'"),
    ],
)
def test_keys_of_many_types(sites: Directory, columns: str, values: str) -> None:
    link(sites, "t", columns)
    run(sites["jfk"], f"INSERT INTO t VALUES ({values}, 1)")
    deferred.push(sites["jfk"])
    run(sites["jfk"], "UPDATE t SET v = 2")
    deferred.push(sites["jfk"])
    shown = run(sites["hq"], "SELECT t::text FROM t")
    assert shown == run(sites["jfk"], "SELECT t::text FROM t")
    assert len(shown) == 1
    run(sites["jfk"], "DELETE FROM t")
    deferred.push(sites["jfk"])
    assert rows(sites["hq"], "t") == []
    assert parked(sites["hq"]) == []


def test_identity_generated_always(sites: Directory) -> None:
    link(
        sites,
        "t",
        "id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text,"
        " serial int GENERATED ALWAYS AS IDENTITY (START 5)",
        at_site="id int PRIMARY KEY, v text, serial int",
    )
    run(sites["jfk"], "INSERT INTO t VALUES (1, 'a', 7), (2, 'b', 8)")
    run(sites["jfk"], "UPDATE t SET v = 'c' WHERE id = 1")
    run(sites["jfk"], "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (2, 'z', 9)")
    run(sites["jfk"], "UPDATE t SET id = 3 WHERE id = 1")
    deferred.push(sites["jfk"])
    assert parked(sites["hq"]) == []
    assert rows(sites["hq"], "t") == [(2, "z", 9), (3, "c", 7)]


@pytest.mark.parametrize("rows_at_once", [1, 3])
def test_value_that_no_update_writes_is_not_left_as_it_was(
    sites: Directory, rows_at_once: int
) -> None:
    """A transaction that gives a GENERATED ALWAYS column one is parked, and says so."""
    always = "id int PRIMARY KEY, v text, serial int GENERATED ALWAYS AS IDENTITY"
    link(sites, "t", always, at_site="id int PRIMARY KEY, v text, serial int")
    hq, jfk = sites["hq"], sites["jfk"]
    run(jfk, "INSERT INTO t SELECT n, 'a', n + 6 FROM generate_series(1, 5) n")
    assert deferred.push(jfk).errors == 0
    run(jfk, f"UPDATE t SET serial = 99 - id, v = 'b' WHERE id <= {rows_at_once}")
    run(jfk, "UPDATE t SET v = 'c' WHERE id = 4")
    run(jfk, "UPDATE t SET id = 6, serial = 50 WHERE id = 5")
    deferred.push(jfk)
    assert [error[1:3] for error in parked(hq)] == [("error", "SNP-009")] * 2
    told = [deferred.show_error(hq, error[0]).error_message for error in parked(hq)]
    assert all("serial is GENERATED ALWAYS AS IDENTITY there" in one for one in told)
    expected = [(n, "c" if n == 4 else "a", n + 6) for n in range(1, 6)]
    assert rows(hq, "t") == expected


@pytest.mark.parametrize(
    ("event", "change"),
    [
        ("INSERT", "INSERT INTO t VALUES (2, 'b', 8)"),
        ("DELETE", "DELETE FROM t WHERE id = 1"),
        ("UPDATE", "UPDATE t SET v = 'b' WHERE id = 1"),
    ],
)
def test_a_column_that_nothing_updates_is_not_blamed_for_other_changes(
    sites: Directory, event: str, change: str
) -> None:
    always = "id int PRIMARY KEY, v text, serial int GENERATED ALWAYS AS IDENTITY"
    link(sites, "t", always, at_site="id int PRIMARY KEY, v text, serial int")
    hq, jfk = sites["hq"], sites["jfk"]
    run(jfk, "INSERT INTO t VALUES (1, 'a', 7)")
    assert deferred.push(jfk).errors == 0
    run(
        hq,
        "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql"
        " AS 'BEGIN RETURN NULL; END'",
        f"CREATE TRIGGER swallow BEFORE {event} ON t FOR EACH ROW"
        " EXECUTE FUNCTION swallow()",
    )
    run(jfk, change)
    deferred.push(jfk)
    ((number, *error),) = parked(hq)
    assert error[:2] == ["error", "SNP-009"]
    assert "IDENTITY" not in (deferred.show_error(hq, number).error_message or "")


def test_masters_of_a_group_do_not_differ_without_a_word(
    make_sites: Callable[..., Directory],
) -> None:
    """A new number, which one master has drawn, is no value that others can write."""
    three = make_sites("hq", "lax")
    for site in three.values():
        run(
            site,
            "CREATE TABLE t (id int PRIMARY KEY, n int GENERATED ALWAYS AS IDENTITY)",
        )
    found_group(three, "hq", "lax", tables=("orders", "t"))
    run(three["hq"], "INSERT INTO t VALUES (1)")
    push_all(three)
    assert rows(three["hq"], "t") == rows(three["lax"], "t")
    run(three["hq"], "UPDATE t SET n = DEFAULT")
    push_all(three)
    assert [error[1:3] for error in parked(three["lax"])] == [("error", "SNP-009")]


def test_key_that_nobody_updates_is_not_left_as_it_was(sites: Directory) -> None:
    """Its row is inserted anew; where what refers to it forbids that, it is parked."""
    always = "id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE"
    link(sites, "t", always, at_site="id int PRIMARY KEY, name text UNIQUE")
    run(sites["jfk"], "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    deferred.push(sites["jfk"])
    run(sites["hq"], "CREATE TABLE line (t int REFERENCES t ON UPDATE CASCADE)")
    run(sites["hq"], "INSERT INTO line VALUES (1)")
    run(sites["jfk"], "UPDATE t SET id = 3 WHERE id = 1")
    run(sites["jfk"], "UPDATE t SET id = 4 WHERE id = 2")
    deferred.push(sites["jfk"])
    held = {row[0] for row in rows(sites["hq"], "t")}
    assert len(held) == 2
    assert len(parked(sites["hq"])) == len(held & {1, 2})


def test_table_that_is_all_key(sites: Directory) -> None:
    link(sites, "t", "a int, b int, PRIMARY KEY (a, b)")
    run(sites["jfk"], "INSERT INTO t VALUES (1, 1), (1, 2)")
    run(sites["jfk"], "UPDATE t SET b = b")
    run(sites["jfk"], "UPDATE t SET b = 3 WHERE b = 2")
    run(sites["jfk"], "DELETE FROM t WHERE b = 1", "INSERT INTO t VALUES (1, 1)")
    deferred.push(sites["jfk"])
    assert parked(sites["hq"]) == []
    assert rows(sites["hq"], "t") == [(1, 1), (1, 3)]


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("numeric", "1.0", "1.00"),
        ("char(3)", "'a'", "'b'"),
        ("interval", "'1 day'", "'24 hours'"),
        ("jsonb", "'1.0'", "'1.00'"),
        ("float8", "'0'", "'-0'"),
        ("float8[]", "'{0}'", "'{-0}'"),
    ],
)
def test_change_between_equal_values_arrives(
    sites: Directory, kind: str, old: str, new: str
) -> None:
    """Equal is not the same: what the user wrote is what the master shows."""
    link(sites, "t", f"id int PRIMARY KEY, v {kind}, other int")
    for site in sites.values():
        as_refresh(site, f"INSERT INTO t VALUES (1, {old}, 0)")
    run(sites["jfk"], f"UPDATE t SET v = {new}")
    deferred.push(sites["jfk"])
    assert parked(sites["hq"]) == []
    assert run(sites["hq"], "SELECT v::text FROM t") == run(
        sites["jfk"], "SELECT v::text FROM t"
    )


def test_change_between_equal_values_is_a_change(sites: Directory) -> None:
    """It must not overwrite what the master has meanwhile."""
    link(sites, "t", "id int PRIMARY KEY, v numeric")
    for site in sites.values():
        as_refresh(site, "INSERT INTO t VALUES (1, 1.0)")
    as_refresh(sites["hq"], "UPDATE t SET v = 2")
    run(sites["jfk"], "UPDATE t SET v = 1.00")
    deferred.push(sites["jfk"])
    assert [error[1] for error in parked(sites["hq"])] == ["conflict"]
    assert [str(row[1]) for row in rows(sites["hq"], "t")] == ["2"]


def test_change_between_equal_keys_arrives(sites: Directory) -> None:
    link(sites, "t", "k numeric PRIMARY KEY, v int")
    for site in sites.values():
        as_refresh(site, "INSERT INTO t VALUES (1.0, 1)")
    run(sites["jfk"], "UPDATE t SET k = 1.00")
    deferred.push(sites["jfk"])
    assert parked(sites["hq"]) == []
    assert [str(row[0]) for row in rows(sites["hq"], "t")] == ["1.00"]


TRIGGER = """
CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {} END $$;
CREATE TRIGGER act BEFORE INSERT OR UPDATE OR DELETE ON orders
FOR EACH ROW EXECUTE FUNCTION act()
"""


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("RAISE 'not like this';", "P0001"),
        ("RAISE 'mine' USING ERRCODE = 'ZX001';", "ZX001"),
        ("PERFORM 1 / 0; RETURN NEW;", "22012"),
        ("RETURN NULL;", "SNP-009"),
    ],
)
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO orders (id) VALUES (2)",
        "UPDATE orders SET qty = 1",
        "DELETE FROM orders",
    ],
)
def test_trigger_at_the_master_that_refuses(
    sites: Directory, body: str, code: str, statement: str
) -> None:
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders (id) VALUES (1)")
    run(sites["hq"], TRIGGER.format(body))
    run(sites["jfk"], statement)
    deferred.push(sites["jfk"])
    assert [error[1:3] for error in parked(sites["hq"])] == [("error", code)]
    assert [row[::2][:2] for row in rows(sites["hq"])] == [(1, None)]
    assert queued(sites["jfk"]) == 0
    run(sites["hq"], "DROP TRIGGER act ON orders")
    assert [report.applied for report in deferred.retry_errors(sites["hq"])] == [True]
    assert rows(sites["hq"]) == rows(sites["jfk"])


def test_check_at_the_master_that_refuses(sites: Directory) -> None:
    link(
        sites,
        "t",
        "id int PRIMARY KEY, v int CHECK (v > 0)",
        at_site="id int PRIMARY KEY, v int",
    )
    run(sites["jfk"], "INSERT INTO t VALUES (1, -1)")
    deferred.push(sites["jfk"])
    assert [error[1:3] for error in parked(sites["hq"])] == [("error", "23514")]


def test_a_right_that_a_trigger_asks_for_is_the_datas(sites: Directory) -> None:
    """The state is that of a missing right, but another row would have passed."""
    link(sites)
    run(
        sites["hq"],
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE insufficient_privilege USING MESSAGE = 'not of your store'; END $$",
        "CREATE TRIGGER refuse BEFORE INSERT ON orders"
        " FOR EACH ROW EXECUTE FUNCTION refuse()",
    )
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (1)")
    deferred.push(sites["jfk"])
    assert [error[1:3] for error in parked(sites["hq"])] == [("error", "42501")]


def test_master_trigger_may_change_what_is_written(sites: Directory) -> None:
    link(sites)
    run(sites["hq"], TRIGGER.format("NEW.name := upper(NEW.name); RETURN NEW;"))
    run(sites["jfk"], "INSERT INTO orders (id, name) VALUES (1, 'low')")
    deferred.push(sites["jfk"])
    assert rows(sites["hq"])[0][1] == "LOW"
    assert parked(sites["hq"]) == []


def test_partitioned_master(sites: Directory) -> None:
    columns = "id int PRIMARY KEY, v text"
    link(sites, "t", columns, with_log=False)
    run(
        sites["hq"],
        "DROP TABLE t",
        "CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE t_high PARTITION OF t FOR VALUES FROM (10) TO (20)",
    )
    run(sites["jfk"], "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (11, 'c')")
    run(sites["jfk"], "UPDATE t SET id = id + 10 WHERE id = 2")
    run(sites["jfk"], "UPDATE t SET v = v || '!'", "DELETE FROM t WHERE id = 1")
    deferred.push(sites["jfk"])
    assert parked(sites["hq"]) == []
    assert rows(sites["hq"], "t") == [(11, "c!"), (12, "b!")]
