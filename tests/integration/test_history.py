"""The life of a row, told from what all sites keep of it."""

from collections.abc import Callable

import pytest

import deferred
import groups
from deferred import Event, History
from deferred.errors import BadKey, NothingKnown
from masters import rules
from sites import Directory
from sites.errors import SiteNotInitialised
from tests.fix_commands import Snaptide
from tests.fix_db import MakeDatabase
from tests.grouped import GROUP, found_group, push_all
from tests.linked_table import ORDERS, as_refresh, link, run, run_each


def told(history: History) -> list[tuple[str, str, str]]:
    return [(one.site, one.kind, one.operation) for one in history.events]


def changes(history: History) -> list[Event]:
    return [one for one in history.events if one.kind == "change"]


def test_changes_conflicts_and_errors_of_a_row(sites: Directory) -> None:
    """A row of a site's: sent, in conflict settled by a rule, parked, and waiting."""
    hq, jfk = sites["hq"], sites["jfk"]
    link(sites)
    rules.set_column_group(hq, "orders", "qty", ["qty"])
    rules.add_update_resolution(hq, "orders", "qty", "overwrite")
    run(jfk, "INSERT INTO orders VALUES (1, 'n1', 1), (2, 'other', 1)")
    deferred.push(jfk)
    as_refresh(hq, "UPDATE orders SET qty = 5 WHERE id = 1")
    run(jfk, "UPDATE orders SET qty = 2 WHERE id = 1")
    deferred.push(jfk)
    as_refresh(hq, "UPDATE orders SET name = 'hq' WHERE id = 1")
    run(jfk, "UPDATE orders SET name = 'jfk' WHERE id = 1")
    deferred.push(jfk)
    run(jfk, "DELETE FROM orders WHERE id = 1")
    history = deferred.history(sites.values(), "orders", ["01"])
    assert (history.keys, history.away) == ((("1",),), ())
    by_kind = {
        kind: [one for one in history.events if one.kind == kind]
        for kind in ("change", "settled", "parked", "logged")
    }
    sent = by_kind["change"]
    assert [one.operation for one in sent] == ["insert", "update", "update", "delete"]
    assert [one.delivered_at is None for one in sent] == [False, False, False, True]
    assert {one.user for one in sent} == {run(jfk, "SELECT session_user")[0][0]}
    assert sent[1].old is not None
    assert (sent[1].old["qty"], (sent[1].new or {})["qty"]) == ("1", "2")
    [settled] = by_kind["settled"]
    assert settled.origin == "jfk"
    assert settled.transaction == sent[1].transaction
    assert (settled.conflict, settled.method) == ("update qty", "overwrite")
    assert ((settled.current or {})["qty"], (settled.result or {})["qty"]) == ("5", "2")
    [parked] = by_kind["parked"]
    assert (parked.transaction, parked.operation) == (sent[2].transaction, "update")
    assert (parked.current or {})["name"] == "hq"
    # Applied and users' changes alike, the insert and three updates.
    assert len(by_kind["logged"]) == 4
    rows = {one.site: one.row for one in history.now}
    assert rows["jfk"] is None
    assert (rows["hq"] or {})["name"] == "hq"
    # In the order of time, as far as it is known.
    times = [one.at for one in history.events if one.at is not None]
    assert times == sorted(times)


def test_e8_1_and_2_old_images_are_kept_with_who_made_them(sites: Directory) -> None:
    """An insert begins a life; an update keeps what it replaced, sent or not (E.8)."""
    jfk = sites["jfk"]
    link(sites)
    run(jfk, "INSERT INTO orders (id, qty) VALUES (1, 10)")
    [born] = deferred.history(sites.values(), "orders", ["1"]).events
    assert (born.operation, born.old) == ("insert", None)
    run_each(jfk, "UPDATE orders SET qty = 11", "UPDATE orders SET qty = 12")
    deferred.push(jfk)
    deferred.purge(jfk)  # within the retention
    kept = changes(deferred.history(sites.values(), "orders", ["1"]))
    assert [(one.old or {}).get("qty") for one in kept] == [None, "10", "11"]
    assert len({one.transaction for one in kept}) == 3


ODD = '"a.b" int, "say ""it""" timestamptz, v text, PRIMARY KEY ("a.b", "say ""it""")'


def test_a_row_is_followed_through_changes_of_its_key(sites: Directory) -> None:
    """Composite, with quoted names; other rows that move meanwhile are not mixed in."""
    jfk = sites["jfk"]
    link(sites, 'sales."Odd table"', ODD, carried=["a.b", 'say "it"', "v"])
    table = 'sales."Odd table"'
    run_each(
        jfk,
        f"INSERT INTO {table} VALUES (1, '2013-01-01', 'x'), (9, '2013-01-01', 'y')",
        f'UPDATE {table} SET "a.b" = "a.b" + 1',
        f'UPDATE {table} SET "a.b" = 3, v = \'z\' WHERE "a.b" = 2',
    )
    asked = {"a.b": "3", 'say "it"': "2013-01-01 02:00+02"}
    history = deferred.history(sites.values(), table, asked)
    day = "2013-01-01 00:00:00+00"
    assert history.keys == (("1", day), ("2", day), ("3", day))
    assert {one.transaction for one in history.events} == {
        xid for (xid,) in run(jfk, "SELECT deferred_tran_id FROM snaptide.deftran")
    }
    images = [image for one in changes(history) for image in (one.old, one.new)]
    assert {image["v"] for image in images if image} == {"x", "z"}
    # The first key leads to the same life.
    first = deferred.history(sites.values(), table, ["1", "2013-01-01"])
    assert first.events == history.events


def test_what_a_procedure_changed_says_so(sites: Directory) -> None:
    jfk = sites["jfk"]
    link(sites)
    as_refresh(jfk, "INSERT INTO orders VALUES (1, 'n1', 1)")
    run(
        jfk,
        "CREATE PROCEDURE public.more() LANGUAGE sql AS"
        " 'UPDATE public.orders SET qty = qty + 1'",
    )
    with jfk.begin() as connection:
        deferred.call(connection, "more", here=True)
    [change] = deferred.history(sites.values(), "orders", ["1"]).events
    assert (change.operation, change.procedure) == ("update", "more")


def test_masters_without_snapshots_tell_of_conflicts(
    make_sites: Callable[..., Directory],
) -> None:
    """Also one that takes changes and makes none; each has the row once."""
    sites = make_sites("hq", "lax", "bos", "new")
    hq, lax, bos = (sites[name] for name in ("hq", "lax", "bos"))
    found_group(sites, "hq", "lax", "bos")
    run(sites["new"], f"CREATE TABLE orders ({ORDERS})")
    groups.add_master(
        hq, GROUP, "new", target_type=groups.TargetType.PROTECTED_READ_ONLY
    )
    rules.set_column_group(hq, "orders", "qty", ["qty"])
    rules.add_update_resolution(hq, "orders", "qty", "overwrite")
    run(hq, "INSERT INTO orders (id, qty) VALUES (1, 1)")
    push_all(sites)
    run(hq, "UPDATE orders SET qty = 2")
    run(lax, "UPDATE orders SET qty = 3")
    for sender, to in ((lax, "hq"), (lax, "bos"), (lax, "new"), (hq, "bos")):
        deferred.push(sender, to)
    deferred.push(hq, "new")
    history = deferred.history(sites.values(), "orders", ["1"])
    assert [(one.site, one.kind) for one in history.events if one.conflict] == [
        ("hq", "settled"),
        ("bos", "parked"),
        ("new", "parked"),
    ]
    assert [(one.site, (one.row or {})["qty"]) for one in history.now] == [
        ("hq", "3"),
        ("lax", "3"),
        ("bos", "3"),
        ("new", "3"),
    ]
    run(bos, "UPDATE orders SET qty = 4")
    only = deferred.history(sites.values(), "orders", ["1"], master="bos")
    assert [one.site for one in only.now if (one.row or {})["qty"] == "4"] == ["bos"]


def test_what_it_cannot_tell_is_said(sites: Directory) -> None:
    link(sites)
    away = Directory(
        {name: site.url for name, site in sites.items()}
        | {"gone": sites["hq"].url.set(port=1)}
    )
    history = deferred.history(away.values(), "orders", ["7"])
    assert (history.away, history.events) == (("gone",), ())
    assert [one.row for one in history.now] == [None, None]
    away.close()
    with pytest.raises(NothingKnown):
        deferred.history(sites.values(), "unheard_of", ["7"])
    for key in (["7", "8"], ["seven"], {"name": "7"}):
        with pytest.raises(BadKey):
            deferred.history(sites.values(), "orders", key)


def test_the_command_shows_it(sites: Directory, snaptide: Snaptide) -> None:
    link(sites)
    run(sites["jfk"], "INSERT INTO orders VALUES (1, '[n1]', 1)")
    shown = snaptide.said("history", "orders", "1")
    assert "insert, waits for a push to hq" in shown
    assert "name: [n1]" in shown
    report = snaptide.report("history", "orders", "id=1")
    assert snaptide("history", "orders", "id=1", "id=2").exit_code == 1
    assert [one["operation"] for one in report["events"]] == ["insert"]


def test_a_site_that_takes_no_part_hides_nothing(
    sites: Directory, make_database: MakeDatabase
) -> None:
    link(sites)
    run(sites["jfk"], "INSERT INTO orders (id) VALUES (7)")
    bare = make_database()
    told = Directory({**{n: s.url for n, s in sites.items()}, "bare": bare})
    history = deferred.history(told.values(), "orders", ["7"])
    assert history.away == ()
    assert [event.site for event in history.events] == ["jfk"]
    with pytest.raises(SiteNotInitialised, match=str(told["bare"].url.database)):
        deferred.list_destinations(told["bare"])
    told.close()
