"""A value that the master cannot hold parks its transaction, and stops nothing else."""

import pytest

import deferred
from deferred.errors import TransactionRefused
from sites import Directory
from tests.linked_table import link, queued, rows, run

#: What the master's column has, what the site's has, and a value of the second alone.
NARROWER = {
    "length": ("varchar(5)", "text", "'much too long'"),
    "precision": ("numeric(4,2)", "numeric", "12345.67"),
    "range": ("smallint", "bigint", "100000"),
    "other type": ("int", "text", "'many'"),
    "padded": ("char(3)", "text", "'much too long'"),
    "bits": ("bit(3)", "bit varying", "B'11111'"),
    "domain": ("few", "text", "'much'"),
    "label": ("mood", "text", "'furious'"),
    "digits": ("numeric(10,1)", "numeric(10,3)", "7.777"),
    "digits of all": ("real", "double precision", "7.77777777777"),
    "digits in binary": ("double precision", "numeric", "0.12345678901234567890123"),
    "seconds": ("timestamp(0)", "timestamp(3)", "'2026-01-01 10:00:00.5'"),
    "time": ("date", "timestamp", "'2026-01-01 10:00'"),
    "array": ("varchar(3)[]", "text[]", "'{a,\"much too long\"}'"),
}
KINDS = (
    "CREATE DOMAIN few AS varchar(9) CHECK (VALUE IN ('1', '2'))",
    "CREATE TYPE mood AS ENUM ('1', '2')",
)
DAYS = {"seconds": "'2026-01-0{}'", "time": "'2026-01-0{} 00:00'"}
ONES = {"array": "'{1}'", "bits": "B'111'"} | {
    kind: day.format(1) for kind, day in DAYS.items()
}
TWOS = {"array": "'{2}'", "bits": "B'101'"} | {
    kind: day.format(2) for kind, day in DAYS.items()
}


@pytest.mark.parametrize("kind", NARROWER)
@pytest.mark.parametrize("most", [50_000, 1], ids=["together", "one by one"])
def test_value_parks_its_transaction_alone(
    sites: Directory, kind: str, most: int
) -> None:
    there, here, value = NARROWER[kind]
    run(sites["hq"], *KINDS)
    link(
        sites,
        columns=f"id int PRIMARY KEY, v {there}, w text",
        at_site=f"id int PRIMARY KEY, v {here}, w text",
    )
    one, two = ONES.get(kind, "'1'"), TWOS.get(kind, "'2'")
    site = sites["jfk"]
    run(site, f"INSERT INTO orders VALUES (1, {one}, 'before')")
    run(
        site,
        f"INSERT INTO orders VALUES (2, {value}, 'bad')",
        f"INSERT INTO orders VALUES (3, {one}, 'beside it')",
    )
    run(site, f"INSERT INTO orders VALUES (4, {two}, 'behind')")
    report = deferred.push(site, group_max_calls=most)
    assert (report.transactions, report.errors) == (3, 1)
    assert [row[0] for row in rows(sites["hq"])] == [1, 4]
    assert queued(site) == 0
    [error] = deferred.list_errors(sites["hq"])
    assert error.reason == "error"
    assert "orders.v" in error.error_message
    [shown, beside] = deferred.show_error(sites["hq"], error.id).calls
    assert shown.new is not None
    assert shown.new["v"] == run(site, "SELECT v::text FROM orders WHERE id = 2")[0][0]
    assert beside.new is not None
    assert beside.new["w"] == "beside it"
    [retried] = deferred.retry_errors(sites["hq"])
    assert not retried.applied
    assert "orders.v" in retried.reason
    edit = deferred.Edit(call=shown.call_no, column="v", value=one.strip("B'"))
    [retried] = deferred.retry_errors(sites["hq"], [error.id], edits=[edit])
    assert retried.applied, retried.reason
    assert [row[0] for row in rows(sites["hq"])] == [1, 2, 3, 4]


@pytest.mark.parametrize("action", ["stop", "skip_row"])
def test_error_actions_hold_for_such_a_value(sites: Directory, action: str) -> None:
    columns = "id int PRIMARY KEY, v {}, w text"
    link(sites, columns=columns.format("smallint"), at_site=columns.format("bigint"))
    hq, jfk = sites["hq"], sites["jfk"]
    run(jfk, "INSERT INTO orders VALUES (1, 1, 'before')")
    run(jfk, "INSERT INTO orders VALUES (2, 100000, 'bad'), (3, 3, 'beside it')")
    if action == "stop":
        with pytest.raises(TransactionRefused, match=r"orders\.v cannot hold '100000'"):
            deferred.push(jfk, error_action=action)
        assert deferred.list_errors(hq) == []
    else:
        assert deferred.push(jfk, error_action=action).errors == 1
    assert [row[0] for row in rows(hq)] == [1]


def test_delete_of_a_row_that_the_master_never_had(sites: Directory) -> None:
    """What follows is parked behind it, and goes when both are given up."""
    columns = "id int PRIMARY KEY, v {}, w text"
    link(sites, columns=columns.format("smallint"), at_site=columns.format("bigint"))
    hq, jfk = sites["hq"], sites["jfk"]
    run(jfk, "INSERT INTO orders VALUES (1, 100000, 'bad')")
    run(jfk, "DELETE FROM orders")
    run(jfk, "INSERT INTO orders VALUES (2, 2, 'behind')")
    assert deferred.push(jfk, group_max_calls=1).errors == 2
    first, second = deferred.list_errors(hq)
    assert (second.reason, second.waits_for) == ("dependant", (first.id,))
    assert rows(hq) == [(2, 2, "behind")]
    assert deferred.delete_errors(hq) == 2
    assert deferred.push(jfk).errors == 0


@pytest.mark.parametrize("most", [50_000, 1], ids=["together", "one by one"])
@pytest.mark.parametrize("check", ["VALUE::int > 0", "1 / length(VALUE) >= 0"])
def test_domain_whose_check_fails_with_an_error(
    sites: Directory, check: str, most: int
) -> None:
    """PostgreSQL cannot be asked whether it accepts a value: that fails as well."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, f"CREATE DOMAIN few AS text CHECK ({check})")
    columns = "id int PRIMARY KEY, v {}"
    link(sites, columns=columns.format("few"), at_site=columns.format("text"))
    bad = "many" if "int" in check else ""
    for number, value in enumerate(("1", bad, "3")):
        run(jfk, f"INSERT INTO orders VALUES ({number}, '{value}')")
    report = deferred.push(jfk, group_max_calls=most)
    assert (report.transactions, report.errors) == (3, 1)
    assert [row[0] for row in rows(hq)] == [0, 2]
    [error] = deferred.list_errors(hq)
    [retried] = deferred.retry_errors(hq)
    assert not retried.applied
    assert retried.reason.endswith(error.error_message)
    edits = [deferred.Edit.parse("orders.v=2")]
    [retried] = deferred.retry_errors(hq, [error.id], edits=edits)
    assert retried.applied, retried.reason
