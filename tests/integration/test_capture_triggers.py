"""Capture beside the user's own triggers and cascades."""

import pytest

import deferred
from sites import Directory
from tests.linked_table import as_refresh, calls, link, parked, rows, run

TOUCH_AGAIN = """
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE orders SET qty = NEW.qty * 10 WHERE id = NEW.id AND qty < 100;
    RETURN NULL;
END $$;
CREATE TRIGGER touch AFTER INSERT OR UPDATE ON orders
FOR EACH ROW EXECUTE FUNCTION touch()
"""

WRITE_AUDIT = """
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit SELECT COALESCE(max(id), 0) + 1, TG_OP FROM audit;
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON orders
FOR EACH ROW EXECUTE FUNCTION audit()
"""

BRING_BACK = """
CREATE FUNCTION bring_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO orders VALUES (OLD.id, OLD.name || '!', OLD.qty);
    RETURN NULL;
END $$;
CREATE TRIGGER bring_back AFTER DELETE ON orders
FOR EACH ROW EXECUTE FUNCTION bring_back()
"""


def test_trigger_that_updates_the_row_again(sites: Directory) -> None:
    link(sites)
    run(sites["jfk"], TOUCH_AGAIN)
    run(sites["jfk"], "INSERT INTO orders (id, qty) VALUES (1, 1), (2, 500)")
    # The nested statements are captured first: numbers do not order the steps.
    operations = [call[1] for call in calls(sites["jfk"])]
    assert operations[-2:] == ["I", "I"]
    assert "U" in operations[:-2]
    deferred.push(sites["jfk"])
    assert rows(sites["hq"]) == rows(sites["jfk"])
    run(sites["jfk"], "UPDATE orders SET qty = 2 WHERE id = 1")
    deferred.push(sites["jfk"])
    assert rows(sites["hq"]) == rows(sites["jfk"])
    assert [row[2] for row in rows(sites["hq"])] == [200, 500]


def test_trigger_that_writes_another_captured_table(sites: Directory) -> None:
    link(sites)
    link(sites, "audit", "id int PRIMARY KEY, what text")
    run(sites["jfk"], WRITE_AUDIT)
    run(
        sites["jfk"],
        "INSERT INTO orders (id) VALUES (1), (2)",
        "DELETE FROM orders WHERE id = 1",
    )
    deferred.push(sites["jfk"])
    assert rows(sites["hq"], "audit") == [(1, "INSERT"), (2, "INSERT"), (3, "DELETE")]
    assert rows(sites["hq"]) == rows(sites["jfk"])


def test_trigger_that_brings_a_deleted_row_back_changed(sites: Directory) -> None:
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'a', 1)")
    run(sites["jfk"], BRING_BACK)
    run(sites["jfk"], "DELETE FROM orders")
    deferred.push(sites["jfk"])
    assert [row[:3] for row in rows(sites["hq"])] == [(1, "a!", 1)]
    assert parked(sites["hq"]) == []


def test_trigger_that_undoes_a_delete_leaves_the_master_alone(sites: Directory) -> None:
    """Insert and delete leave nothing, in whatever order they were captured."""
    link(sites)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders VALUES (1, 'a', 1)")
    run(sites["jfk"], BRING_BACK.replace("OLD.name || '!'", "OLD.name"))
    run(sites["jfk"], "DELETE FROM orders")
    deferred.push(sites["jfk"])
    assert [row[:3] for row in rows(sites["hq"])] == [(1, "a", 1)]
    assert parked(sites["hq"]) == []


def test_before_trigger_decides_what_is_recorded(sites: Directory) -> None:
    link(sites)
    run(
        sites["jfk"],
        "CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.name := upper(NEW.name); RETURN NEW; END $$",
        "CREATE TRIGGER stamp BEFORE INSERT ON orders"
        " FOR EACH ROW EXECUTE FUNCTION stamp()",
    )
    run(sites["jfk"], "INSERT INTO orders (id, name) VALUES (1, 'low')")
    deferred.push(sites["jfk"])
    assert rows(sites["hq"])[0][1] == "LOW"


def test_cascades_are_captured(sites: Directory) -> None:
    _parents_and_children(sites)
    run(sites["jfk"], "DELETE FROM parent WHERE id = 1")
    assert [call[:2] for call in calls(sites["jfk"])].count(("child", "D")) == 2
    deferred.push(sites["jfk"])
    assert rows(sites["hq"], "parent") == [(2,)]
    assert rows(sites["hq"], "child") == [(12, 2)]
    run(sites["jfk"], "UPDATE parent SET id = 3 WHERE id = 2")
    deferred.push(sites["jfk"])
    assert rows(sites["hq"], "parent") == [(3,)]
    assert rows(sites["hq"], "child") == [(12, 3)]
    assert parked(sites["hq"]) == []


def test_set_null_is_captured(sites: Directory) -> None:
    _parents_and_children(sites, "ON DELETE SET NULL")
    run(sites["jfk"], "DELETE FROM parent WHERE id = 1")
    deferred.push(sites["jfk"])
    assert rows(sites["hq"], "child") == [(10, None), (11, None), (12, 2)]


def test_changes_of_our_own_are_not_queued(sites: Directory) -> None:
    link(sites)
    as_refresh(sites["jfk"], "INSERT INTO orders (id) VALUES (1)")
    assert calls(sites["jfk"]) == []


@pytest.mark.parametrize(
    ("action", "left"),
    [
        ("ON DELETE CASCADE", [(12, 2)]),
        ("ON DELETE SET NULL", [(10, None), (11, None), (12, 2)]),
    ],
)
def test_cascade_of_a_refresh_leaves_extra_keys(
    sites: Directory, action: str, left: list[tuple[object, ...]]
) -> None:
    """The children may be of another group, whose refresh has to look again."""
    _parents_and_children(sites, action)
    as_refresh(
        sites["jfk"],
        "SELECT set_config('snaptide.writing', 'parent'::regclass::oid::text, true)",
        "DELETE FROM parent WHERE id = 1",
    )
    assert calls(sites["jfk"]) == []
    assert rows(sites["jfk"], "child") == left
    extra = 'SELECT DISTINCT k1 FROM snaptide."extra$_{}" ORDER BY 1'
    assert run(sites["jfk"], extra.format("child")) == [(10,), (11,)]
    assert run(sites["jfk"], extra.format("parent")) == []


def test_trigger_below_a_refresh_changes_what_the_site_sends(sites: Directory) -> None:
    link(sites)
    run(sites["jfk"], TOUCH_AGAIN)
    for site in sites.values():
        as_refresh(site, "INSERT INTO orders (id, qty) VALUES (1, 1)")
    assert [call[1] for call in calls(sites["jfk"])] == ["U", "U"]
    assert run(sites["jfk"], 'SELECT k1 FROM snaptide."extra$_orders"') == []
    assert deferred.push(sites["jfk"]).errors == 0
    assert rows(sites["hq"]) == rows(sites["jfk"])
    assert [row[2] for row in rows(sites["hq"])] == [100]


def _parents_and_children(
    sites: Directory, action: str = "ON DELETE CASCADE ON UPDATE CASCADE"
) -> None:
    link(sites, "parent", "id int PRIMARY KEY")
    link(
        sites,
        "child",
        f"id int PRIMARY KEY, parent int REFERENCES parent (id) {action}",
    )
    for site in sites.values():
        as_refresh(
            site,
            "INSERT INTO parent VALUES (1), (2)",
            "INSERT INTO child VALUES (10, 1), (11, 1), (12, 2)",
        )


#: What the functions of logs and queues call things of their own.
NAMES = (
    *("new", "old", "xact", "ring", "intact", "ins", "upd", "del", "brought"),
    *("renamed", "written", "paired", "effect", "mixed", "place", "n", "o", "r"),
    *("c1", "snaptide_new", "snaptide_old", "tg_op"),
)


def test_columns_are_called_as_anything_in_our_functions(sites: Directory) -> None:
    columns = ", ".join(f'"{name}" int' for name in NAMES)
    link(sites, "t", f"{columns}, PRIMARY KEY (new, xact)")
    values = ", ".join("1" for _ in NAMES)
    run(sites["jfk"], f"INSERT INTO t VALUES ({values})")
    run(sites["jfk"], "UPDATE t SET ring = 2, place = 3", "UPDATE t SET new = 4")
    deferred.push(sites["jfk"])
    assert rows(sites["hq"], "t") == rows(sites["jfk"], "t")
    run(sites["jfk"], "ALTER TABLE t RENAME ring TO rang", "UPDATE t SET rang = 5")
    run(sites["jfk"], "DELETE FROM t")
    assert deferred.push(sites["jfk"]).errors == 0
    assert rows(sites["hq"], "t") == []
    logged = 'SELECT DISTINCT k1 FROM snaptide."mlog$_t" ORDER BY k1'
    assert run(sites["hq"], logged) == [(1,), (4,)]
