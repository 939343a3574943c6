"""Keys that compare in a way of their own, as types of extensions do."""

import pytest

import deferred
import masters
from masters.errors import CannotLogTable
from sites import Directory
from tests.fix_worlds import prepared_once
from tests.linked_table import calls, link, parked, rows, run, run_everywhere

#: A type whose equality is its owner's, as that of citext or ltree: caseless.
CODE = """
CREATE TYPE code AS (v text);
CREATE FUNCTION code_cmp(a code, b code) RETURNS int LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT CASE WHEN lower((a).v) < lower((b).v) THEN -1
                      WHEN lower((a).v) > lower((b).v) THEN 1 ELSE 0 END $$;
CREATE FUNCTION code_lt(a code, b code) RETURNS bool LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT lower((a).v) < lower((b).v) $$;
CREATE FUNCTION code_le(a code, b code) RETURNS bool LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT lower((a).v) <= lower((b).v) $$;
CREATE FUNCTION code_eq(a code, b code) RETURNS bool LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT lower((a).v) = lower((b).v) $$;
CREATE FUNCTION code_ge(a code, b code) RETURNS bool LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT lower((a).v) >= lower((b).v) $$;
CREATE FUNCTION code_gt(a code, b code) RETURNS bool LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT lower((a).v) > lower((b).v) $$;
CREATE FUNCTION code_hash(a code) RETURNS int LANGUAGE sql IMMUTABLE STRICT
    AS $$ SELECT hashtext(lower((a).v)) $$;
CREATE FUNCTION code_hash(a code, seed bigint) RETURNS bigint LANGUAGE sql IMMUTABLE
    STRICT AS $$ SELECT hashtextextended(lower((a).v), seed) $$;
CREATE OPERATOR < (LEFTARG = code, RIGHTARG = code, FUNCTION = code_lt);
CREATE OPERATOR <= (LEFTARG = code, RIGHTARG = code, FUNCTION = code_le);
CREATE OPERATOR = (LEFTARG = code, RIGHTARG = code, FUNCTION = code_eq, MERGES, HASHES);
CREATE OPERATOR >= (LEFTARG = code, RIGHTARG = code, FUNCTION = code_ge);
CREATE OPERATOR > (LEFTARG = code, RIGHTARG = code, FUNCTION = code_gt);
CREATE OPERATOR CLASS code_ops DEFAULT FOR TYPE code USING btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 code_cmp(code, code);
CREATE OPERATOR CLASS code_hash_ops DEFAULT FOR TYPE code USING hash AS
    OPERATOR 1 =, FUNCTION 1 code_hash(code), FUNCTION 2 code_hash(code, bigint)
"""


@prepared_once("hq", "jfk")
def caseless(sites: Directory) -> None:
    """A table at both sites whose key does not tell upper from lower case."""
    run_everywhere(sites, CODE)
    link(sites, "t", "k code PRIMARY KEY, u code UNIQUE, v int")
    rows = "('(a)', '(u)', 1), ('(b)', '(w)', 1)"
    run_everywhere(sites, f"INSERT INTO t VALUES {rows}")


def test_an_update_is_one_change_of_one_row(caseless: Directory) -> None:
    run(caseless["jfk"], "UPDATE t SET v = 2, k = '(A)' WHERE v = 1 AND u = '(U)'")
    assert [call[1] for call in calls(caseless["jfk"])] == ["U"]


def test_several_steps_are_folded(caseless: Directory) -> None:
    """The key is spelt in another way at each step."""
    run(
        caseless["jfk"],
        "UPDATE t SET k = '(A)', v = 2 WHERE k = '(a)'",
        "UPDATE t SET v = 3 WHERE k = '(a)'",
        "UPDATE t SET u = '(new)' WHERE k = '(a)'",
        "DELETE FROM t WHERE k = '(B)'",
        "INSERT INTO t VALUES ('(B)', '(W)', 9)",
    )
    assert deferred.push(caseless["jfk"]).errors == 0
    assert rows(caseless["hq"], "t") == rows(caseless["jfk"], "t")
    assert len(rows(caseless["hq"], "t")) == 2


def test_unique_values_are_swapped(caseless: Directory) -> None:
    run(
        caseless["jfk"],
        "UPDATE t SET u = NULL WHERE k = '(a)'",
        "UPDATE t SET u = '(U)' WHERE k = '(b)'",
        "UPDATE t SET u = '(W)' WHERE k = '(a)'",
    )
    assert deferred.push(caseless["jfk"]).errors == 0
    assert rows(caseless["hq"], "t") == rows(caseless["jfk"], "t")


def test_equal_values_are_no_conflict(caseless: Directory) -> None:
    run(caseless["hq"], "UPDATE t SET u = '(U)' WHERE k = '(a)'")
    run(caseless["jfk"], "UPDATE t SET u = '(x)' WHERE k = '(a)'")
    assert deferred.push(caseless["jfk"]).errors == 0
    run(caseless["hq"], "UPDATE t SET u = '(theirs)' WHERE k = '(a)'")
    run(caseless["jfk"], "UPDATE t SET u = '(mine)' WHERE k = '(a)'")
    assert deferred.push(caseless["jfk"]).errors == 1


def test_a_collation_comes_along(sites: Directory) -> None:
    """The queue tells the same keys apart as the table does."""
    link(sites, "t", 'k text COLLATE "C" PRIMARY KEY, v text')
    assert run(
        sites["jfk"],
        "SELECT attname, attcollation::regcollation::text FROM pg_attribute"
        " WHERE attrelid = 'snaptide.\"def$_t\"'::regclass AND attcollation <> 0"
        " ORDER BY 1",
    ) == [("n1", '"C"'), ("n2", '"default"'), ("o1", '"C"'), ("o2", '"default"')]


def test_the_key_of_an_insert_is_found(caseless: Directory) -> None:
    run(caseless["hq"], "INSERT INTO t VALUES ('(c)', '(c)', 1)")
    run(caseless["jfk"], "INSERT INTO t VALUES ('(C)', '(d)', 1)")
    assert deferred.push(caseless["jfk"]).errors == 1
    assert [error[1] for error in parked(caseless["hq"])] == ["conflict"]


def test_a_key_that_cannot_be_paired_is_refused(sites: Directory) -> None:
    """Its equality can neither be hashed nor merged: every UPDATE would fail."""
    run(
        sites["hq"],
        "CREATE EXTENSION vector",
        "CREATE TABLE t (k vector(2) PRIMARY KEY, v vector)",
    )
    with pytest.raises(CannotLogTable, match=r"Column k .* type public\.vector"):
        masters.create_snapshot_log(sites["hq"], "t")
    masters.create_snapshot_log(sites["hq"], "t", with_rowid=True)
    run(sites["hq"], "INSERT INTO t VALUES ('[1,2]', '[1]')", "UPDATE t SET v = k")


BROKEN = {
    "renamed": "ALTER TABLE t RENAME a TO z",
    "dropped": "ALTER TABLE t DROP a",
    "another kind": "ALTER TABLE t ALTER a TYPE text",
    "not whole numbers": "ALTER TABLE t ALTER a TYPE numeric",
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_a_user_goes_on_writing_when_the_key_is_another(
    sites: Directory, change: str
) -> None:
    hq = sites["hq"]
    run(hq, "CREATE TABLE t (a int, b text, c int, PRIMARY KEY (a, b))")
    masters.create_snapshot_log(hq, "t")
    run(hq, "INSERT INTO t VALUES (1, 'x')")
    run(hq, change)
    run(
        hq,
        "INSERT INTO t (b) VALUES ('y')" if "DROP" in change else "TABLE t",
        "UPDATE t SET c = 2",
        "DELETE FROM t",
    )
    kinds = [row[0] for row in run(hq, 'SELECT kind FROM snaptide."mlog$_t"')]
    assert kinds[0] == "I"
    assert set(kinds[1:]) == {"T"}
    assert len(kinds) >= 3


def test_a_composite_with_a_field_that_is_null_is_a_key(sites: Directory) -> None:
    """Though PostgreSQL says of such a value that it is not NULL, and that it is."""
    run_everywhere(sites, "CREATE TYPE place AS (shop int, shelf int)")
    link(sites, "t", "k place PRIMARY KEY, v int")
    run_everywhere(sites, "INSERT INTO t VALUES ('(1,)', 1), ('(2,)', 1), ('(3,)', 1)")
    run(sites["jfk"], "UPDATE t SET v = 2 WHERE (k).shop = 1")
    run(sites["jfk"], "DELETE FROM t WHERE (k).shop = 2")
    run(sites["jfk"], "UPDATE t SET k = '(4,)' WHERE (k).shop = 3")
    assert deferred.push(sites["jfk"]).errors == 0
    assert run(sites["hq"], "SELECT k::text, v FROM t ORDER BY k") == [
        ("(1,)", 2),
        ("(4,)", 1),
    ]
