"""Figures are what the databases say, also while they change."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

import deferred
from deferred.queues.backlog import set_disabled
from sites import Directory
from snapshots.check.saved import last_of_each
from snaptide.cli.failures import ExitCode
from snaptide.figures import FIGURES
from snaptide.web.console import Console
from snaptide.web.figures import application
from tests.console import PASSWORD, Browser, Searched, console
from tests.fix_commands import Snaptide
from tests.linked_table import link, run, scalar

_PAGE = Path(__file__).parents[2] / "docs" / "howto" / "figures.md"


def scraped(text: str) -> dict[tuple[str, ...], float]:
    """Samples by name, site and the values of their other labels."""
    return {
        (sample.name, sample.labels.pop("site"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def figures(sites: Directory) -> dict[tuple[str, ...], float]:
    with TestClient(Searched(application(Console(sites=sites)))) as client:
        answer = client.get("/metrics")
    assert answer.status_code == 200
    return scraped(answer.text)


def test_figures_are_what_the_databases_say(sites: Directory) -> None:
    link(sites)
    hq, jfk = sites["hq"], sites["jfk"]
    run(jfk, "INSERT INTO public.orders (id) SELECT generate_series(1, 3)")
    run(jfk, "INSERT INTO public.orders (id) VALUES (4)")
    waiting = "SELECT {} FROM snaptide.defbacklog WHERE destination = 'hq'"
    found = figures(sites)
    for name, column in (("transactions",) * 2, ("calls",) * 2, ("bytes",) * 2):
        told = found[f"snaptide_queue_{name}", "jfk", "hq"]
        assert told == scalar(jfk, waiting.format(column)), name
    assert found["snaptide_queue_transactions", "jfk", "hq"] == 2
    assert found["snaptide_queue_oldest_seconds", "jfk", "hq"] > 0
    assert found["snaptide_contract_state", "jfk", "hq", "disabled"] == 0

    run(hq, "INSERT INTO public.orders (id) VALUES (4)")
    deferred.push(jfk)
    found = figures(sites)
    parked = scalar(hq, "SELECT count(*) FROM snaptide.deferror")
    assert found["snaptide_parked_transactions", "hq", "conflict"] == parked == 1
    assert found["snaptide_parked_oldest_seconds", "hq"] > 0
    assert found["snaptide_queue_transactions", "jfk", "hq"] == 0
    assert found["snaptide_queue_oldest_seconds", "jfk", "hq"] == 0
    assert found["snaptide_findings", "hq", "warning"] >= 1

    set_disabled(jfk, "hq", disabled=True)
    assert figures(sites)["snaptide_contract_state", "jfk", "hq", "disabled"] == 1


def test_rows_that_checks_could_not_explain(sites: Directory) -> None:
    jfk = sites["jfk"]
    for run_id, counts in (
        (1, '[["differs", "unexplained", 7]]'),
        (2, '[["extra", "unexplained", 2], ["missing", "queued", 5]]'),
        # It looked at some rows alone, and found nothing: that says little.
        (3, "[]"),
    ):
        run(
            jfk,
            "INSERT INTO snaptide.check_run (began_at, seconds, condition, columns,"
            f" most) VALUES (now(), 1, nullif('{run_id}', '1'), '{{}}', 10)",
            "INSERT INTO snaptide.check_snapshot (run_id, snapshot, no, refresh_group,"
            " master, master_table, rows_master, rows_here, counts, moment_here) VALUES"
            f" ({run_id}, 'a', 1, 'a', 'hq', 'a', 1, 1, '{counts}', '1:1:')",
        )
    with jfk.connect() as connection:
        last = last_of_each(connection)["a"].unexplained
    assert figures(sites)["snaptide_check_unexplained_rows", "jfk"] == last == 2


def test_figures_agree_under_load(sites: Directory) -> None:
    """A count is one that the database had between two moments around it."""
    link(sites)
    jfk, count = sites["jfk"], "SELECT count(*) FROM snaptide.deferred_transaction"
    ended = threading.Event()

    def work() -> None:
        for number in range(150):
            run(jfk, f"INSERT INTO public.orders (id) VALUES ({number})")
        ended.set()

    user = threading.Thread(target=work)
    user.start()
    try:
        last = False
        while not last:
            last = ended.is_set()
            before = scalar(jfk, count)
            told = figures(sites).get(("snaptide_queue_transactions", "jfk", "hq"), 0)
            assert before <= told <= scalar(jfk, count)
        assert told == 150
    finally:
        user.join()


def test_a_site_that_is_away_is_a_figure(sites: Directory) -> None:
    gone = sites["hq"].url.set(port=1, host="127.0.0.1")
    with Directory({"hq": sites["hq"].url, "gone": gone}) as some:
        found = figures(some)
        assert found["snaptide_up", "hq"] == found["snaptide_ready", "hq"] == 1
        of_gone = {name: value for name, value in found.items() if name[1] == "gone"}
        assert of_gone == {("snaptide_up", "gone"): 0, ("snaptide_ready", "gone"): 0}


def test_a_site_without_our_schema_is_not_ready(sites: Directory) -> None:
    run(sites["jfk"], "DROP SCHEMA snaptide CASCADE")
    found = figures(sites)
    assert (found["snaptide_up", "jfk"], found["snaptide_ready", "jfk"]) == (1, 0)


def test_figures_do_not_grow_with_rows(sites: Directory) -> None:
    link(sites)
    run(sites["jfk"], "INSERT INTO public.orders (id) VALUES (1)")
    few = figures(sites).keys()
    for number in range(2, 60):
        run(sites["jfk"], f"INSERT INTO public.orders (id) VALUES ({number})")
    assert figures(sites).keys() == few


def test_figures_grow_with_sites_and_groups_only(sites: Directory) -> None:
    """Each group adds as many as the one before, whatever it shows and has done."""

    def more(number: int, snapshots: int) -> set[tuple[str, ...]]:
        """The figures of another group."""
        before = figures(sites).keys()
        run(
            sites["jfk"],
            "INSERT INTO snaptide.refresh_group"
            " (name, master, master_id, refreshed_at, last_error)"
            f" VALUES ('g{number}', 'hq', gen_random_uuid(), now(), 'e{number}')",
            "INSERT INTO snaptide.refresh_run"
            " (refresh_group, outcome, first_at, ended_at, seconds, steps, error)"
            f" SELECT 'g{number}', 'failed', now(), now(), 1, '{{}}', 'e' || n"
            f" FROM generate_series(1, {snapshots}) n",
            "INSERT INTO snaptide.snapshot (schema, name, refresh_group, base_table,"
            " extra_table, log_view, master_schema, master_table, columns,"
            " identity_columns, updatable)"
            f" SELECT 'public', 's' || no, 'g{number}', 'b' || no, 'e' || no,"
            " 'l' || no, 'public', 't' || no, '{a}', '{a}', false"
            f" FROM (SELECT '{number}_' || n AS no"
            f" FROM generate_series(1, {snapshots}) n) AS numbered",
        )
        return figures(sites).keys() - before

    few, many = more(1, 1), more(2, 30)
    assert {one[1:3] for one in few} == {("jfk", "g1")}
    assert {one[1:3] for one in many} == {("jfk", "g2")}
    assert len(few) == len(many)


def test_the_age_of_a_group_is_the_same_everywhere(
    sites: Directory, snaptide: Snaptide, tmp_path: Path
) -> None:
    """It begins at the moment of the master, not at the end of the refresh."""
    run(
        sites["jfk"],
        "INSERT INTO snaptide.refresh_group (name, master, master_id, refreshed_at)"
        " VALUES ('airport', 'hq', gen_random_uuid(), now() - interval '1 h')",
        "INSERT INTO snaptide.refresh_run (refresh_group, outcome, first_at, ended_at,"
        " seconds, steps) SELECT 'airport', 'refreshed', refreshed_at, refreshed_at,"
        ' 9000, \'{"push": 1800, "window": 100, "compare": 3000, "merge": 4100}\''
        " FROM snaptide.refresh_group",
    )
    three_hours = pytest.approx(3 * 3600, abs=60)
    assert (
        figures(sites)["snaptide_refresh_age_seconds", "jfk", "airport"] == three_hours
    )
    [group] = snaptide.report("status", "jfk")[0]["groups"]
    assert group["age"] == three_hours
    assert snaptide.report("health", "--max-lag", "181m") == []
    said = snaptide.said("health", code=ExitCode.ATTENTION)
    assert said.strip() == "jfk lag airport: It shows its master as it was 3 h ago."
    browser = Browser(console(sites, tmp_path))
    assert "airport 3 h" in browser.get("/")
    assert "<dt>Age</dt><dd>3 h</dd>" in browser.get("/sites/jfk/groups/airport")


def test_probes(sites: Directory) -> None:
    gone = sites["hq"].url.set(port=1, host="127.0.0.1")
    for urls, status in (
        ({}, 200),
        ({"hq": sites["hq"].url, "gone": gone}, 200),
        ({"gone": gone}, 503),
    ):
        with Directory(urls) as some:
            client = TestClient(Searched(application(Console(sites=some))))
            assert client.get("/healthz").status_code == 200
            assert client.get("/readyz").status_code == status


def test_the_console_shows_them_to_its_users_only(
    sites: Directory, tmp_path: Path
) -> None:
    made = console(sites, tmp_path)
    assert "snaptide_up" in Browser(made, "viewer").get("/metrics")
    stranger = Browser(made, None).client
    assert stranger.get("/healthz").status_code == 200

    def status(**options: Any) -> int:
        return stranger.get("/metrics", **options).status_code

    assert status() == 401
    assert status(auth=("viewer", PASSWORD)) == 200
    for authorization in ("Basic", "Basic %", "Basic /w==", "Bearer x", "Basic Og=="):
        assert status(headers={"authorization": authorization}) == 401
    for _ in range(5):
        assert status(auth=("viewer", "guessed")) == 401
    # Guessing is limited as at the login form.
    assert status(auth=("viewer", PASSWORD)) == 401


def test_a_monitor_with_a_password_is_let_in_for_ever(tmp_path: Path) -> None:
    """More often in five minutes than a name or an address may fail."""
    monitor = Browser(console(Directory({}), tmp_path), None).client
    seen = {
        monitor.get("/metrics", auth=("viewer", PASSWORD)).status_code
        for _ in range(60)
    }
    assert seen == {200}


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_the_page_names_each_figure(figure: Any) -> None:
    line = next(
        line
        for line in _PAGE.read_text("utf-8").splitlines()
        if line.startswith("|") and f"`{figure.name}`" in line
    )
    labels = re.findall(r"`(\w+)`", line.split("|")[2])
    assert tuple(labels) == figure.labels
