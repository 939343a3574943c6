"""The order in which a unit is written: what would trip a plain replay."""

import pytest

import deferred
from masters import rules
from sites import Directory
from tests.linked_table import as_refresh, link, parked, rows, run, run_everywhere


@pytest.fixture
def family(sites: Directory) -> Directory:
    """Two parents with a child each, at both sites; keys are checked at once."""
    link(sites, "parent", "id int PRIMARY KEY, name text UNIQUE NOT NULL")
    link(
        sites,
        "child",
        "id int PRIMARY KEY, parent int NOT NULL REFERENCES parent (id)",
        at_site="id int PRIMARY KEY, parent int NOT NULL REFERENCES parent (id)"
        " DEFERRABLE",
    )
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO parent VALUES (1, 'a'), (2, 'b')",
            "INSERT INTO child VALUES (10, 1), (20, 2)",
        )
    return sites


@pytest.mark.parametrize(
    "statements",
    [
        [
            "INSERT INTO parent VALUES (3, 'c')",
            "INSERT INTO child VALUES (30, 3)",
        ],
        [
            "SET CONSTRAINTS ALL DEFERRED",
            "INSERT INTO child VALUES (30, 3)",
            "INSERT INTO parent VALUES (3, 'c')",
        ],
        ["DELETE FROM child WHERE id = 10", "DELETE FROM parent WHERE id = 1"],
        ["UPDATE child SET parent = 2", "DELETE FROM parent WHERE id = 1"],
        [
            "INSERT INTO parent VALUES (3, 'c')",
            "UPDATE child SET parent = 3",
            "DELETE FROM parent WHERE id < 3",
        ],
        [
            "DELETE FROM child WHERE id = 10",
            "DELETE FROM parent WHERE id = 1",
            "INSERT INTO parent VALUES (3, 'a')",
            "UPDATE child SET parent = 3",
        ],
        [
            "SET CONSTRAINTS ALL DEFERRED",
            "UPDATE parent SET id = id + 10",
            "UPDATE child SET parent = parent + 10",
        ],
        [
            "DELETE FROM child",
            "DELETE FROM parent",
            "INSERT INTO parent VALUES (1, 'new'), (2, 'b')",
            "INSERT INTO child VALUES (10, 2), (20, 1)",
        ],
    ],
    ids=[
        "parent and child inserted",
        "child inserted before its parent",
        "child and parent deleted",
        "child moved, old parent deleted",
        "child moved to a new parent",
        "new parent takes the name of the old one",
        "key of the parent moved",
        "all deleted and inserted again",
    ],
)
def test_family_arrives_as_it_is(family: Directory, statements: list[str]) -> None:
    run(family["jfk"], *statements)
    deferred.push(family["jfk"])
    assert parked(family["hq"]) == []
    for table in ("parent", "child"):
        assert rows(family["hq"], table) == rows(family["jfk"], table)


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL", "NO ACTION", "RESTRICT"])
def test_delete_of_a_parent_with_children_at_the_master(
    sites: Directory, action: str
) -> None:
    """A child that the site does not know of, by what the master's key says."""
    link(sites, "parent", "id int PRIMARY KEY")
    link(
        sites,
        "child",
        f"id int PRIMARY KEY, parent int REFERENCES parent (id) ON DELETE {action}",
    )
    for site in sites.values():
        as_refresh(
            site, "INSERT INTO parent VALUES (1)", "INSERT INTO child VALUES (10, 1)"
        )
    as_refresh(sites["hq"], "INSERT INTO child VALUES (11, 1)")
    run(
        sites["jfk"],
        "DELETE FROM child WHERE id = 10",
        "DELETE FROM parent WHERE id = 1",
    )
    report = deferred.push(sites["jfk"])
    assert (report.errors, rows(sites["hq"], "child")) == (1, [(10, 1), (11, 1)])
    [error] = parked(sites["hq"])
    if action in ("CASCADE", "SET NULL"):
        assert error[1:3] == ("conflict", "SNP-314")
    else:
        # RESTRICT has a state of its own from PostgreSQL 18 on.
        assert error[1] == "error"
        assert error[2] in ("23503", "23001" if action == "RESTRICT" else "23503")


def test_cascade_at_both_ends(sites: Directory) -> None:
    """The site's cascade is queued, the master's own finds nothing left to do."""
    link(sites, "parent", "id int PRIMARY KEY")
    link(
        sites,
        "child",
        "id int PRIMARY KEY, parent int REFERENCES parent (id) ON DELETE CASCADE",
    )
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO parent VALUES (1), (2)",
            "INSERT INTO child VALUES (10, 1), (11, 1)",
        )
    run(
        sites["jfk"],
        "UPDATE child SET parent = 2 WHERE id = 11",
        "DELETE FROM parent WHERE id = 1",
    )
    deferred.push(sites["jfk"])
    assert parked(sites["hq"]) == []
    assert rows(sites["hq"], "child") == [(11, 2)]
    assert rows(sites["hq"], "parent") == [(2,)]


def test_foreign_key_violation_at_the_master_is_an_error(family: Directory) -> None:
    run(family["jfk"], "INSERT INTO parent VALUES (3, 'c')")
    deferred.push(family["jfk"])
    as_refresh(family["hq"], "DELETE FROM parent WHERE id = 3")
    run(family["jfk"], "INSERT INTO child VALUES (30, 3)")
    deferred.push(family["jfk"])
    assert [error[1:3] for error in parked(family["hq"])] == [("error", "23503")]
    assert len(rows(family["hq"], "child")) == 2


FREE = ["text", "int", "bigint", "uuid", "varchar(3)"]


# Types without a free value are refused when the snapshot is created.
@pytest.mark.parametrize(
    ("kind", "needed"),
    [(kind, "NOT NULL") for kind in FREE]
    + [(kind, "") for kind in (*FREE, "smallint", "numeric")],
)
def test_unique_values_are_swapped(sites: Directory, kind: str, needed: str) -> None:
    column = f"id int PRIMARY KEY, v {kind} {needed}, UNIQUE (v)"
    link(sites, "t", column, at_site=column + " DEFERRABLE")
    values = {"uuid": "md5(g::text)::uuid"}.get(kind, "g")
    fill = f"INSERT INTO t SELECT g, {values} FROM generate_series(1, 4) g"
    for site in sites.values():
        as_refresh(site, fill)
    run(
        sites["jfk"],
        "UPDATE t SET v = other.v FROM t other"
        " WHERE other.id = CASE t.id WHEN 4 THEN 1 ELSE t.id + 1 END",
    )
    deferred.push(sites["jfk"])
    assert parked(sites["hq"]) == []
    assert rows(sites["hq"], "t") == rows(sites["jfk"], "t")


def test_rows_that_only_the_master_has_follow_no_value_to_null(
    sites: Directory,
) -> None:
    """Where nothing but NULL could stand in for a value, the transaction waits."""
    link(sites, "parents", "id int PRIMARY KEY, day date UNIQUE")
    run_everywhere(
        sites, "INSERT INTO parents VALUES (1, '2026-01-01'), (2, '2026-01-02')"
    )
    run(
        sites["hq"],
        "CREATE TABLE children (id int PRIMARY KEY,"
        " day date REFERENCES parents (day) ON UPDATE CASCADE)",
        "INSERT INTO children VALUES (1, '2026-01-01'), (2, '2026-01-02')",
    )
    swap = [
        f"UPDATE parents SET day = '2026-01-0{day}' WHERE id = {row}"
        for row, day in ((1, 3), (2, 1), (1, 2))
    ]
    run(sites["jfk"], *swap)
    deferred.push(sites["jfk"])
    assert [code for _, _, code, _ in parked(sites["hq"])] == ["SNP-008"]
    same = "SELECT count(*) FROM children c JOIN parents p USING (id, day)"
    assert run(sites["hq"], same) == [(2,)]


@pytest.mark.parametrize("rest", ["UNIQUE (code)", "UNIQUE (code, kind)"])
def test_rows_that_only_the_master_has_follow_a_unique_value(
    sites: Directory, rest: str
) -> None:
    parent = f"id int PRIMARY KEY, code int UNIQUE, kind int DEFAULT 1, {rest}"
    link(sites, "parents", parent)
    run_everywhere(sites, "INSERT INTO parents VALUES (1, 10), (2, 20)")
    run(
        sites["hq"],
        "CREATE TABLE children (id int PRIMARY KEY,"
        " code int REFERENCES parents (code) ON UPDATE CASCADE)",
        "INSERT INTO children VALUES (1, 10), (2, 20)",
    )
    swap = [
        f"UPDATE parents SET code = {code} WHERE id = {row}"
        for row, code in ((1, 30), (2, 10), (1, 20))
    ]
    run(sites["jfk"], *swap)
    deferred.push(sites["jfk"])
    assert parked(sites["hq"]) == []
    assert rows(sites["hq"], "parents") == [(1, 20, 1), (2, 10, 1)]
    assert rows(sites["hq"], "children") == [(1, 20), (2, 10)]


@pytest.mark.parametrize(
    "statements",
    [
        ["DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (9, 'a')"],
        ["DELETE FROM t WHERE id = 1", "UPDATE t SET v = 'a' WHERE id = 2"],
        ["UPDATE t SET v = 'z' WHERE id = 1", "INSERT INTO t VALUES (9, 'a')"],
        [
            "UPDATE t SET v = 'z' WHERE id = 1",
            "UPDATE t SET v = 'a' WHERE id = 2",
            "UPDATE t SET v = 'b' WHERE id = 3",
        ],
        ["UPDATE t SET id = 9 WHERE id = 1"],
    ],
    ids=["delete, insert", "delete, update", "update, insert", "chain", "key change"],
)
def test_unique_value_is_given_on(sites: Directory, statements: list[str]) -> None:
    link(sites, "t", "id int PRIMARY KEY, v text NOT NULL UNIQUE")
    for site in sites.values():
        as_refresh(site, "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    run(sites["jfk"], *statements)
    deferred.push(sites["jfk"])
    assert parked(sites["hq"]) == []
    assert rows(sites["hq"], "t") == rows(sites["jfk"], "t")


def test_two_unique_keys_over_the_same_columns_are_swapped(sites: Directory) -> None:
    columns = "id int PRIMARY KEY, a int, b int NOT NULL, UNIQUE (a, b), UNIQUE (b)"
    link(
        sites,
        "t",
        columns,
        at_site=columns.replace("UNIQUE (a, b)", "UNIQUE (a, b) DEFERRABLE").replace(
            "UNIQUE (b)", "UNIQUE (b) DEFERRABLE"
        ),
    )
    for site in sites.values():
        as_refresh(site, "INSERT INTO t VALUES (1, 1, 1), (2, 1, 2)")
    run(sites["jfk"], "UPDATE t SET b = 3 - b")
    deferred.push(sites["jfk"])
    assert parked(sites["hq"]) == []
    assert rows(sites["hq"], "t") == [(1, 1, 2), (2, 1, 1)]


def test_value_kept_by_the_master_is_not_parked_away(sites: Directory) -> None:
    """The master gave the value to a row that the site left alone in this column."""
    link(sites, "t", "id int PRIMARY KEY, v text UNIQUE, n int")
    rules.set_column_group(sites["hq"], "t", "n", ["n"])
    for site in sites.values():
        as_refresh(site, "INSERT INTO t VALUES (1, 'a', 0), (2, 'b', 0)")
    as_refresh(sites["hq"], "UPDATE t SET v = 'z' WHERE id = 1")
    run(
        sites["jfk"],
        "UPDATE t SET n = 1 WHERE id = 1",
        "UPDATE t SET v = 'z' WHERE id = 2",
    )
    deferred.push(sites["jfk"])
    assert [error[1:3] for error in parked(sites["hq"])] == [("conflict", "SNP-314")]
    assert rows(sites["hq"], "t") == [(1, "z", 0), (2, "b", 0)]


def test_unique_key_that_holds_part_of_the_key(sites: Directory) -> None:
    columns = "a int, b int, c int NOT NULL, PRIMARY KEY (a, b), UNIQUE (b, c)"
    link(
        sites,
        "t",
        columns,
        at_site=columns + " DEFERRABLE",
    )
    for site in sites.values():
        as_refresh(site, "INSERT INTO t VALUES (1, 1, 1), (2, 1, 2)")
    run(sites["jfk"], "UPDATE t SET c = 3 - c")
    deferred.push(sites["jfk"])
    assert parked(sites["hq"]) == []
    assert rows(sites["hq"], "t") == [(1, 1, 2), (2, 1, 1)]


def test_unique_key_that_holds_the_whole_key(sites: Directory) -> None:
    link(sites, "t", "id int PRIMARY KEY, v date NOT NULL, UNIQUE (id, v)")
    run(sites["jfk"], "INSERT INTO t VALUES (1, '2026-01-01'), (2, '2026-01-01')")
    run(sites["jfk"], "UPDATE t SET v = v + id")
    deferred.push(sites["jfk"])
    assert parked(sites["hq"]) == []
    assert rows(sites["hq"], "t") == rows(sites["jfk"], "t")


def test_delete_and_insert_of_one_key_in_one_with(sites: Directory) -> None:
    link(sites, "t", "id int, v text, PRIMARY KEY (id) DEFERRABLE")
    for site in sites.values():
        as_refresh(site, "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    run(
        sites["jfk"],
        "WITH gone AS (DELETE FROM t WHERE id = 1 RETURNING *)"
        " INSERT INTO t SELECT id, v || '!' FROM gone",
    )
    deferred.push(sites["jfk"])
    assert parked(sites["hq"]) == []
    assert rows(sites["hq"], "t") == [(1, "a!"), (2, "b")]


def test_self_reference_is_written_in_one_piece(sites: Directory) -> None:
    link(sites, "staff", "id int PRIMARY KEY, boss int REFERENCES staff (id)")
    run(sites["jfk"], "INSERT INTO staff VALUES (1, NULL), (2, 1), (3, 2)")
    run(
        sites["jfk"],
        "UPDATE staff SET boss = NULL WHERE id = 3",
        "DELETE FROM staff WHERE id IN (1, 2)",
        "INSERT INTO staff VALUES (4, 3)",
    )
    deferred.push(sites["jfk"])
    assert parked(sites["hq"]) == []
    assert rows(sites["hq"], "staff") == [(3, None), (4, 3)]


def test_cycle_of_references(sites: Directory) -> None:
    """Neither table is the parent: deferrable keys at the master let it through."""
    for name, other in (("a", "b"), ("b", "a")):
        link(sites, name, f"id int PRIMARY KEY, {other} int")
    for site in sites.values():
        for name, other in (("a", "b"), ("b", "a")):
            run(
                site,
                f"ALTER TABLE {name} ADD FOREIGN KEY ({other}) REFERENCES {other} (id)"
                " DEFERRABLE INITIALLY DEFERRED",
            )
    run(sites["jfk"], "INSERT INTO a VALUES (1, 1)", "INSERT INTO b VALUES (1, 1)")
    run(sites["jfk"], "DELETE FROM a", "DELETE FROM b")
    run(sites["jfk"], "INSERT INTO b VALUES (2, 2)", "INSERT INTO a VALUES (2, 2)")
    deferred.push(sites["jfk"])
    assert parked(sites["hq"]) == []
    assert rows(sites["hq"], "a") == [(2, 2)]
