"""Checks that are saved: kept at their site, listed, shown and removed."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import snapshots
from deferred import schedules
from deferred.errors import BadOption
from deferred.schedules import BadSchedule
from sites import Directory, Site, configured
from sites.configured import Configuration
from sites.names import quoted
from sites.tables import locks
from snapshots import Kind, NoSuchCheck, Reason, RowsDiffer, tasks
from snapshots.check import saved, tally
from snapshots.check.errors import CheckRunning
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.integration.test_check import unseen
from tests.linked_table import as_refresh, run
from tests.stories import column_groups, refresh

pytestmark = pytest.mark.usefixtures("spark")

ODD = 'wei"rd.T%s:x<b>[red]'
HOSTILE = (
    "'); DROP TABLE t; -- \\ \u2028 <script>alert(1)</script> [bold] %s {x} \U0001f600"
)


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    run(
        sites["hq"],
        "CREATE TABLE public.t (id int PRIMARY KEY, n int, note text)",
        "INSERT INTO public.t SELECT g, g, 'n' || g FROM generate_series(1, 9) g",
        "CREATE TABLE public.u (id text PRIMARY KEY)",
        "INSERT INTO public.u VALUES ('a')",
    )
    log(sites["hq"], "t", "u")
    column_groups(sites["hq"], "t", {"n": "", "note": ""})
    snapshots.create(sites["jfk"], "t", master="hq", updatable=True)
    snapshots.create(sites["jfk"], "u", master="hq", group="other")
    refresh(sites["jfk"], "t")
    refresh(sites["jfk"], "other")


def spoiled(jfk: Site) -> None:
    """One row of each kind without a reason, and one that is pending."""
    as_refresh(
        jfk,
        'DELETE FROM public."snap$_t" WHERE id = 1',
        'INSERT INTO public."snap$_t" VALUES (100, NULL, NULL)',
        "UPDATE public.\"snap$_t\" SET note = 'x', n = NULL WHERE id = 2",
    )
    run(jfk, "UPDATE public.t SET note = 'mine' WHERE id = 3")


class Read(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def assert_harmless(page: str, *, name: str, value: str) -> None:
    """A page shows names and values as they are, and has no element of theirs."""
    read = Read(page)
    assert name in read.text
    assert value in read.text
    allowed = "html head meta title style body h1 h2 p table tr th td div b span"
    assert read.tags == set(allowed.split())
    assert read.attributes <= {"lang", "charset", "http-equiv", "content", "class"}


def kept(jfk: Site) -> list[int | None]:
    return [one.run for one in snapshots.list_checks(jfk)]


def test_a_saved_check_is_read_as_it_was_returned(jfk: Site) -> None:
    spoiled(jfk)
    done = snapshots.check(jfk, columns=["id"], most=7, save=True)
    assert snapshots.show_check(jfk, done.run or 0) == done
    done = snapshots.check(jfk, "t", where="id < 1000", save=True)
    assert (done.run, snapshots.show_check(jfk, 2)) == (2, done)
    (one,) = done.snapshots
    assert (one.group, one.master) == ("t", "hq")
    assert None not in (one.position, one.moment_here, one.moment_master)
    assert {(row.kind, row.reason) for row in one.differences} == {
        (Kind.MISSING, Reason.UNEXPLAINED),
        (Kind.EXTRA, Reason.UNEXPLAINED),
        (Kind.DIFFERS, Reason.UNEXPLAINED),
        (Kind.DIFFERS, Reason.PENDING),
    }
    listed = snapshots.list_checks(jfk)
    assert [(each.run, each.where, each.unexplained) for each in listed] == [
        (2, "id < 1000", 3),
        (1, None, 2),
    ]
    assert all(not o.differences for each in listed for o in each.snapshots)
    assert kept(jfk)[:1] == [o.run for o in snapshots.list_checks(jfk, limit=1)]


def test_what_is_not_saved_is_not_kept(jfk: Site) -> None:
    assert snapshots.check(jfk).run is None
    assert kept(jfk) == []


def test_two_views_say_which_site_has_which_row(jfk: Site) -> None:
    spoiled(jfk)
    number = snapshots.check(jfk, "t", save=True).run
    rows = run(
        jfk,
        "SELECT kind, key ->> 'id', present, absent, \"row\"::text"
        " FROM snaptide.defcheckrow JOIN snaptide.defchecklocation USING (r_id, run)"
        f" WHERE run = {number} AND reason = 'unexplained' ORDER BY 1, 2, 3",
    )
    whole = '{"id": "1", "n": "1", "note": "n1"}'
    assert rows == [
        ("differs", "2", "hq", "jfk", '{"n": "2", "note": "n2"}'),
        ("differs", "2", "jfk", "hq", '{"n": null, "note": "x"}'),
        ("extra", "100", "jfk", "hq", '{"id": "100", "n": null, "note": null}'),
        ("missing", "1", "hq", "jfk", whole),
    ]


def test_hostile_names_and_values_are_kept_and_shown(
    hq: Site, jfk: Site, snaptide: Snaptide, tmp_path: Path
) -> None:
    name, value, long = quoted(ODD), HOSTILE.replace("'", "''"), "k" * 1000
    run(
        hq,
        f"CREATE TABLE public.{name} (id text PRIMARY KEY, {name} text)",
        f"INSERT INTO public.{name} VALUES ('{value}', '{value}'), ('{long}', NULL)",
    )
    log(hq, name)
    snapshots.create(jfk, name, master="hq", group=ODD, updatable=True)
    refresh(jfk, ODD)
    base = quoted(run(jfk, "SELECT max(base_table) FROM snaptide.snapshot")[0][0])
    unseen(jfk, f"public.{base}", f"DELETE FROM public.{base}")
    done = snapshots.check(jfk, name, save=True)
    assert done.unexplained == 2
    assert snapshots.show_check(jfk, done.run or 0) == done
    assert {row.key["id"] for row in done.snapshots[0].differences} == {HOSTILE, long}
    shown = snaptide("check", "show", "jfk", str(done.run))
    assert "<script>" in shown.stdout
    # In the key and in the row, cut in both.
    assert 400 <= shown.stdout.count("k") < 450
    page = tmp_path / "page.html"
    assert snaptide("check", "jfk", "--html", str(page)).exit_code == 1
    assert_harmless(page.read_text("utf-8"), name=ODD, value=HOSTILE)
    listed = json.loads(snaptide("check", "list", "jfk", "--json").stdout)
    assert listed[0]["snapshots"][0]["name"] == done.snapshots[0].name


def test_the_last_checks_stay_and_the_last_of_each_snapshot(
    jfk: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved, "KEPT", 2)
    snapshots.check(jfk, "u", where="id = 'a'", save=True)
    for names in ("u", "t", "t", ("t", "u"), "t", "t", "t"):
        snapshots.check(jfk, names, save=True)
    assert kept(jfk) == [8, 7, 5]
    snapshots.drop(jfk, "u")
    snapshots.check(jfk, "t", save=True)
    assert kept(jfk) == [9, 8]


def test_checks_are_deleted_by_number(jfk: Site) -> None:
    for _ in range(3):
        snapshots.check(jfk, "t", save=True)
    with pytest.raises(NoSuchCheck):
        snapshots.delete_checks(jfk, [1, 9])
    assert kept(jfk) == [3, 2, 1]
    assert snapshots.delete_checks(jfk, [1, 3]) == 2
    assert kept(jfk) == [2]
    assert snapshots.delete_checks(jfk) == 1
    assert run(jfk, "SELECT count(*) FROM snaptide.check_snapshot") == [(0,)]


def test_commands(jfk: Site, snaptide: Snaptide) -> None:
    spoiled(jfk)
    done = snaptide("check", "jfk", "--save")
    assert (done.exit_code, "Saved as 1." in done.stdout) == (1, True)
    done = snaptide("check", "run", "jfk", "u", "--save", "--json")
    assert (done.exit_code, json.loads(done.stdout)["run"]) == (0, 2)
    listed = snaptide("check", "list", "jfk")
    assert (listed.exit_code, "t, u" in listed.stdout) == (0, True)
    shown = snaptide("check", "show", "jfk", "1")
    assert (shown.exit_code, "3 rows differ without" in shown.stdout) == (1, True)
    assert snaptide("check", "show", "jfk", "2").exit_code == 0
    missing = snaptide("check", "show", "jfk", "9")
    assert (missing.exit_code, "SNP-271" in missing.stderr) == (1, True)
    assert snaptide("check", "delete", "jfk", "--yes").exit_code == 2
    assert snaptide("check", "delete", "jfk", "1").exit_code == 2
    assert snaptide("check", "delete", "jfk", "1", "--yes").exit_code == 0
    assert snaptide("check", "delete", "jfk", "--all", "--yes").exit_code == 0
    assert kept(jfk) == []


def test_a_page_says_what_is_proven(
    hq: Site, jfk: Site, snaptide: Snaptide, tmp_path: Path
) -> None:
    page = tmp_path / "check.html"
    page.write_text("old")
    assert snaptide("check", "jfk", "--save", "--html", str(page)).exit_code == 0
    text = Read(page.read_text("utf-8")).text
    assert text.count("each row that was compared is the same") == 2
    spoiled(jfk)
    assert snaptide("check", "jfk", "--html", str(page)).exit_code == 1
    text = Read(page.read_text("utf-8")).text
    assert "3 rows differ that no work under way explains" in text
    assert "A change of the site waits for its push" in text
    run(hq, "TRUNCATE public.u")
    snaptide("check", "jfk", "u", "--html", str(page))
    assert "Nothing is proven" in page.read_text("utf-8")
    assert snaptide("check", "show", "jfk", "1", "--html", str(page)).exit_code == 0
    assert "Equal." in page.read_text("utf-8")
    assert [one.name for one in tmp_path.iterdir() if "html" in one.name] == [page.name]


def test_a_page_that_cannot_be_written_is_refused_before(
    snaptide: Snaptide, tmp_path: Path
) -> None:
    for path in (tmp_path / "missing" / "x.html", tmp_path):
        done = snaptide("check", "jfk", "--save", "--html", str(path))
        assert done.exit_code == 2
    assert json.loads(snaptide("check", "list", "jfk", "--json").stdout) == []


def test_an_option_may_stand_before_the_site(snaptide: Snaptide) -> None:
    assert snaptide("check", "--json", "jfk").exit_code == 0
    assert snaptide("check", "nowhere").exit_code == 1
    assert "run" in snaptide("check", "--help").stdout


def test_a_schedule_saves_its_checks_and_fails_if_rows_differ(
    sites: Directory, jfk: Site, snaptide: Snaptide, monkeypatch: pytest.MonkeyPatch
) -> None:
    def task(*subject: str) -> None:
        # Each command has its own settings; a worker keeps these.
        monkeypatch.setattr(configured, "_current", Configuration(directory=sites))
        tasks.check("jfk", *subject, most=2)

    def outcome() -> tuple[str | None, int]:
        last = schedules.list_schedules(jfk)[-1].last_error
        status = snaptide("status", "jfk")
        assert (last or "") in status.stdout.replace("\n", " ")
        return last, status.exit_code

    command = ("schedule", "set", "jfk", "check", "t", "--every", "0 3 * * *")
    assert snaptide(*command, "-o", "most=2").exit_code == 0
    task("t")
    before = outcome()
    assert before[0] is None
    run(jfk, "UPDATE public.t SET note = 'mine' WHERE id = 3")
    task("t")
    assert outcome() == before
    as_refresh(jfk, 'DELETE FROM public."snap$_t" WHERE id < 3')
    with pytest.raises(RowsDiffer):
        task("t")
    assert outcome() == ("SNP-272 2 rows differ without a reason: check 3.", 3)
    saved_one = snapshots.show_check(jfk, 3)
    assert (saved_one.most, [one.name for one in saved_one.snapshots]) == (2, ["t"])
    snapshots.refresh(jfk, "t", method="c")
    task("t")
    assert outcome() == before
    task()
    assert [len(one.snapshots) for one in snapshots.list_checks(jfk)[:2]] == [2, 1]


def test_a_schedule_reads_gently_unless_told_otherwise(
    sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configured, "_current", Configuration(directory=sites))
    asked: list[bool] = []
    take = tally.take

    def noted(*given: Any, gentle: bool, **options: Any) -> Any:
        asked.append(gentle)
        return take(*given, gentle=gentle, **options)

    monkeypatch.setattr(tally, "take", noted)
    tasks.check("jfk", "t")
    tasks.check("jfk", "t", gently=False)
    assert asked == [True, False]


def test_what_cannot_be_scheduled(jfk: Site) -> None:
    for subject, options in (("nope", {}), ("*", {"most": -1}), ("*", {"save": True})):
        with pytest.raises(BadOption if options else BadSchedule):
            schedules.schedule(jfk, "check", subject, every="1d", **options)
    made = schedules.schedule(jfk, "check", every="1d", columns=["id"], where="true")
    assert made.options == {"columns": ["id"], "where": "true"}


def test_doctor_names_the_last_check_of_each_snapshot(
    jfk: Site, snaptide: Snaptide
) -> None:
    def told(severity: str) -> dict[str, str]:
        found = json.loads(snaptide("doctor", "jfk", "--json").stdout)
        return {
            one["subject"]: one["what"]
            for one in found
            if one["severity"] == severity and "check" in one["what"]
        }

    assert told("info")["2 snapshots"].startswith("No check of")
    snapshots.check(jfk, save=True)
    run(jfk, "UPDATE snaptide.check_run SET began_at = now() - interval '3 days'")
    assert "saved check, 1, was 3 d ago and found no" in told("info")["2 snapshots"]
    before = snaptide("doctor", "jfk")
    assert "check, 1, was 3 d ago" in before.stdout
    as_refresh(jfk, 'DELETE FROM public."snap$_t" WHERE id < 3')
    snapshots.check(jfk, "t", save=True)
    assert " ago and found 2 rows" in told("error")["t"]
    # What looks at a part says nothing of the rest.
    for part in ({"where": "id > 5"}, {"columns": ["id"], "where": "n > 5"}):
        assert snapshots.check(jfk, "t", save=True, **part).equal
    assert "saved check, 2, was" in told("error")["t"]
    assert "saved check, 1, was" in told("info")["u"]
    assert [*told("info")] == ["u"]
    assert snaptide("doctor", "jfk").exit_code == 3


def test_a_scheduled_check_leaves_the_same_one_alone_that_is_running(
    sites: Directory,
    jfk: Site,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(configured, "_current", Configuration(directory=sites))
    schedules.schedule(jfk, "check", "t", every="1h")
    caplog.set_level("INFO", "snapshots.tasks")
    with locks.alone(jfk, "snaptide.check", "t", CheckRunning):
        tasks.check("jfk", "t")
        assert "check jfk t: another check is running." in caplog.text
        tasks.check("jfk", "other")
    # It was no failure, and left nothing behind.
    assert schedules.find_schedule(jfk, "check", "t").last_error is None
    assert [one.snapshots[0].name for one in snapshots.list_checks(jfk)] == ["u"]
    tasks.check("jfk", "t")
    assert snapshots.list_checks(jfk)[0].snapshots[0].name == "t"
