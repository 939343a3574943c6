"""Rules say whose row is right, for each row that differs without a reason."""

import json
from pathlib import Path
from typing import Any

import pytest

import snapshots
from deferred.errors import BadOption
from sites import Directory, Site
from sites.errors import SiteUnreachable
from snapshots import BadRule, Kind, RectifyRule, Take
from snapshots.check import run as check_run
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.integration.test_check import ROWS, T, unseen
from tests.linked_table import as_refresh, run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

BASE = 'public."snap$_t"'


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, T, ROWS, "CREATE TABLE public.u (id int PRIMARY KEY)")
    log(hq, "t", "u")
    snapshots.create(jfk, "t", master="hq", updatable=True, where="n > 0")
    snapshots.create(jfk, "u", master="hq")
    for group in ("t", "u"):
        refresh(jfk, group)
    as_refresh(
        jfk,
        f"UPDATE {BASE} SET note = 'here' WHERE id IN (1, 2, 3)",
        f"UPDATE {BASE} SET n = 0.5 WHERE id = 3",
        f"UPDATE {BASE} SET at = at + interval '1 day', f = 0 WHERE id IN (4, 5)",
        f"UPDATE {BASE} SET at = at - interval '1 day' WHERE id = 5",
        f"DELETE FROM {BASE} WHERE id IN (6, 7)",
        f"INSERT INTO {BASE} (id, n, note) VALUES (900, 1, 'here'), (901, 2, 'here')",
    )


def rules(*given: dict[str, Any]) -> list[RectifyRule]:
    return [*map(RectifyRule.of, given)]


def decided(site: Site, *given: dict[str, Any], **options: Any) -> dict[int, str]:
    """Whose row is taken, by id, for all but those that are left as they are."""
    report = snapshots.rectify(site, "t", rules=rules(*given), dry_run=True, **options)
    return {
        int(row.key["id"] or 0): row.take.value
        for row in report.snapshots[0].rows
        if row.take is not Take.NOTHING
    }


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"take": "nothing"}, set()),
        ({"kinds": ["missing"], "take": "site"}, {6, 7}),
        ({"kinds": ["extra", "missing"], "take": "master"}, {6, 7, 900, 901}),
        ({"columns": ["note"], "take": "site"}, {1, 2}),
        ({"columns": ["note", "n"], "take": "site"}, {1, 2, 3}),
        ({"columns": ["at", "f", "note"], "take": "site"}, {1, 2, 4, 5}),
        # At the master, at the site, and where only one side has the row.
        ({"where": "note = 'note 1'", "take": "site"}, {1}),
        ({"where": "n < 1", "take": "site"}, {3}),
        ({"where": "t.id > 6", "take": "site"}, {7, 900, 901}),
        ({"where": "id < 3", "columns": ["note"], "take": "site"}, {1, 2}),
        ({"snapshots": ["u"], "take": "site"}, set()),
        (
            {"snapshots": ["u", "public.t"], "kinds": ["missing"], "take": "site"},
            {6, 7},
        ),
    ],
)
def test_rows_that_a_rule_fits(jfk, given, wanted):
    took = decided(jfk, given)
    assert took == dict.fromkeys(wanted, given["take"])


def test_the_first_rule_that_fits_decides(jfk):
    took = decided(
        jfk,
        {"where": "id = 901", "take": "nothing"},
        {"columns": ["at", "f"], "take": "newest", "by": "at"},
        {"kinds": ["differs"], "where": "id > 1", "take": "master"},
        {"take": "site"},
    )
    wanted = dict.fromkeys((1, 4, 6, 7, 900), "site")
    assert took == wanted | dict.fromkeys((2, 3, 5), "master")


def test_rows_are_mended_and_others_stay(hq, jfk):
    given = rules(
        {"columns": ["note"], "take": "site"},
        {"kinds": ["extra"], "where": "id = 900", "take": "site"},
        {"kinds": ["missing"], "take": "master"},
    )
    report = snapshots.rectify(jfk, "t", rules=given)
    assert (report.to_mend, report.mended, report.unexplained) == (5, 5, 0)
    assert run(hq, "SELECT id FROM public.t WHERE note = 'here' ORDER BY id") == [
        (1,),
        (2,),
        (900,),
    ]
    (one,) = snapshots.check(jfk, "t").snapshots
    assert {row.key["id"] for row in one.differences} == {"3", "4", "5", "901"}
    again = snapshots.rectify(jfk, "t", rules=given)
    assert again.to_mend == 0


def test_rows_that_one_side_lacks_are_never_newer(jfk):
    took = decided(jfk, {"take": "newest", "by": "at"}, {"take": "site"})
    assert took == dict.fromkeys((1, 2, 3, 5), "master") | {4: "site"}


def test_no_rule_overwrites_a_row_outside_the_subset(hq, jfk):
    unseen(hq, "public.t", "INSERT INTO public.t (id, n) VALUES (900, -1)")
    assert decided(jfk, {"kinds": ["extra"], "take": "site"}) == {901: "site"}
    took = decided(jfk, {"kinds": ["extra"], "take": "master"})
    assert took == {900: "master", 901: "master"}


def test_rules_for_some_rows_alone(jfk):
    run_no = snapshots.check(jfk, "t", where="id < 3", save=True).run
    assert decided(jfk, {"take": "site"}, run=run_no) == {1: "site", 2: "site"}
    assert decided(jfk, {"take": "site"}, only=[["6"]]) == {6: "site"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"snapshots": ["nope"]}, "nope"),
        ({"columns": ["nope"]}, "no column nope"),
        ({"where": "nope = 1"}, "nope"),
        ({"where": "true) OR (true"}, "condition"),
        ({"where": "EXISTS (SELECT FROM u WHERE u.id = t.id)"}, "other tables"),
        ({"take": "newest", "by": "note"}, "type text"),
        ({"take": "newest", "by": "nope"}, "no column nope"),
        ({"take": "site", "by": "at"}, "take is site"),
    ],
)
def test_wrong_rules_are_named(jfk, given, said):
    good = {"kinds": ["extra"], "take": "master"}
    wrong = rules(good, {"take": "site", **given})
    with pytest.raises(BadRule, match=r"Rule 2: ") as raised:
        snapshots.rectify(jfk, "t", rules=wrong)
    assert said in str(raised.value)
    assert not run(jfk, f"SELECT FROM {BASE} WHERE id = 7")


def test_nothing_is_done_for_one_group_if_a_rule_does_not_fit_another(jfk):
    given = rules({"columns": ["note"], "take": "master"})
    with pytest.raises(BadRule, match=r"Rule 1: Snapshot u has no column note"):
        snapshots.rectify(jfk, ["t", "u"], rules=given)
    assert len(run(jfk, f"SELECT FROM {BASE} WHERE note = 'here'")) == 5
    with pytest.raises(BadOption):
        snapshots.rectify(jfk, rules=given, plan=[])


def test_a_master_that_is_away_is_no_wrong_rule(jfk, monkeypatch):
    def away(*_: object) -> None:
        raise SiteUnreachable("Site hq does not answer.", site="hq")

    monkeypatch.setattr(check_run, "conditions", away)
    with pytest.raises(SiteUnreachable):
        snapshots.rectify(jfk, "t", rules=rules({"where": "id = 1", "take": "site"}))


FILE = """
[[rule]]
snapshots = ["t"]
columns = ["note"]
take = "site"

[[rule]]
kinds = ["missing", "extra"]
take = "master"
"""


def test_a_file_of_rules_makes_a_plan_that_is_applied(
    snaptide: Snaptide, jfk: Site, tmp_path: Path
) -> None:
    file, plan = tmp_path / "rules.toml", tmp_path / "plan.toml"
    file.write_text(FILE, "utf-8")
    command = ("rectify", "jfk", "t", "--rules", str(file))
    done = snaptide(*command, "--dry-run")
    assert (done.exit_code, "6 rows would be mended." in done.stdout) == (3, True)
    assert snaptide(*command, "--plan", str(plan)).exit_code == 3
    text = plan.read_text("utf-8")
    assert [text.count(f'take = "{take.value}"') for take in Take] == [4, 2, 3]
    done = snaptide("rectify", "jfk", "--apply", str(plan), "--json")
    (one,) = json.loads(done.stdout)["snapshots"]
    assert (done.exit_code, one["asked"], one["queued"]) == (0, 4, 2)
    done = snaptide(*command)
    assert (done.exit_code, "0 rows mended." in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("=", "cannot be read"),
        ("", "[[rule]]"),
        ("rule = 1", "[[rule]]"),
        ("[[rule]]\ntake = 'site'\n[other]", "no other"),
        ("[[rule]]\ntake = 'site'\n[[rule]]\ntake = 'x'", "Rule 2 of"),
        ("[[rule]]\nkinds = ['extra']", "take is missing"),
        ("[[rule]]\ntake = 'site'\nkinds = ['new']", "kinds.0 must be 'missing'"),
        ("[[rule]]\ntake = 'site'\ncolumns = 'note'", "columns must be a valid list"),
        ("[[rule]]\ntake = 'site'\ncolums = ['note']", "Did you mean columns?"),
        ("[[rule]]\ntake = 'site'\nwhere = 'nope'", "Rule 1: "),
    ],
)
def test_wrong_files(snaptide: Snaptide, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(text, "utf-8")
    done = snaptide("rectify", "jfk", "--rules", str(file))
    assert (done.exit_code, "SNP-276" in done.stderr) == (1, True), done.output
    assert said in " ".join(done.stderr.split()), done.output


def test_rules_stand_alone(snaptide: Snaptide, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(FILE, "utf-8")
    for wrong in (
        ("--reference", "master"),
        ("--extra", "keep"),
        ("--missing", "skip"),
        ("--apply", str(file)),
        ("--rules", str(tmp_path / "nope.toml")),
    ):
        done = snaptide("rectify", "jfk", "--rules", str(file), *wrong)
        assert done.exit_code == 2, done.output


def test_kinds_are_given_as_values_or_as_texts():
    made = RectifyRule(take="site", kinds=(Kind.EXTRA,))
    assert made == RectifyRule.of({"take": "site", "kinds": ["extra"]})
