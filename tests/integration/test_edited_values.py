"""A value that an operator gives is stored as it was given, or refused."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

import deferred
from deferred import Edit
from deferred.errors import RetryFailed, ValueWouldChange
from sites import Directory, Site
from tests.linked_table import as_refresh, link, parked, rows, run

#: The type of a column, a value that it would round or cut, and what it would store.
ROUNDED = {
    "digits": ("numeric(8,2)", "1.239", "1.24"),
    "blanks": ("varchar(3)", "abc   ", "abc"),
    "padding": ("char(3)", "abc   ", "abc"),
    "seconds": ("timestamp(0)", "2026-01-01 10:00:00.6", "2026-01-01 10:00:01"),
    "zone": ("timestamp", "2026-01-01 10:00+05", "2026-01-01 10:00:00"),
    "time of a day": ("date", "2026-01-01 10:00", "2026-01-01"),
    "zone of a time": ("time", "10:00+05", "10:00:00"),
    "months": ("interval year", "1 year 2 mons", "1 year"),
    "binary": ("real", "7.77777777777", "7.7777777"),
    "domain": ("money_of_ours", "1.239", "1.24"),
    "array": ("numeric(8,2)[]", "{1.5, 1.239}", "{1.50,1.24}"),
    "texts": ("varchar(3)[]", '{"abc   ",x}', "{abc,x}"),
}
#: The same with a value that is spelt in another way than the database prints it.
KEPT = {
    "digits": ("numeric(8,2)", "1.2", Decimal("1.20")),
    "zeros": ("numeric(8,2)", "1.20000", Decimal("1.20")),
    "unbounded": ("numeric", "1.23456789", Decimal("1.23456789")),
    "text": ("varchar(3)", "ab ", "ab "),
    "padded": ("char(3)", "ab ", "ab "),
    "unpadded": ("char(3)", "a", "a  "),
    "seconds": ("timestamp(0)", "2026-1-1 10:00", datetime(2026, 1, 1, 10)),
    "zone": (
        "timestamptz(0)",
        "2026-01-01 10:00Z",
        datetime(2026, 1, 1, 10, tzinfo=UTC),
    ),
    "day": ("date", "2026-1-1", date(2026, 1, 1)),
    "far day": ("date", "4713-1-1 BC", "4713-01-01 BC"),
    "farther day": ("date", "5000000-01-01", "5000000-01-01"),
    "interval": ("interval(0)", "90 min", timedelta(minutes=90)),
    "binary": ("real", "0.10", 0.1),
    "nothing": ("double precision", "NaN", "NaN"),
    "truth": ("boolean", "TRUE", True),
    "array": ("numeric(8,2)[]", "{1.5, 2}", [Decimal("1.50"), Decimal("2.00")]),
    "texts": ("varchar(3)[]", '{"a", b}', ["a", "b"]),
    "bits": ("bit(3)", "101", "101"),
    "null": ("numeric(8,2)", None, None),
}


def park(sites: Directory, columns: str) -> int:
    """Park an insert, because the master has a row of its key."""
    for site in sites.values():
        run(site, "CREATE DOMAIN money_of_ours AS numeric(8,2)")
    link(sites, "orders", columns)
    as_refresh(sites["hq"], "INSERT INTO orders VALUES (1)")
    run(sites["jfk"], "INSERT INTO orders VALUES (1)")
    deferred.push(sites["jfk"])
    [(error_id, *_)] = parked(sites["hq"])
    return int(error_id)


def retried(hq: Site, error_id: int, **values: str | None) -> deferred.RetryReport:
    edits = [Edit(call="orders", column=name, value=v) for name, v in values.items()]
    [report] = deferred.retry_errors(hq, [error_id], edits=edits)
    return report


@pytest.mark.parametrize("kind", ROUNDED)
def test_a_value_that_would_be_rounded_or_cut_is_refused(
    sites: Directory, kind: str
) -> None:
    hq, (type_, value, stored) = sites["hq"], ROUNDED[kind]
    error_id = park(sites, f"id int PRIMARY KEY, v {type_}, w text")
    before = rows(hq)
    [call] = deferred.show_error(hq, error_id).calls
    report = retried(hq, error_id, w="beside it", v=value)
    assert not report.applied
    assert f"Call {call.call_no}: orders.v cannot hold {value!r}: " in report.reason
    assert f"it would silently become {stored}." in report.reason
    edit = Edit(call="orders", column="v", value=value)
    assert deferred.preview_error(hq, error_id, [edit]).reason == report.reason
    with hq.session() as connection, pytest.raises(RetryFailed) as refused:
        deferred.retry(connection, hq, error_id, [edit])
    assert refused.value.facts["sqlstate"] == ValueWouldChange.code
    assert rows(hq) == before
    assert len(parked(hq)) == 1


@pytest.mark.parametrize("kind", KEPT)
def test_a_value_may_be_spelt_otherwise(sites: Directory, kind: str) -> None:
    hq, (type_, value, stored) = sites["hq"], KEPT[kind]
    error_id = park(sites, f"id int PRIMARY KEY, v {type_}, w text")
    report = retried(hq, error_id, v=value)
    assert report.applied, report.reason
    shown = "format('%s', v)" if isinstance(stored, str) else "v"
    [(found,)] = run(hq, f"SELECT {shown} FROM orders")
    assert found == (pytest.approx(stored) if isinstance(stored, float) else stored)


def test_the_values_beside_an_edited_one_are_not_rounded_either(
    sites: Directory,
) -> None:
    """The column has become narrower since the site's value was parked."""
    hq, columns = sites["hq"], "id int PRIMARY KEY, v numeric(8,3), w text"
    link(sites, "orders", columns)
    as_refresh(hq, "INSERT INTO orders VALUES (1)")
    run(sites["jfk"], "INSERT INTO orders VALUES (1, 1.239, 'x')")
    deferred.push(sites["jfk"])
    [(error_id, *_)] = parked(hq)
    run(hq, "ALTER TABLE orders ALTER v TYPE numeric(8,2)")
    report = retried(hq, error_id, w="y")
    assert not report.applied
    assert "orders.v cannot hold '1.239'" in report.reason
    assert retried(hq, error_id, v="1.24").applied
    assert rows(hq) == [(1, Decimal("1.24"), "x")]
