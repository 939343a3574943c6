"""Uniqueness conflicts at the master: found by constraint, settled, looked at again."""

from collections.abc import Iterator

import pytest

import deferred
from masters import rules
from masters.resolution import Conflict, Decision, Resolution, routines
from sites import Directory, Site
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, parked, rows, run

PARTS = """
    id int PRIMARY KEY,
    name varchar(8) UNIQUE,
    code text,
    lot int,
    CONSTRAINT parts_code UNIQUE (code, lot)
"""


@prepared_once("hq", "jfk")
def parts(sites: Directory) -> None:
    """Two parts at both sites; nothing is queued."""
    link(sites, "parts", PARTS)
    for site in sites.values():
        as_refresh(
            site, "INSERT INTO parts VALUES (1, 'n1', 'c1', 1), (2, 'n2', 'c2', 2)"
        )


def held(site: Site) -> list[tuple[object, ...]]:
    return rows(site, "parts")


def refused(hq: Site) -> list[str]:
    return [
        call.conflict
        for error in deferred.list_errors(hq)
        for call in deferred.show_error(hq, error.id).calls
        if call.conflict is not None
    ]


def rule(parts: Directory, constraint: str, method: str, **parameters: object) -> None:
    rules.add_unique_resolution(
        parts["hq"], "parts", constraint, method, parameters=parameters
    )


def test_every_constraint_is_named(parts: Directory) -> None:
    run(parts["hq"], "INSERT INTO parts VALUES (3, 'x', 'y', 9)")
    run(parts["jfk"], "INSERT INTO parts VALUES (4, 'x', 'y', 9)")
    deferred.push(parts["jfk"])
    [conflict] = refused(parts["hq"])
    assert conflict.split("; ") == [
        "uniqueness conflict of parts_code: no rule",
        "uniqueness conflict of parts_name_key: no rule",
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE parts SET name = CASE id WHEN 1 THEN 'n2' ELSE 'n1' END",
        "UPDATE parts SET name = CASE id WHEN 1 THEN 'n2' ELSE 'n3' END",
        "UPDATE parts SET name = 'n' || 3 - id, code = 'd' || id, lot = 3 - id",
    ],
)
def test_what_the_transaction_gives_up_is_no_conflict(
    parts: Directory, statement: str
) -> None:
    run(parts["jfk"], "UPDATE parts SET name = NULL", statement)
    assert deferred.push(parts["jfk"]).errors == 0
    assert held(parts["hq"]) == held(parts["jfk"])


def test_null_is_never_taken(parts: Directory) -> None:
    run(parts["hq"], "INSERT INTO parts VALUES (3, NULL, NULL, 9)")
    run(parts["jfk"], "INSERT INTO parts VALUES (4, NULL, NULL, 9)")
    assert deferred.push(parts["jfk"]).errors == 0


def test_null_is_taken_where_nulls_are_not_distinct(parts: Directory) -> None:
    run(
        parts["hq"],
        "CREATE UNIQUE INDEX parts_lot ON parts (lot) NULLS NOT DISTINCT",
        "INSERT INTO parts VALUES (3, 'x', 'x', NULL)",
    )
    run(parts["jfk"], "INSERT INTO parts VALUES (4, 'y', 'y', NULL)")
    deferred.push(parts["jfk"])
    assert refused(parts["hq"]) == ["uniqueness conflict of parts_lot: no rule"]
    rule(parts, "parts_lot", "discard")
    deferred.retry_errors(parts["hq"])
    assert [row[0] for row in held(parts["hq"])] == [1, 2, 3]


@pytest.mark.parametrize("index", ["(lower(code))", "(code) WHERE lot = 9"])
def test_index_on_an_expression_or_part_is_named_by_the_database(
    parts: Directory, index: str
) -> None:
    """Only the database can say what breaks it: parked, and no rule is asked."""
    run(
        parts["hq"],
        f"CREATE UNIQUE INDEX parts_odd ON parts {index}",
        "INSERT INTO parts VALUES (3, 'x', 'odd', 9)",
        "ALTER TABLE parts DROP CONSTRAINT parts_code",
    )
    run(parts["jfk"], "INSERT INTO parts VALUES (4, 'y', 'odd', 9)")
    deferred.push(parts["jfk"])
    [error] = deferred.list_errors(parts["hq"])
    assert (error.reason, error.error_code) == ("conflict", "23505")
    assert "parts_odd" in error.error_message


def test_discard_drops_the_incoming_row(parts: Directory) -> None:
    rule(parts, "parts_name_key", "discard")
    run(parts["hq"], "INSERT INTO parts VALUES (3, 'x', 'a', 1)")
    run(
        parts["jfk"],
        "INSERT INTO parts VALUES (4, 'x', 'b', 1), (5, 'w', 'c', 1)",
        "UPDATE parts SET name = 'x', lot = 7 WHERE id = 5 AND false",
    )
    report = deferred.push(parts["jfk"])
    assert (report.errors, report.conflicts_resolved) == (0, 1)
    assert [row[0] for row in held(parts["hq"])] == [1, 2, 3, 5]


def test_discard_drops_an_update_as_a_whole(parts: Directory) -> None:
    rule(parts, "parts_name_key", "discard")
    run(parts["hq"], "INSERT INTO parts VALUES (3, 'x', 'a', 1)")
    run(parts["jfk"], "UPDATE parts SET name = 'x', lot = 7 WHERE id = 1")
    deferred.push(parts["jfk"])
    assert parked(parts["hq"]) == []
    assert held(parts["hq"])[0] == (1, "n1", "c1", 1)


def test_a14_11_append_site_name_renames_what_is_inserted(parts: Directory) -> None:
    rule(parts, "parts_name_key", "append_site_name", column="name")
    run(parts["hq"], "INSERT INTO parts VALUES (3, 'X', 'a', 1)")
    run(parts["jfk"], "INSERT INTO parts VALUES (4, 'X', 'b', 1)")
    deferred.push(parts["jfk"])
    assert [row[1] for row in held(parts["hq"])] == ["n1", "n2", "X", "Xjfk"]
    assert [row[1] for row in held(parts["jfk"])] == ["n1", "n2", "X"]


def test_appended_name_that_is_taken_too_leaves_the_next_rule(parts: Directory) -> None:
    rule(parts, "parts_name_key", "append_site_name", column="name")
    run(parts["hq"], "INSERT INTO parts VALUES (3, 'X', 'a', 1), (5, 'Xjfk', 'b', 5)")
    run(parts["jfk"], "INSERT INTO parts VALUES (4, 'X', 'b', 1)")
    deferred.push(parts["jfk"])
    [conflict] = refused(parts["hq"])
    assert "but that value is taken too" in conflict
    rule(parts, "parts_name_key", "append_sequence", column="name")
    deferred.retry_errors(parts["hq"])
    assert parked(parts["hq"]) == []
    [name] = [row[1] for row in held(parts["hq"]) if row[0] == 4]
    assert str(name)[0] == "X"
    assert str(name)[1:].isdigit()


def test_append_sequence_draws_another_number(parts: Directory) -> None:
    rule(parts, "parts_name_key", "append_sequence", column="name")
    run(
        parts["hq"],
        "INSERT INTO parts VALUES (3, 'X', 'a', 1), (5, 'X1', 'b', 5)",
        "INSERT INTO parts VALUES (6, 'X2', 'c', 1)",
    )
    run(parts["jfk"], "INSERT INTO parts VALUES (4, 'X', 'b', 1)")
    deferred.push(parts["jfk"])
    assert parked(parts["hq"]) == []
    assert (4, "X3", "b", 1) in held(parts["hq"])
    assert run(
        parts["hq"],
        "SELECT method, new_values ->> 'name', result_values ->> 'name', number,"
        " current_values ->> 'id' FROM snaptide.resolution_record",
    ) == [("append_sequence", "X", "X3", 3, "6")]


def test_numbers_are_given_up_after_some(parts: Directory) -> None:
    rule(parts, "parts_name_key", "append_sequence", column="name")
    run(
        parts["hq"],
        "INSERT INTO parts VALUES (3, 'X', 'a', 1)",
        "INSERT INTO parts SELECT g + 10, 'X' || g, g, g FROM generate_series(1, 9) g",
    )
    run(parts["jfk"], "INSERT INTO parts VALUES (4, 'X', 'b', 1)")
    deferred.push(parts["jfk"])
    [conflict] = refused(parts["hq"])
    assert "X5" in conflict


def test_length_comes_from_the_column(parts: Directory) -> None:
    rule(parts, "parts_name_key", "append_site_name", column="name")
    [listed] = rules.list_rules(parts["hq"])
    assert listed.rules[0].parameters == {"column": "name", "length": 8}
    run(parts["hq"], "INSERT INTO parts VALUES (3, 'LONGEST', 'a', 1)")
    run(parts["jfk"], "INSERT INTO parts VALUES (4, 'LONGEST', 'b', 1)")
    deferred.push(parts["jfk"])
    [conflict] = refused(parts["hq"])
    assert "longer than 8" in conflict


def test_value_that_is_too_long_is_refused_not_cut(parts: Directory) -> None:
    rule(parts, "parts_name_key", "append_site_name", column="name", length=99)
    run(parts["hq"], "INSERT INTO parts VALUES (3, 'LONGEST', 'a', 1)")
    run(parts["jfk"], "INSERT INTO parts VALUES (4, 'LONGEST', 'b', 1)")
    deferred.push(parts["jfk"])
    assert [error[1:3] for error in parked(parts["hq"])] == [("error", "22001")]


def test_group_decides_first_and_the_computed_value_goes_on_top(
    parts: Directory,
) -> None:
    hq, jfk = parts["hq"], parts["jfk"]
    rules.set_column_group(hq, "parts", "all", ["name", "code", "lot"])
    rules.add_update_resolution(hq, "parts", "all", "overwrite")
    rule(parts, "parts_name_key", "append_site_name", column="name")
    run(hq, "INSERT INTO parts VALUES (3, 'X', 'a', 1)")
    run(hq, "UPDATE parts SET lot = 5 WHERE id = 1")
    run(jfk, "UPDATE parts SET name = 'X', lot = 8 WHERE id = 1")
    report = deferred.push(jfk)
    assert (report.errors, report.conflicts_resolved) == (0, 2)
    assert held(hq)[0] == (1, "Xjfk", "c1", 8)
    results = run(
        hq, "SELECT kind, result_values ->> 'name' FROM snaptide.resolution_record"
    )
    assert sorted(results) == [("uniqueness", "Xjfk"), ("update", "Xjfk")]


def test_group_that_keeps_the_masters_value_keeps_it_from_others(
    parts: Directory,
) -> None:
    """What looked free is not: the master's row keeps it, by its group's rule."""
    hq, jfk = parts["hq"], parts["jfk"]
    rules.set_column_group(hq, "parts", "all", ["name", "code", "lot"])
    rules.add_update_resolution(hq, "parts", "all", "discard")
    run(hq, "UPDATE parts SET lot = 5 WHERE id = 1")
    run(
        jfk,
        "UPDATE parts SET name = 'free' WHERE id = 1",
        "INSERT INTO parts VALUES (3, 'n1', 'z', 1)",
    )
    deferred.push(jfk)
    assert refused(hq) == ["uniqueness conflict of parts_name_key: no rule"]


@pytest.fixture
def rekeyed() -> Iterator[str]:
    """A routine that gives the incoming row another key."""

    def rekey(conflict: Conflict) -> Resolution:
        assert conflict.new is not None
        key = conflict.new["id"]
        assert isinstance(key, int)
        return Resolution(decision=Decision.SITE_WINS, values={"id": key + 1})

    routines.register("rekey", rekey)
    yield "rekey"
    routines.REGISTRY.forget("rekey")


def test_another_key_is_looked_at_again(parts: Directory, rekeyed: str) -> None:
    rule(parts, "parts_pkey", "custom", routine=rekeyed)
    run(parts["hq"], "INSERT INTO parts VALUES (3, 'x', 'x', 1)")
    run(parts["jfk"], "INSERT INTO parts VALUES (3, 'y', 'y', 1)")
    deferred.push(parts["jfk"])
    assert (4, "y", "y", 1) in held(parts["hq"])
    run(parts["hq"], "INSERT INTO parts VALUES (7, 'x7', 'x', 7), (8, 'x8', 'x', 8)")
    run(parts["jfk"], "INSERT INTO parts VALUES (7, 'y7', 'y', 7)")
    deferred.push(parts["jfk"])
    [conflict] = refused(parts["hq"])
    assert "taken too" in conflict


def test_site_that_wins_the_key_overwrites_the_row(parts: Directory) -> None:
    rule(parts, "parts_pkey", "informix_always")
    run(parts["hq"], "INSERT INTO parts VALUES (3, 'x', 'x', 1)")
    run(parts["jfk"], "INSERT INTO parts VALUES (3, 'y', NULL, 2)")
    deferred.push(parts["jfk"])
    assert parked(parts["hq"]) == []
    assert held(parts["hq"])[2] == (3, "y", None, 2)


def test_row_that_came_and_went_is_dropped(parts: Directory) -> None:
    rule(parts, "parts_pkey", "discard")
    run(parts["hq"], "INSERT INTO parts VALUES (3, 'x', 'x', 1)")
    run(
        parts["jfk"],
        "INSERT INTO parts VALUES (3, 'y', 'y', 2)",
        "DELETE FROM parts WHERE id = 3",
    )
    assert deferred.push(parts["jfk"]).errors == 0
    assert held(parts["hq"])[2] == (3, "x", "x", 1)


def test_site_that_wins_without_a_new_value_is_still_in_the_way(
    parts: Directory,
) -> None:
    rule(parts, "parts_name_key", "informix_always")
    run(parts["hq"], "INSERT INTO parts VALUES (3, 'x', 'x', 1)")
    run(parts["jfk"], "INSERT INTO parts VALUES (4, 'x', 'y', 1)")
    deferred.push(parts["jfk"])
    [conflict] = refused(parts["hq"])
    assert "would still break parts_name_key" in conflict


def test_every_row_through_a_cursor(
    parts: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More conflicts than are held at a time."""
    monkeypatch.setattr("masters.apply.images.CHUNK", 7)
    rule(parts, "parts_pkey", "informix_always")
    rule(parts, "parts_name_key", "append_site_name", column="name")
    keys = (
        "INSERT INTO parts SELECT g, 'm' || g, '{}', g FROM generate_series(10, 40) g"
    )
    texts = (
        "INSERT INTO parts SELECT g + {1}, 'o' || g, '{0}', g"
        " FROM generate_series(50, 80) g"
    )
    run(parts["hq"], keys.format("x"), texts.format("z", 100))
    run(parts["jfk"], keys.format("y"), texts.format("w", 0))
    report = deferred.push(parts["jfk"])
    assert (report.errors, report.conflicts_resolved) == (0, 62)
    found = {row[1] for row in held(parts["hq"])}
    assert {"m10", "m40", "o50jfk", "o80jfk"} <= found
