"""Values of columns that the master has dropped, and what retries make of them."""

import re
from pathlib import Path
from typing import Any

import pytest

import deferred
import snapshots
from deferred.batches import gone_columns
from sites import Directory, Site
from snaptide import doctor
from tests.console import Browser, console
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

DROP = "ALTER TABLE public.t DROP note"


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    """An updatable snapshot without one of the master's columns."""
    columns = "id int PRIMARY KEY, x text, note text, note_ text, b text"
    show(sites["hq"], sites["jfk"], columns, ["id", "note", "note_", "b"])


def show(hq: Site, jfk: Site, columns: str, shown: list[str], name: str = "t") -> None:
    run(hq, f"CREATE TABLE public.{name} ({columns})")
    run(hq, f"INSERT INTO public.{name} (id) VALUES (1), (2), (3)")
    log(hq, name)
    snapshots.create(jfk, name, master="hq", columns=shown, updatable=True)
    refresh(jfk, name)


def at(hq: Site, columns: str) -> list[tuple[Any, ...]]:
    return run(hq, f"SELECT {columns} FROM public.t ORDER BY id")


def test_each_of_two_columns_keeps_its_values(hq: Site, jfk: Site) -> None:
    """One is called as the other would be, where another column has the name."""
    run(jfk, "UPDATE public.t SET note_ = 'mine' WHERE id = 1")
    run(jfk, "UPDATE public.t SET note = 'other' WHERE id = 2")
    run(hq, DROP, "ALTER TABLE public.t DROP note_")
    run(hq, "ALTER TABLE public.t RENAME b TO note")
    assert deferred.push(jfk).errors == 2
    found = [
        deferred.show_error(hq, one.id).calls[0].new for one in deferred.list_errors(hq)
    ]
    each: dict[str, str | None] = {"note_ (gone)": None, "note__ (gone)": None}
    assert found == [
        {"id": "1", "note": None, **each, "note__ (gone)": "mine"},
        {"id": "2", "note": None, **each, "note_ (gone)": "other"},
    ]


def test_an_insert_that_gives_no_value_gets_the_new_default(
    hq: Site, jfk: Site
) -> None:
    run(
        jfk,
        "UPDATE public.t SET note = 'mine' WHERE id = 1",
        "INSERT INTO public.t (id, b) VALUES (4, 'new')",
        "DELETE FROM public.t WHERE id = 2",
        "INSERT INTO public.t (id, b) VALUES (2, 'again')",
    )
    run(hq, DROP, "ALTER TABLE public.t ADD note text NOT NULL DEFAULT 'none'")
    assert deferred.push(jfk).errors == 1
    (error,) = deferred.list_errors(hq)
    (report,) = deferred.retry_errors(hq, [error.id])
    assert report.reason == ""
    assert at(hq, "id, note, b") == [
        (1, "mine", None),
        (2, "none", "again"),
        (3, "none", None),
        (4, "none", "new"),
    ]


def test_an_older_column_that_takes_the_name_gets_no_value(hq: Site, jfk: Site) -> None:
    run(jfk, "UPDATE public.t SET note = 'mine' WHERE id = 1")
    run(hq, DROP, "ALTER TABLE public.t RENAME x TO note")
    assert deferred.push(jfk).errors == 1
    (error,) = deferred.list_errors(hq)
    ways: list[dict[str, Any]] = [
        {"error_ids": [error.id]},
        {"reason": "column gone"},
    ]
    for chosen in ways:
        (report,) = deferred.retry_errors(hq, **chosen)
        assert "is gone, and call" in report.reason
    assert at(hq, "note") == [(None,)] * 3


def test_what_was_left_out_goes_to_the_new_column_whatever_it_is_called(
    hq: Site, jfk: Site
) -> None:
    run(
        jfk,
        "UPDATE public.t SET note = 'one' WHERE id = 1",
        "UPDATE public.t SET note = 'two' WHERE id = 2",
    )
    run(hq, DROP, "ALTER TABLE public.t ADD note text")
    deferred.push(jfk)
    (error,) = deferred.list_errors(hq)
    _, second = deferred.show_error(hq, error.id).calls
    (report,) = deferred.retry_errors(hq, [error.id], skip=[second.call_no])
    assert report.left_out == 1
    run(hq, "ALTER TABLE public.t RENAME note TO remark")
    run(hq, "UPDATE public.t SET remark = 'theirs' WHERE id = 2")
    (report,) = deferred.retry_errors(hq, [error.id])
    assert report.reason == ""
    assert at(hq, "remark") == [("one",), ("two",), (None,)]


def test_a_column_that_the_master_computes_now_stops_nothing(
    hq: Site, jfk: Site
) -> None:
    """Its values have no place to go; what leaves it alone is applied without it."""
    run(hq, DROP, "ALTER TABLE public.t ADD note text GENERATED ALWAYS AS (b) STORED")
    refresh(jfk, "t")
    (found,) = (one for one in doctor.examine(jfk) if one.subject == "t")
    assert found.what.startswith("t.note is generated at the master, but not here: ")
    run(jfk, "UPDATE public.t SET note = 'mine' WHERE id = 1")
    for value in ("first", "second"):
        run(jfk, f"UPDATE public.t SET b = '{value}' WHERE id = 2")
    run(jfk, "INSERT INTO public.t (id, b) VALUES (4, 'new')")
    run(jfk, "INSERT INTO public.t (id, b, note) VALUES (5, 'five', 'mine')")
    run(jfk, "DELETE FROM public.t WHERE id = 3")
    assert deferred.push(jfk).errors == 2
    for one in deferred.list_errors(hq):
        (call,) = deferred.show_error(hq, one.id).calls
        assert (call.new or {})["note (generated)"] == "mine"
    others = [(2, "second", "second"), (4, "new", "new")]
    assert at(hq, "id, b, note") == [(1, None, None), *others]
    for report in deferred.retry_errors(hq):
        assert "Column note of t is generated now, and call" in report.reason
    reports = deferred.retry_errors(hq, without_gone=True)
    assert [one.applied for one in reports] == [True, True]
    assert at(hq, "id, b, note") == [(1, None, None), *others, (5, "five", "five")]
    refresh(jfk, "t")
    assert at(hq, "id, b, note") == at(jfk, "id, b, note")


def test_the_console_previews_and_retries_without_the_values(
    sites: Directory, tmp_path: Path
) -> None:
    """From the page of a transaction, and all that match."""
    hq, browser = sites["hq"], Browser(console(sites, tmp_path))
    for n in (1, 2):
        run(sites["jfk"], f"UPDATE public.t SET note = 'x', b = 'mine' WHERE id = {n}")
    run(hq, DROP)
    assert deferred.push(sites["jfk"]).errors == 2
    first, second = (one.id for one in deferred.list_errors(hq))
    page = f"/sites/hq/errors/{first}"
    assert "would not apply" in browser.send(f"{page}/preview", {"id": first}).text
    form = {"id": first, "without_gone": "1"}
    shown = browser.send(f"{page}/preview", form).text
    assert "A retry would apply it" in shown
    assert f"snaptide errors retry hq {first} --without-gone" in shown
    assert re.search(r'name="without_gone" value="1" checked', shown)
    assert len(deferred.list_errors(hq)) == 2
    assert "1 of 1 applied" in browser.follow(browser.send(f"{page}/retry", form))
    queue = "/sites/hq/errors/retry"
    all_ = {"which": "matching", "reason": "column gone", "latest": str(second)}
    assert "0 of 1 applied" in browser.follow(browser.send(queue, all_))
    done = browser.follow(browser.send(queue, {**all_, "without_gone": "1"}))
    assert "1 of 1 applied" in done
    assert "--reason &#39;column gone&#39; --without-gone" in done
    assert at(hq, "b") == [("mine",), ("mine",), (None,)]


def test_more_columns_are_gone_than_a_function_takes(hq: Site, jfk: Site) -> None:
    names = [f"c{n}" for n in range(120)]
    columns = ", ".join(["id int PRIMARY KEY", *(f"{name} text" for name in names)])
    show(hq, jfk, columns, ["id", *names], "broad")
    run(jfk, "UPDATE public.broad SET c7 = 'mine' WHERE id = 1")
    run(hq, f"ALTER TABLE public.broad {', '.join(f'DROP {name}' for name in names)}")
    assert deferred.push(jfk).errors == 1
    (error,) = deferred.list_errors(hq)
    (call,) = deferred.show_error(hq, error.id).calls
    assert call.new is not None
    assert (len(call.new), call.new["c7 (gone)"]) == (121, "mine")


def test_names_stay_readable_in_every_encoding() -> None:
    values = '[{"name": "höhe", "old": null, "new": "größer", "given": true}]'
    kept = gone_columns.readable(values, "ascii")
    assert kept is not None
    assert '"name": "h\\u00f6he"' in kept
    assert "escaped" in kept
