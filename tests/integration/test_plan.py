"""A site is made what a file says, again and again, from any state."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

import masters
import snapshots
from sites import Directory, faults
from sites.faults import InjectedFault
from snaptide.plan.errors import BadSiteFile, CannotApply
from tests.fix_commands import Snaptide
from tests.fix_db import MakeDatabase
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.site_file import FILE, SHOP, applied, make_clerk, planned, write
from tests.stories import assert_equal_to_master

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "store1", "store2")
def sites(sites: Directory) -> None:
    run(sites["hq"], SHOP)


def test_one_file_makes_a_site_from_nothing(sites: Directory, tmp_path: Path) -> None:
    make_clerk(sites)
    file = write(tmp_path)
    before = planned(sites, file, store="1")
    done = applied(sites, file, store="1")
    assert done.steps == before.steps
    assert_equal_to_master(sites["store1"])
    again = planned(sites, file, store="1")
    assert again.steps == (), [one.command for one in again.steps]
    assert (again.extra, again.refused, again.notes) == ((), (), ())
    assert applied(sites, file, store="1").steps == ()


def test_options_of_schedules_may_be_written_as_text(
    sites: Directory, tmp_path: Path
) -> None:
    make_clerk(sites)
    text = FILE.replace("keep_pending = false", 'keep_pending = "no"')
    file = write(tmp_path, text)
    applied(sites, file, store="1")
    assert planned(sites, file, store="1").settled


def test_a_second_apply_finishes_what_a_crash_left(
    sites: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_clerk(sites)
    file = write(tmp_path)
    count = len(planned(sites, file, store="1").steps)
    for left in range(count - 1, -1, -1):
        monkeypatch.setattr(faults, "_hits", Counter())
        monkeypatch.setenv("SNAPTIDE_FAULT", "apply.after_step:error")
        with pytest.raises(InjectedFault):
            applied(sites, file, store="1")
        assert len(planned(sites, file, store="1").steps) == left
    assert applied(sites, file, store="1").steps == ()
    assert_equal_to_master(sites["store1"])


def test_another_condition_is_altered_in_place_and_children_follow(
    sites: Directory, tmp_path: Path
) -> None:
    make_clerk(sites)
    text = FILE.replace("store_id = ${store}", "store_id IN (1, ${store})")
    applied(sites, write(tmp_path), store="2")
    file = write(tmp_path, text.replace('"store${store}"', '"store2"'))
    assert [one.command for one in planned(sites, file, store="2").steps] == [
        "snaptide snapshot alter store2 customer --where \"store_id IN (1, '2')\"",
        "snaptide refresh store2 shop",
    ]
    text = text.replace('"store${store}"', '"store2"').replace("'test'", "'other'")
    file = write(tmp_path, text)
    assert len(applied(sites, file, store="2").steps) == 2
    assert_equal_to_master(sites["store2"])
    assert run(sites["store2"], "SELECT count(*) FROM public.payment") == [(72,)]
    assert planned(sites, file, store="2").settled
    # All rows; and again, after it died between the change and the refresh.
    text = text.replace('where = "store_id IN (1, ${store})"\n', "")
    file = write(tmp_path, text)
    first, second = planned(sites, file).steps
    assert "--all-rows" in first.command
    first.run(sites)
    assert [*planned(sites, file).steps] == [second]
    assert len(applied(sites, file).steps) == 1
    assert_equal_to_master(sites["store2"])


def test_children_that_ask_for_more_than_their_parents_change_with_them(
    sites: Directory, tmp_path: Path
) -> None:
    """Either of the two alone would hide rows that the other asks for."""
    make_clerk(sites)
    run(sites["hq"], "UPDATE public.customer SET store_id = 2 WHERE id > 3")
    stricter = (
        'where = "EXISTS (SELECT FROM customer c WHERE c.id = rental.customer_id'
        " AND c.store_id = ${store} AND c.name <> 'nobody')\"\n"
    )
    plain = 'follow = ["customer"]\nwhere = "kind <> \'test\'"\n'
    text = FILE.replace('"store${store}"', '"store1"').replace(plain, stricter)
    file = write(tmp_path, text)
    applied(sites, file, store="1")
    [step, _] = planned(sites, file, store="2").steps
    assert step.command == f"snaptide apply {file} --set store=2"
    assert [line for line in step.details if line.startswith("snapshot")] == [
        "snapshot customer",
        "snapshot rental",
    ]
    applied(sites, file, allow_mass_delete=True, store="2")
    assert planned(sites, file, store="2").settled
    assert_equal_to_master(sites["store1"])


def test_another_parameter_may_take_all_rows_away_only_when_asked(
    sites: Directory, tmp_path: Path
) -> None:
    make_clerk(sites)
    run(
        sites["hq"],
        "INSERT INTO public.customer (id, store_id)"
        " SELECT g, 1 + g % 3 FROM generate_series(10, 1000) g",
    )
    file = write(tmp_path, FILE.replace('"store${store}"', '"store1"'))
    applied(sites, file, store="1")
    with pytest.raises(snapshots.MassLeave):
        applied(sites, file, store="2")
    done = applied(sites, file, allow_mass_delete=True, store="2")
    assert [one.command for one in done.steps] == [
        "snaptide refresh store1 shop --allow-mass-delete"
    ]
    assert_equal_to_master(sites["store1"])
    assert planned(sites, file, store="2").settled


def test_what_the_file_does_not_name_goes_only_when_asked(
    sites: Directory, tmp_path: Path
) -> None:
    make_clerk(sites)
    applied(sites, write(tmp_path), store="1")
    text = FILE[: FILE.index("[tables.customer]")]
    text = text.replace("[snapshots.payment]\nfollow", "[snapshots.payment_]\nfollow")
    text = re.sub(r"\[snapshots.payment_\].*?\n\n", "", text, flags=re.S)
    text = text.replace('grants = {clerk = ["SELECT", "insert"]}\n', "")
    file = write(tmp_path, text)
    found = planned(sites, file, store="1")
    assert found.settled
    assert [one.command for one in found.extra] == [
        'REVOKE INSERT, SELECT ON "public"."rental" FROM "clerk";',
        "snaptide destination budget store1 hq",
        "snaptide schedule remove store1 purge '*'",
        "snaptide schedule remove store1 refresh shop",
        "snaptide snapshot drop store1 payment",
    ]
    assert applied(sites, file, store="1").steps == ()
    assert len(applied(sites, file, prune=True, store="1").steps) == 5
    found = planned(sites, file, store="1")
    assert (found.settled, found.extra) == (True, ())
    # The rules of a master serve other sites, too.
    assert [one.table.name for one in masters.list_rules(sites["hq"])] == ["customer"]


def test_what_nothing_changes_in_place_is_said_and_nothing_is_done(
    sites: Directory, tmp_path: Path
) -> None:
    make_clerk(sites)
    applied(sites, write(tmp_path), store="1")
    text = FILE.replace("updatable = true", "updatable = false", 1)
    text = text.replace('columns = ["id", "code"]', 'columns = ["id", "text"]')
    text = text.replace("store_id = ", "store_id + 0 = ")
    file = write(tmp_path, text)
    found = planned(sites, file, store="1")
    assert found.refused == (
        (
            "payment: it is updatable, not read-only (snaptide snapshot drop store1"
            " payment)"
        ),
        (
            "Back Office.Note: it has the columns id, code; not id, text (snaptide"
            " snapshot drop store1 'Back Office.Note')"
        ),
    )
    with pytest.raises(CannotApply, match="it is updatable, not read-only"):
        applied(sites, file, store="1")
    assert len(planned(sites, file, store="1").steps) == 2
    run(sites["store1"], "CREATE TYPE public.early AS ENUM ('a')")
    run(
        sites["hq"],
        "CREATE TYPE public.early AS ENUM ('a', 'b')",
        "CREATE TABLE public.late (id int PRIMARY KEY, e public.early)",
    )
    file = write(tmp_path, FILE + "[snapshots.late]\n")
    assert planned(sites, file, store="1").refused == (
        (
            "type public.early is here: CREATE TYPE public.early AS ENUM ('a'); at the"
            " master: CREATE TYPE public.early AS ENUM ('a', 'b')"
        ),
    )


def test_a_column_that_the_master_got_is_noted(
    sites: Directory, tmp_path: Path
) -> None:
    make_clerk(sites)
    file = write(tmp_path)
    applied(sites, file, store="1")
    run(sites["hq"], "ALTER TABLE public.rental ADD late boolean")
    found = planned(sites, file, store="1")
    assert found.settled
    assert found.notes == ("rental: the snapshot lacks late of the master",)


WRONG = {
    "a condition": (
        ("store_id = ${store}", "stor_id = ${store}"),
        (
            "line 18, snapshots.customer.where: PostgreSQL refuses the condition"
            ' "stor_id = \'1\'": column "stor_id" does not exist.'
        ),
    ),
    "a condition that is not immutable": (
        ("kind <> 'test'", "kind <> current_user"),
        "line 13, snapshots.rental.where: The condition",
    ),
    "a text where a list belongs": (
        ('columns = ["id", "code"]', 'columns = "id"'),
        "line 22: snapshots.Back Office.Note.columns must be a valid list.",
    ),
    "a value of another type": (
        ("store_id = ${store}", "store_id = ${store} + id / name"),
        "line 18, snapshots.customer.where: ",
    ),
    "a column": (
        ('columns = ["id", "code"]', 'columns = ["id", "cod"]'),
        (
            'line 22, snapshots."Back Office.Note".columns: Back Office.Note has no'
            " column 'cod'."
        ),
    ),
    "a table": (
        ('columns = ["id", "code"]', 'table = "notes"'),
        'line 22, snapshots."Back Office.Note".table: There is no table notes.',
    ),
    "a parent": (
        ('follow = ["rental"]', 'follow = ["customer"]'),
        (
            "line 8, snapshots.payment.follow: payment has no foreign key 'customer' to"
            " another table; it has: payment_rental_id_fkey (rental_id) to rental."
        ),
    ),
    "a parent that is not there": (
        ("[snapshots.customer]", '[snapshots.customers]\ntable = "payment"'),
        (
            "line 12, snapshots.rental.follow: Refresh group shop has no snapshot of"
            " customer to follow."
        ),
    ),
    "a master": (
        ('master = "hq"', 'master = "hqs"'),
        "line 5, groups.shop.master: No site 'hqs' is configured",
    ),
    "a site": (
        ('name = "store${store}"', 'name = "branch${store}"'),
        "line 2, site.name: No site 'branch1' is configured",
    ),
    "a role": (
        ("clerk = ", "no_clerk_at_all = "),
        (
            "line 15, snapshots.rental.grants.no_clerk_at_all: the site has no role"
            " no_clerk_at_all."
        ),
    ),
    "a rule": (
        ('method = "discard"', 'method = "descard"'),
        "line 24, tables.customer: ",
    ),
    "a subject": (
        ('subject = "shop"', 'subject = "shops"'),
        (
            "schedules[1].subject: the site will have no refresh group 'shops'; it has:"
            " shop."
        ),
    ),
    "a destination": (
        ("[destinations.hq]", "[destinations.store2]"),
        "destinations.store2: the site will have no destination 'store2'; it has: hq.",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_a_master_refuses_has_its_place_in_the_file(
    sites: Directory, tmp_path: Path, case: str
) -> None:
    (old, new), said = WRONG[case]
    assert old in FILE
    make_clerk(sites)
    file = write(tmp_path, FILE.replace(old, new, 1))
    with pytest.raises(BadSiteFile) as refused:
        planned(sites, file, store="1")
    assert said in refused.value.message


def test_commands_print_the_plan_and_end_as_they_say(
    sites: Directory, tmp_path: Path, snaptide: Snaptide
) -> None:
    make_clerk(sites)
    file = write(tmp_path)
    given = (str(file), "--set", "store=1")
    shown = snaptide("plan", *given)
    assert shown.exit_code == 3, shown.output
    assert "\nsnaptide snapshot create store1 rental --master hq" in shown.output
    assert "\"');  -- at store1\nCREATE TYPE public.address" in shown.output
    report = snaptide.report("plan", *given, code=3)
    assert report["settled"] is False
    assert report["steps"][0]["kind"] == "CreateType"
    done = snaptide("apply", *given)
    assert done.exit_code == 0, done.output
    assert "store1 is what the file says: 21 steps done." in done.output
    again = snaptide("plan", *given)
    assert (again.exit_code, again.output) == (
        0,
        "store1 is what the file says: nothing to do.\n",
    )
    assert snaptide.report("apply", *given)["steps"] == []
    # A command of the plan does what the plan says.
    assert snaptide("rules", "diff", "hq", str(file), "--keep-others").exit_code == 0
    assert "SNP-404" in snaptide("plan", str(file), "--set", "store").output
    assert "SNP-411" in snaptide("plan", str(file)).output
    assert "SNP-412" in snaptide("plan", *given, "--set", "sore=2").output
    assert snaptide("plan", str(tmp_path / "no.toml")).exit_code == 2


def test_each_line_of_a_plan_can_be_run_by_itself(
    sites: Directory, tmp_path: Path, snaptide: Snaptide
) -> None:
    """Also of a file whose rules have parameters, and of one with several masters."""
    make_clerk(sites)
    run(sites["store2"], "CREATE TABLE public.customer (id int PRIMARY KEY, name int)")
    rule = FILE.replace('group = "names"', 'group = "${group}"')
    own = '[[schedules]]\nkind = "push"\nsubject = "hq"\nevery = "90s"\n'
    own += "options = {transaction_count = 5}\n"
    others = (
        '[groups.other]\nmaster = "store2"\n[snapshots.film]\ntable = "film"\n'
        'group = "other"\n[tables.film]\ngroups = {n = ["n"]}\n'
    )
    run(sites["store2"], "CREATE TABLE public.film (id int PRIMARY KEY, n int)")
    text = re.sub(r"\[snapshots\..*\]\n", r'\g<0>group = "shop"\n', rule)
    given = {"store": "1", "group": "names"}
    for file in (
        write(tmp_path, text + own + others, "two.toml"),
        write(tmp_path, rule.replace('"discard"', '"overwrite"') + own),
    ):
        for step in planned(sites, file, **given).steps:
            if step.command.startswith("snaptide "):
                snaptide.said(*shlex.split(step.command)[1:])
            else:
                run(sites[step.site], step.command)
        found = planned(sites, file, **given)
        assert found.settled, [one.command for one in found.steps]
    assert [one.table.name for one in masters.list_rules(sites["store2"])] == ["film"]
    rules = ("rules", "diff", "hq", str(file), "--keep-others")
    assert "SNP-411" in snaptide.said(*rules, code=1)
    plain = write(tmp_path, "[tables.customer]\n", "rules.toml")
    said = snaptide.said("rules", "diff", "hq", str(plain), "--set", "a=b", code=2)
    assert "it is not the file of a site" in said


def test_databases_that_never_took_part_get_their_schema(
    make_database: MakeDatabase, tmp_path: Path
) -> None:
    with Directory({"hq": make_database(), "store1": make_database()}) as sites:
        run(sites["hq"], SHOP)
        make_clerk(sites)
        file = write(tmp_path)
        before = planned(sites, file, store="1")
        assert [one.command for one in before.steps][:2] == [
            "snaptide site init store1",
            "snaptide site init hq",
        ]
        assert applied(sites, file, store="1").steps == before.steps
        assert planned(sites, file, store="1").settled
        assert_equal_to_master(sites["store1"])


def test_what_a_step_leaves_to_look_at_is_said(
    sites: Directory, tmp_path: Path, snaptide: Snaptide
) -> None:
    make_clerk(sites)
    hq, store1 = sites["hq"], sites["store1"]
    run(
        hq,
        "CREATE FUNCTION public.usual() RETURNS text LANGUAGE sql RETURN 'a'",
        "ALTER TABLE public.customer ALTER name SET DEFAULT public.usual()",
    )
    done = applied(sites, write(tmp_path), store="1")
    run(hq, "UPDATE public.rental SET kind = 'there' WHERE id = 2")
    run(store1, "UPDATE public.rental SET kind = 'here' WHERE id = 2")
    text = FILE.replace("'test'", "'other'")
    ended = snaptide("apply", str(write(tmp_path, text)), "--set", "store=1")
    assert ended.exit_code == 3, ended.output
    assert "Note: 1 transaction was parked at hq (snaptide errors list hq)." in (
        ended.output
    )
    assert done.notes == (
        (
            "customer: default of name: public.usual() needs more than the site has; an"
            " insert at the site must give a value"
        ),
    )
