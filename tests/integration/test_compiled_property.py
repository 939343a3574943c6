"""In groups and streams as one by one: destination, error queue, resolutions, ledger.

The same random log is pushed twice, from two sites to two masters that were alike: in
groups, through several streams, to one, each transaction by itself to the other. The
log holds what users do, what refreshes change in between (so that a transaction does
not start where the one before it ended), and the master's users have changed rows
meanwhile.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from psycopg import IntegrityError

import deferred
from deferred.batches import whole_window
from masters import rules
from masters.apply import at_once
from sites import Directory, Site
from tests.linked_table import as_refresh, link, rows, run

#: Logs that are pushed; `make test-long` asks for more.
EXAMPLES = int(os.environ.get("SNAPTIDE_COMPILED_CASES", "12"))

ITEMS = "id int PRIMARY KEY, a text, b int, c numeric"
START = "INSERT INTO items SELECT g, 'a', g, 1.0 FROM generate_series(1, 6) g"

keys = st.integers(1, 8)
names = st.sampled_from(["'a'", "'b'", "NULL"])
numbers = st.sampled_from(["1", "2", "7"])
values = {
    "a": names,
    "b": numbers | st.just("b + 1"),
    "c": st.sampled_from(["1.0", "1.00", "2", "c + 1"]),
}


@st.composite
def statements(draw: st.DrawFn) -> str:
    """One statement of a user's."""
    key = draw(keys)
    kind = draw(st.sampled_from("UUUUIIDDMA"))
    if kind == "U":
        column = draw(st.sampled_from(sorted(values)))
        return f"UPDATE items SET {column} = {draw(values[column])} WHERE id = {key}"
    if kind == "I":
        row = ", ".join([str(key), draw(names), draw(numbers), draw(numbers)])
        return f"INSERT INTO items VALUES ({row}) ON CONFLICT DO NOTHING"
    if kind == "D":
        return f"DELETE FROM items WHERE id = {key}"
    if kind == "M":
        return (
            f"UPDATE items SET id = {draw(keys)} + 100 WHERE id IN ({key}, {key} + 100)"
        )
    return f"UPDATE items SET b = b + 1 WHERE id >= {key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What happens before the push: at the site, in order, and at the master."""

    #: (a refresh's, statements)
    transactions: Sequence[tuple[bool, list[str]]]
    at_master: Sequence[str]


logs = st.builds(
    Log,
    transactions=st.lists(
        st.tuples(
            st.sampled_from([False] * 9 + [True]),
            st.lists(statements(), min_size=1, max_size=3),
        ),
        min_size=2,
        max_size=14,
    ),
    at_master=st.lists(statements(), max_size=3),
)

methods = st.fixed_dictionaries(
    {
        "a": st.sampled_from(["", "overwrite", "discard"]),
        "b": st.sampled_from(["", "additive", "maximum", "average"]),
        "delete": st.sampled_from(["", "informix_always", "informix_ignore"]),
    }
)
groupings = st.fixed_dictionaries(
    {
        "group_max_calls": st.sampled_from([1, 3, 7, 10_000]),
        "retry_threshold": st.sampled_from([0, 4, 100]),
        "bulk_threshold": st.sampled_from([0, 3, 20]),
        "parallelism": st.sampled_from([0, 2, 3]),
    }
)


@pytest.fixture
def worlds(make_sites: Callable[..., Directory]) -> list[Directory]:
    """Two masters with a site each, alike."""
    made = [make_sites("hq", "jfk"), make_sites("hq", "jfk")]
    for sites in made:
        link(sites, "items", ITEMS)
    return made


property_settings = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    phases=[Phase.generate],  # to shrink would take longer than to read
)


@contextmanager
def many_from(transactions: int) -> Iterator[None]:
    """Let batches of so many transactions have no rows for these, where that can be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_window, "MANY", transactions)
        yield


@contextmanager
def at_once_from(rows: int) -> Iterator[None]:
    """Have so many rows written without being locked and compared first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(at_once, "MANY", rows)
        yield


@property_settings
@given(log=logs, methods=methods, grouping=groupings)
def test_groups_leave_what_one_by_one_leaves(
    worlds: list[Directory], log: Log, methods: dict[str, str], grouping: dict[str, Any]
) -> None:
    left = []
    for sites, options in zip(worlds, (grouping, {"group_max_calls": 1}), strict=True):
        _begin(sites, methods)
        _happen(sites, log)
        one_by_one = options is not grouping
        with (
            at_once_from(1_000 if one_by_one else 1),
            many_from(100 if one_by_one else 2),
        ):
            report = deferred.push(sites["jfk"], **options)
        left.append((_left(sites["hq"], "items"), report.transactions, report.errors))
    assert left[0] == left[1]


def test_what_several_leave_as_it_was_has_to_be_so_at_the_master(
    worlds: list[Directory],
) -> None:
    """There and back in two transactions: together no change, and no conflict."""
    log = Log(
        transactions=[
            (False, ["UPDATE items SET b = b + 1 WHERE id = 5"]),
            (False, ["UPDATE items SET a = NULL WHERE id = 2"]),
            (False, ["UPDATE items SET a = 'a' WHERE id = 2"]),
        ],
        at_master=["UPDATE items SET a = NULL, b = 1 WHERE id = 2"],
    )
    left = []
    for sites, calls in zip(worlds, (10_000, 1), strict=True):
        _begin(sites, {"a": "", "b": "", "delete": ""})
        _happen(sites, log)
        report = deferred.push(sites["jfk"], group_max_calls=calls)
        left.append((_left(sites["hq"], "items"), report.errors))
    assert left[0] == left[1]
    assert left[0][1] == 2


BOXES = "id int PRIMARY KEY, v int"
PARTS = (
    "id int PRIMARY KEY, name text UNIQUE, q int,"
    " box int NOT NULL REFERENCES boxes (id)"
)
STOCK = (
    "INSERT INTO boxes SELECT g, 0 FROM generate_series(1, 4) g",
    "INSERT INTO parts SELECT g, 'n' || g, 0, g % 3 + 1 FROM generate_series(1, 8) g",
)


@st.composite
def part_statements(draw: st.DrawFn, part: int) -> list[str]:
    """What a transaction does to one part, which no other renames or moves.

    A box to which rows of the master's may refer is not emptied and made again: a
    group would leave it, and the check that refuses it is one of a state in between.
    """
    box = draw(st.integers(1, 5))
    name = draw(st.sampled_from([f"x{part}", f"n{draw(st.integers(1, 8))}"]))
    rename = f"UPDATE parts SET name = '{name}' WHERE id = {part}"
    options = {
        "rename": [rename],
        "pass on": [f"UPDATE parts SET name = NULL WHERE name = '{name}'", rename],
        "move": [f"UPDATE parts SET box = {box} WHERE id = {part}"],
        "delete": [f"DELETE FROM parts WHERE id = {part}"],
        "insert": [
            "INSERT INTO boxes VALUES (5, 0) ON CONFLICT DO NOTHING",
            f"INSERT INTO parts VALUES ({part + 10}, 'y{part}', 0, {box})",
        ],
        "empty": [f"DELETE FROM boxes WHERE id = {box}"],
        "count": ["UPDATE parts SET q = q + 1", f"UPDATE boxes SET v = v + {part}"],
    }
    return options[draw(st.sampled_from(sorted(options)))]


part_logs = st.permutations(range(1, 9)).flatmap(
    lambda order: st.tuples(*(part_statements(part) for part in order))
)
at_master = st.lists(
    st.sampled_from(
        [
            "UPDATE parts SET name = 'm1' WHERE id = 1",
            "UPDATE parts SET name = 'x2' WHERE id = 3",
            "UPDATE parts SET q = 7 WHERE id = 4",
            "DELETE FROM parts WHERE id = 5",
            "INSERT INTO parts VALUES (16, 'm6', 0, 1)",
            "INSERT INTO parts VALUES (30, 'y7', 0, 4)",
            "DELETE FROM boxes WHERE id = 4",
        ]
    ),
    max_size=2,
)


@pytest.fixture
def stocks(make_sites: Callable[..., Directory]) -> list[Directory]:
    """Two masters with a site each, alike: parts of unique names, in boxes."""
    made = [make_sites("hq", "jfk"), make_sites("hq", "jfk")]
    for sites in made:
        link(sites, "boxes", BOXES)
        link(sites, "parts", PARTS)
    return made


@property_settings
@given(log=part_logs, changed=at_master, grouping=groupings)
def test_groups_keep_to_constraints_as_one_by_one_does(
    stocks: list[Directory],
    log: Sequence[list[str]],
    changed: list[str],
    grouping: dict[str, Any],
) -> None:
    """Names that pass from part to part, parents that come and go, taken values."""
    left = []
    for sites, options in zip(stocks, (grouping, {"group_max_calls": 1}), strict=True):
        deferred.push(sites["jfk"])
        for site in sites.values():
            as_refresh(site, "DELETE FROM parts", "DELETE FROM boxes", *STOCK)
        run(sites["hq"], "DELETE FROM snaptide.error_transaction")
        for transaction in log:
            with suppress(IntegrityError):
                run(sites["jfk"], *transaction)
        for statement in changed:
            with suppress(IntegrityError):
                as_refresh(sites["hq"], statement)
        one_by_one = options is not grouping
        with (
            at_once_from(1_000 if one_by_one else 1),
            many_from(100 if one_by_one else 2),
        ):
            report = deferred.push(sites["jfk"], **options)
        found = _left(sites["hq"], "boxes", "parts")
        left.append((found, report.transactions, report.errors))
    assert left[0] == left[1]


def _begin(sites: Directory, methods: dict[str, str]) -> None:
    hq = sites["hq"]
    deferred.push(sites["jfk"])  # what an example before it left, if that failed
    for site in sites.values():
        as_refresh(site, "DELETE FROM items", START)
    run(
        hq,
        "DELETE FROM snaptide.error_transaction",
        "DELETE FROM snaptide.resolution_record",
        "DELETE FROM snaptide.resolution_rule",
        "DELETE FROM snaptide.column_group",
    )
    for column in "ab":
        rules.set_column_group(hq, "items", column, [column])
        if methods[column]:
            given = {"column": column} if methods[column] == "maximum" else {}
            rules.add_update_resolution(
                hq, "items", column, methods[column], parameters=given
            )
    if methods["delete"]:
        rules.add_delete_resolution(hq, "items", methods["delete"])


def _happen(sites: Directory, log: Log) -> None:
    for refreshed, transaction in log.transactions:
        happens = as_refresh if refreshed else run
        with suppress(IntegrityError):  # of two keys that become one, at both sites
            happens(sites["jfk"], *transaction)
    for statement in log.at_master:
        with suppress(IntegrityError):
            as_refresh(sites["hq"], statement)


def _left(hq: Site, *tables: str) -> dict[str, Any]:
    """All that a push leaves, with transactions by their place in the log.

    The calls of a statement are numbered as its rows lie on the disk, which is not
    the same in two databases; so they are shown by their keys.
    """
    errors = run(
        hq,
        "SELECT rank() OVER w, reason, error_code, error_message <> '',"
        " (SELECT array_agg(o.n ORDER BY o.n) FROM (SELECT id, rank() OVER w AS n"
        "  FROM snaptide.error_transaction WINDOW w AS (ORDER BY batch_no, order_no)) o"
        "  WHERE o.id = ANY (e.waits_for)),"
        " (SELECT json_agg(json_build_array(target_table, kind, old_values, new_values,"
        "  current_values, conflict) ORDER BY old_values::text, new_values::text)"
        "  FROM snaptide.error_call c"
        "  WHERE c.error_id = e.id)"
        " FROM snaptide.error_transaction e WINDOW w AS (ORDER BY batch_no, order_no)"
        " ORDER BY 1",
    )
    record = run(
        hq,
        "SELECT dense_rank() OVER (ORDER BY origin_transaction::xid8), kind, reference,"
        " sequence_no, method, decision, row_key::text, old_values, new_values,"
        " current_values, result_values, columns, reason"
        " FROM snaptide.resolution_record ORDER BY 1, row_key::text, 2, 3",
    )
    found = [rows(hq, table) for table in tables]
    ledger = run(
        hq,
        "SELECT m.batch_no, m.order_no = b.orders[cardinality(b.orders)],"
        " cardinality(b.orders)"
        " FROM snaptide.push_marker m JOIN snaptide.push_batch b"
        " ON b.origin_id = m.origin_id AND b.number = m.batch_no",
    )
    return {"rows": found, "errors": errors, "record": record, "ledger": ledger}
