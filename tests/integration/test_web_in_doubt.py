"""Coordinated transactions in doubt, in the console."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import text

import synchronous
from sites import Directory, faults
from tests.console import Browser, console
from tests.coordinated import prepared
from tests.fix_worlds import prepared_once
from tests.grouped import without
from tests.linked_table import link, run, run_everywhere
from tests.silence import silent


@prepared_once("hq", "jfk")
def linked(sites: Directory) -> None:
    """The table `orders` at both sites, with one row, propagated synchronously."""
    link(sites, "orders", "id int PRIMARY KEY, qty int", synchronous=True)
    run_everywhere(sites, "INSERT INTO orders VALUES (1, 1)")


@pytest.fixture
def left(linked: Directory, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a coordinator has left in doubt at hq, which jfk has decided."""

    class Gone(BaseException):
        pass

    def stop(name: str) -> None:
        if name == "synchronous.after_decision":
            raise Gone

    def say_nothing(*args: object) -> None:
        raise args[-1]  # type: ignore[misc]

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", stop)
        patch.setattr("synchronous.commit._find_out", say_nothing)
        with pytest.raises(Gone), synchronous.begin(linked["jfk"]) as connection:
            connection.execute(text("UPDATE orders SET qty = 7 WHERE id = 1"))
    [gid] = prepared(linked["hq"])
    return gid


def test_nothing_in_doubt(linked: Directory, tmp_path: Path) -> None:
    browser = Browser(console(linked, tmp_path))
    assert "No coordinated transaction is in doubt" in browser.get("/sites/hq/indoubt")
    assert 'href="/sites/hq/indoubt"' in browser.get("/sites/hq")


def test_what_is_in_doubt_is_shown_and_not_ended(
    linked: Directory, left: str, tmp_path: Path
) -> None:
    browser = Browser(console(linked, tmp_path))
    page = browser.get("/sites/hq/indoubt")
    for said in (left, "prepared", "commit", "snaptide indoubt recover hq"):
        assert said in page
    assert "decided" in browser.get("/sites/jfk/indoubt")
    assert prepared(linked["hq"]) == [left]
    synchronous.recover(linked["hq"])


def noted(sites: Directory) -> list[tuple[str, str]]:
    """The actions at hq, with their outcomes."""
    return run(sites["hq"], "SELECT command, outcome FROM snaptide.operator_action")


def test_an_operator_recovers_and_does_not_decide(
    linked: Directory, left: str, tmp_path: Path
) -> None:
    browser, page = Browser(console(linked, tmp_path)), "/sites/hq/indoubt"
    assert "Commit ..." not in browser.get(page)
    refused = browser.send(f"{page}/end", {"gid": left, "how": "commit"}, of=page)
    assert refused.status_code == 403
    told = browser.follow(browser.send(f"{page}/recover", {}, of=page))
    assert "1 committed, 0 rolled back, 0 left in doubt." in told
    assert "No coordinated transaction is in doubt here." in told
    assert noted(linked) == [
        (
            "snaptide indoubt recover hq",
            "1 committed, 0 rolled back, 0 left in doubt.",
        )
    ]


def test_an_administrator_decides_after_typing_it(
    linked: Directory, left: str, tmp_path: Path
) -> None:
    page = "/sites/hq/indoubt"
    browser = Browser(console(linked, tmp_path), "administrator")
    assert "Rollback ..." in browser.get(page)
    form = {"gid": left, "how": "commit"}
    asked = browser.send(f"{page}/end", form, of=page).text
    assert "Type commit to do it" in asked
    assert f"snaptide indoubt commit hq {left}" in asked
    wrong = browser.send(f"{page}/end", {**form, "sure": "yes"}, of=page).text
    assert "That is not what it asks for." in wrong
    assert prepared(linked["hq"]) == [left]
    assert noted(linked) == []
    # Its deciding site answers, and has decided to commit.
    against = {"gid": left, "how": "rollback", "sure": "rollback"}
    refused = browser.send(f"{page}/end", against, of=page)
    assert refused.status_code == 400
    assert "decision about" in refused.text
    assert prepared(linked["hq"]) == [left]
    told = browser.follow(
        browser.send(f"{page}/end", {**form, "sure": "commit"}, of=page)
    )
    assert "Committed." in told
    assert prepared(linked["hq"]) == []
    [(_, first), (command, outcome)] = noted(linked)
    assert first.startswith("SNP-")
    assert (command, outcome) == (f"snaptide indoubt commit hq {left}", "Committed.")
    # A decision by hand is forgotten by hand.
    forget = {"gid": left, "how": "forget", "sure": "forget"}
    told = browser.follow(browser.send(f"{page}/end", forget, of=page))
    assert "No coordinated transaction is in doubt here." in told
    for wrong_form in ({"gid": left, "how": "destroy"}, {"gid": left}):
        assert browser.send(f"{page}/end", wrong_form, of=page).status_code == 404


def test_a_deciding_site_that_is_silent(
    linked: Directory, left: str, tmp_path: Path
) -> None:
    """A page of each waits out its patience; both wait meanwhile."""

    def page(away: str, asked: str) -> str:
        folder = tmp_path / away
        folder.mkdir()
        with silent(linked, away) as some:
            browser = Browser(console(some, folder, patience=4.0))
            return browser.get(f"/sites/{asked}/indoubt")

    with ThreadPoolExecutor() as pool:
        at_hq, at_jfk = pool.map(page, ("jfk", "hq"), ("hq", "jfk"))
    assert left in at_hq
    assert "decided" in at_jfk
    assert "Other sites take long to answer" in at_hq
    assert "Other sites take long to answer" in at_jfk
    synchronous.recover(linked["hq"])


def test_many_with_hostile_names(linked: Directory, tmp_path: Path) -> None:
    run(
        linked["hq"],
        "INSERT INTO snaptide.heuristic_decision (gid, decision, decided_by)"
        " SELECT '<script>alert(1)</script>' || n, 'commit', repeat('\"<', 300)"
        " FROM generate_series(1, 10000) n",
    )
    browser = Browser(console(linked, tmp_path), "administrator")
    page = browser.get("/sites/hq/indoubt")
    assert len(page.encode()) < 80_000
    assert "<script>alert" not in page
    shown = page.count(">heuristic<")
    assert f"1 to {shown} of 10,000" in page
    [after] = re.findall(r'href="\?(from=\d+)"', page)
    assert f"{shown + 1} to" in browser.get(f"/sites/hq/indoubt?{after}")


def test_a_site_that_is_away(linked: Directory, tmp_path: Path) -> None:
    with without(linked, "hq") as some:
        browser = Browser(console(some, tmp_path, patience=4.0))
        assert "The site does not answer" in browser.get("/sites/hq/indoubt", 503)
