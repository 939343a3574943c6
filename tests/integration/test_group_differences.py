"""Masters of a group that differ after a decision at one of them are said to differ."""

from collections.abc import Callable

import pytest

import deferred
import groups
from deferred.parked.edit import Edit
from sites import Directory, Site
from snaptide.doctor import examine
from snaptide.repair import repair
from snaptide.status import status_of
from tests.fix_commands import Snaptide
from tests.fix_db import Clone
from tests.fix_worker import WriteSettings
from tests.grouped import GROUP, found_group, push_all
from tests.linked_table import rows, run


@pytest.fixture
def three(make_sites: Callable[..., Directory]) -> Directory:
    """A change of hq's is parked at lax; bos has it."""
    sites = make_sites("hq", "lax", "bos")
    found_group(sites, "hq", "lax", "bos")
    run(sites["hq"], "INSERT INTO orders (id, qty) VALUES (1, 0), (2, 0)")
    push_all(sites)
    run(sites["lax"], "UPDATE orders SET qty = 50 WHERE id = 1")
    run(sites["hq"], "UPDATE orders SET qty = 7 WHERE id = 1")
    deferred.push(sites["hq"], "bos")
    assert deferred.push(sites["hq"], "lax").errors == 1
    return sites


def told(site: Site) -> list[str]:
    """What status and doctor say of the table; they say the same."""
    wanted = [f for f in status_of(site).findings if f.subject == "table orders"]
    found = [f for f in examine(site) if f.subject == "table orders"]
    assert len(wanted) == len(found)
    return [one.what for one in found]


@pytest.mark.parametrize("how", ["deleted", "edited"])
def test_rows_are_listed_until_they_are_equal(
    three: Directory, write_settings: WriteSettings, how: str
) -> None:
    lax = three["lax"]
    [parked] = deferred.list_errors(lax)
    if how == "deleted":
        deferred.delete_errors(lax)
    else:
        edits = [Edit(call="orders", column="qty", value="9")]
        [report] = deferred.retry_errors(lax, [parked.id], edits=edits)
        assert report.applied, report.reason
    [what] = told(lax)
    assert "1 row is not the same at all masters of sales" in what
    assert "the first is id=1" in what
    assert f"of hq was {how}" in what
    assert told(three["hq"]) == []
    snaptide = Snaptide(write_settings(three))
    shown = snaptide.report("group", "show", "hq", GROUP, code=3)
    by_name = {one["master"]: one for one in shown["masters"]}
    assert [one["key"] for one in by_name["lax"]["different"]] == ["id=1"]
    assert by_name["hq"]["different"] == []
    assert snaptide("status", "lax").exit_code == 3
    [(now,)] = run(lax, "SELECT qty FROM orders WHERE id = 1")
    for name in ("hq", "bos"):
        run(three[name], f"UPDATE orders SET qty = {now} WHERE id = 1")
    assert told(lax) == []
    for name in ("hq", "bos"):
        run(three[name], "UPDATE orders SET qty = qty - 1 WHERE id = 1")
    assert told(lax) == [], "it was seen to be equal"


def test_keys_that_an_edit_gives_are_listed(three: Directory) -> None:
    """Others never get the row that it makes, nor lose the one that it moves."""
    lax = three["lax"]
    run(three["hq"], "INSERT INTO orders (id, qty) VALUES (3, 7)")
    run(lax, "INSERT INTO orders (id, qty) VALUES (3, 5)")
    deferred.push(three["hq"], "lax")
    for parked, edit in zip(
        deferred.list_errors(lax), ("orders.id=8", "orders.id=9"), strict=True
    ):
        edits = [Edit.parse(edit)]
        [report] = deferred.retry_errors(lax, [parked.id], edits=edits)
        assert report.applied, report.reason
    listed = "SELECT key ->> 'id' FROM snaptide.differing_row ORDER BY 1"
    assert run(lax, listed) == [("1",), ("3",), ("8",), ("9",)]
    (told_first, told_second) = told(lax)
    assert "2 rows are not the same" in told_first
    assert "2 rows are not the same" in told_second


def test_tables_of_a_restored_master_are_listed_until_they_are_equal(
    make_sites: Callable[..., Directory], clone: Clone
) -> None:
    """What its users changed after the backup is at the others alone."""
    sites = make_sites("hq", "lax")
    found_group(sites, "hq", "lax")
    run(sites["hq"], "INSERT INTO orders (id, qty) VALUES (1, 0)")
    push_all(sites)
    urls = {
        name: site.url.set(drivername="postgresql").render_as_string(
            hide_password=False
        )
        for name, site in sites.items()
    }
    sites.close()
    backup = clone(urls["hq"].rpartition("/")[2], "hq")
    run(sites["hq"], "UPDATE orders SET qty = 7")
    push_all(sites)
    sites.close()
    restored = Directory(urls | {"hq": backup})
    try:
        repair(restored["hq"])
        push_all(restored)
        assert rows(restored["hq"]) != rows(restored["lax"])
        [what] = told(restored["hq"])
        assert "differ from those of some masters of sales: hq was restored" in what
        run(restored["hq"], "UPDATE orders SET qty = 7")
        examine(restored["hq"])
        assert told(restored["hq"]) == []
    finally:
        restored.close()


def test_master_that_leaves_lists_nothing(three: Directory) -> None:
    deferred.delete_errors(three["lax"])
    groups.remove_master(three["hq"], GROUP, "lax", force=True)
    assert run(three["lax"], "SELECT count(*) FROM snaptide.differing_row") == [(0,)]
