"""A character that the master's encoding lacks is its transaction's trouble alone."""

from collections.abc import Callable
from typing import Any

import pytest

import deferred
from sites import Directory
from sites.errors import ValueNotSent
from snaptide import doctor
from tests.grouped import found_group, push_all
from tests.linked_table import application, link, parked, queued, rows, run

#: Of these LATIN1 has the first alone.
HELD, LOST = "Müller", 'Müłłer \\ "中"'


@pytest.fixture
def orders(with_latin: Callable[..., Directory]) -> Directory:
    """An empty table, at a master of LATIN1 and a site of UTF8."""
    sites = with_latin("hq", "jfk")
    link(sites)
    return sites


@pytest.mark.parametrize(
    "options",
    [{}, {"group_max_calls": 1}, {"parallelism": 2}, {"batch_size": 9}],
    ids=["together", "one by one", "streams", "in one commit"],
)
def test_transaction_is_parked_with_all_characters(
    orders: Directory, options: dict[str, Any]
) -> None:
    jfk, hq = orders["jfk"], orders["hq"]
    run(jfk, f"INSERT INTO orders (id, name) VALUES (1, '{HELD}')")
    run(jfk, f"INSERT INTO orders (id, name) VALUES (2, '{LOST}'), (3, 'beside')")
    run(jfk, "INSERT INTO orders (id, name) VALUES (4, 'behind')")
    assert deferred.push(jfk, **options).errors == 1
    assert [row[:2] for row in rows(hq)] == [(1, HELD), (4, "behind")]
    assert queued(jfk) == 0
    [error] = deferred.list_errors(hq)
    assert error.error_code == "22P05"
    assert "orders.name cannot hold" in error.error_message
    first, second = deferred.show_error(hq, error.id).calls
    assert (first.new or {})["name"] == LOST
    assert "encoding" in (first.conflict or "")
    assert (second.new or {})["name"] == "beside"
    assert second.conflict is None
    [again] = deferred.retry_errors(hq)
    assert "name: the encoding of the database lacks" in again.reason
    edit = deferred.Edit(call=first.call_no, column="name", value="Muller")
    [edited] = deferred.retry_errors(hq, [error.id], edits=[edit])
    assert edited.applied
    assert [row[1] for row in rows(hq)] == [HELD, "Muller", "beside", "behind"]


def test_what_follows_waits_for_it(orders: Directory) -> None:
    jfk, hq = orders["jfk"], orders["hq"]
    run(jfk, "INSERT INTO orders (id, name) VALUES (1, 'a'), (2, 'b')")
    deferred.push(jfk)
    run(jfk, f"UPDATE orders SET name = '{LOST}' WHERE id = 1")
    run(jfk, "UPDATE orders SET qty = 2 WHERE id = 2")
    run(jfk, "UPDATE orders SET name = 'corrected' WHERE id = 1")
    run(jfk, "UPDATE orders SET qty = 1 WHERE id = 1")
    report = deferred.push(jfk, group_max_calls=1)
    assert (report.transactions, report.errors) == (4, 3)
    first, second, third = parked(hq)
    assert first[1:3] == ("error", "22P05")
    assert (second[1], second[3]) == ("dependant", [first[0]])
    assert (third[1], third[3]) == ("dependant", [first[0], second[0]])
    assert [row[:3] for row in rows(hq)] == [(1, "a", None), (2, "b", 2)]


def test_value_that_was_corrected_before_the_push(orders: Directory) -> None:
    """Folded, the transactions never were but right."""
    jfk = orders["jfk"]
    run(jfk, f"INSERT INTO orders (id, name) VALUES (1, '{LOST}')")
    run(jfk, "UPDATE orders SET name = 'corrected'")
    assert deferred.push(jfk).errors == 0
    assert [row[1] for row in rows(orders["hq"])] == ["corrected"]


def test_key_that_the_master_cannot_hold(with_latin: Callable[..., Directory]) -> None:
    sites = with_latin("hq", "jfk")
    link(sites, columns="id text PRIMARY KEY, qty int")
    jfk, hq = sites["jfk"], sites["hq"]
    run(jfk, f"INSERT INTO orders VALUES ('{LOST}', 1)")
    run(jfk, "INSERT INTO orders VALUES ('held', 1)")
    run(jfk, f"UPDATE orders SET qty = 2 WHERE id = '{LOST}'")
    run(jfk, f"DELETE FROM orders WHERE id = '{LOST}'")
    deferred.push(jfk, group_max_calls=1)
    assert rows(hq) == [("held", 1)]
    assert queued(jfk) == 0
    assert len(parked(hq)) == 3


def test_masters_of_a_group(with_latin: Callable[..., Directory]) -> None:
    sites = with_latin("hq", "jfk")
    found_group(sites, "jfk", "hq")
    jfk, hq = sites["jfk"], sites["hq"]
    run(jfk, f"INSERT INTO orders (id, name) VALUES (1, '{LOST}')")
    run(jfk, f"INSERT INTO orders (id, name) VALUES (2, '{HELD}')")
    run(hq, "INSERT INTO orders (id, name) VALUES (3, 'back')")
    push_all(sites)
    assert [row[:2] for row in rows(hq)] == [(2, HELD), (3, "back")]
    assert [row[0] for row in rows(jfk)] == [1, 2, 3]
    [error] = deferred.list_errors(hq)
    [call] = deferred.show_error(hq, error.id).calls
    assert (call.new or {})["name"] == LOST


def test_user_whose_name_the_master_cannot_write(orders: Directory) -> None:
    jfk, hq = orders["jfk"], orders["hq"]
    run(jfk, 'CREATE ROLE "Łukasz"', 'GRANT ALL ON orders TO "Łukasz"')
    try:
        with application(jfk) as session:
            session.execute('SET SESSION AUTHORIZATION "Łukasz"')
            session.execute("INSERT INTO orders (id, name) VALUES (1, 'a')")
            session.commit()
            session.execute(f"INSERT INTO orders (id, name) VALUES (2, '{LOST}')")
        assert deferred.push(jfk).errors == 1
        assert [row[0] for row in rows(hq)] == [1]
        [error] = deferred.list_errors(hq)
        assert error.origin_user == r"\u0141ukasz"
    finally:
        run(jfk, 'DROP OWNED BY "Łukasz"', 'DROP ROLE "Łukasz"')


def test_argument_that_the_master_cannot_hold(orders: Directory) -> None:
    jfk, hq = orders["jfk"], orders["hq"]
    run(
        hq,
        "CREATE FUNCTION rename(to_ text) RETURNS void LANGUAGE sql"
        " AS 'UPDATE public.orders SET name = to_'",
    )
    deferred.allow_procedure(hq, "rename")
    run(jfk, "INSERT INTO orders (id, name) VALUES (1, 'a')")
    with jfk.begin() as connection:
        deferred.call(connection, "rename", [LOST])
    run(jfk, "INSERT INTO orders (id, name) VALUES (2, 'b')")
    assert deferred.push(jfk).errors == 1
    assert [row[:2] for row in rows(hq)] == [(1, "a"), (2, "b")]
    [error] = deferred.list_errors(hq)
    [called] = deferred.show_error(hq, error.id).procedures
    assert called.arguments[0].value == LOST
    edit = deferred.Edit(call="rename", column="1", value="c")
    run(hq, "DELETE FROM orders WHERE id = 2")
    [again] = deferred.retry_errors(hq, [error.id], edits=[edit])
    assert again.applied, again.reason
    assert [row[1] for row in rows(hq)] == ["c"]


def test_bytes_that_no_text_has_are_told_with_their_table(
    with_ascii: Callable[..., Directory],
) -> None:
    """The site cannot send them to anybody: no master could park them either."""
    sites = with_ascii("jfk", "hq")
    link(sites, columns="id int PRIMARY KEY, name text")
    jfk, hq = sites["jfk"], sites["hq"]
    run(jfk, f"INSERT INTO orders VALUES (1, '{LOST}')")
    with application(jfk) as session:
        session.execute("SET client_encoding = SQL_ASCII")
        session.execute(b"INSERT INTO orders VALUES (2, 'M\xfcller')")
    run(jfk, "INSERT INTO orders VALUES (3, 'behind')")
    with pytest.raises(ValueNotSent, match=r"orders .* cannot send: .* 0xfc") as told:
        deferred.push(jfk)
    assert told.value.facts["table"] == "orders"
    assert rows(hq) == [(1, LOST)]
    assert parked(hq) == []
    [found] = [one for one in doctor.examine(jfk) if one.subject == "encoding"]
    assert "SQL_ASCII" in found.what
    assert "encoding" not in [one.subject for one in doctor.examine(hq)]
