"""What a master publishes, and the contracts of a site, are what a file says."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import masters
import snapshots
from sites import Directory, faults
from sites.faults import InjectedFault
from snaptide import toml
from snaptide.embedded import PostgresServer
from snaptide.plan import export, like
from snaptide.plan.errors import BadSiteFile, CannotApply
from snaptide.plan.steps import RefreshGroup
from tests.fix_commands import Snaptide
from tests.granted import as_login, login
from tests.linked_table import run
from tests.site_file import applied, planned, write
from tests.stories import refresh

FILE = """\
[site]
name = "hq"

[logs.sale]
partition_columns = ["store_id"]

[publications.sales.tables.sale]
where = "store_id = :store"
columns = ["id", "store_id", "what"]

[publications.sales.tables.item]

[publications.sales.grants.jfk]
login = "LOGIN"
params = {store = 3}
"""


@pytest.fixture
def store(sites: Directory, server: PostgresServer) -> Iterator[str]:
    """Tables at hq without any log, and a login for jfk."""
    run(
        sites["hq"],
        "CREATE TABLE public.sale (id int PRIMARY KEY, store_id int NOT NULL,"
        " region int NOT NULL DEFAULT 1, what text)",
        "INSERT INTO public.sale SELECT i, 3 + i % 2, 1, 'thing' || i"
        " FROM generate_series(1, 10) i",
        "CREATE TABLE public.item (id int PRIMARY KEY)",
    )
    with login(server, sites["hq"]) as name:
        yield name


def commands(sites: Directory, file: Path) -> list[str]:
    return [one.command for one in planned(sites, file).steps]


def test_a_file_makes_publications_and_grants(
    sites: Directory, tmp_path: Path, store: str
) -> None:
    file = write(tmp_path, FILE.replace("LOGIN", store))
    assert commands(sites, file) == [
        "snaptide log create hq sale --partition-columns store_id",
        "snaptide log create hq item",
        (
            "snaptide publication create hq sales item sale"
            " --where 'sale=store_id = :store' --columns sale=id,store_id,what"
        ),
        f"snaptide grant hq sales jfk --param store=3 --login {store}",
    ]
    assert len(applied(sites, file).steps) == 4
    again = planned(sites, file)
    assert (again.steps, again.extra, again.refused) == ((), (), ())
    [one] = masters.list_publications(sites["hq"])
    assert [each.table for each in one.tables] == ["item", "sale"]
    assert one.grants[0].parameters == {"store": "3"}


@pytest.mark.usefixtures("spark")
def test_a_site_reads_what_the_file_grants(
    sites: Directory, tmp_path: Path, store: str
) -> None:
    applied(sites, write(tmp_path, FILE.replace("LOGIN", store)))
    with as_login(sites, store) as directory:
        jfk = directory["jfk"]
        snapshots.create(jfk, "sale", master="hq", columns=["id", "store_id", "what"])
        refresh(jfk, "sale")
        assert run(jfk, "SELECT count(*) FROM public.sale") == [(5,)]
        found = export(jfk)
        [note] = found.notes
        assert "the rules and contracts at hq, which its user" in note
        text = toml.written(found.document)
        assert planned(directory, write(tmp_path, text)).settled
        # The operator of the master sets its contract.
        text += '\n[contracts.sale]\nvisible_within = "15m"\n'
        made = planned(directory, write(tmp_path, text))
        assert made.settled
        [note] = [one for one in made.notes if "contract" in one]
        assert note == (
            "contract of sale: our user at hq may neither read nor set contracts, so "
            "the operator of hq does: snaptide contract set jfk sale"
            " --visible-within 15m"
        )
        assert not applied(directory, write(tmp_path, text)).steps
        assert masters.list_contracts(sites["hq"]) == []


def test_a_second_apply_finishes_what_a_crash_left(
    sites: Directory, tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, FILE.replace("LOGIN", store))
    for left in (3, 2, 1, 0):
        monkeypatch.setattr(faults, "_hits", Counter())
        monkeypatch.setenv("SNAPTIDE_FAULT", "apply.after_step:error")
        with pytest.raises(InjectedFault):
            applied(sites, file)
        assert len(planned(sites, file).steps) == left
    assert applied(sites, file).steps == ()


def test_other_rows_values_and_columns(
    sites: Directory, tmp_path: Path, store: str
) -> None:
    text = FILE.replace("LOGIN", store)
    applied(sites, write(tmp_path, text))
    file = write(tmp_path, text.replace("store = 3", "store = 4"))
    assert commands(sites, file) == [
        f"snaptide grant hq sales jfk --param store=4 --login {store}"
    ]
    applied(sites, file)
    # A condition in other words, and tables as others write them, are the same.
    same = text.replace("store = 3", "store = 4").replace(
        "tables.item", "tables.'public.item'"
    )
    same = same.replace('"store_id = :store"', "'\"store_id\"=:store'")
    assert planned(sites, write(tmp_path, same)).settled
    # A parameter without a value: the grant goes while the condition changes.
    keyed = text.replace('"store_id = :store"', '"id = :number"')
    file = write(tmp_path, keyed.replace("store = 3", "number = 7"))
    found = planned(sites, file)
    assert [one.command for one in found.steps] == [
        "snaptide revoke hq sales jfk",
        (
            "snaptide publication alter hq sales item sale --where 'sale=id = :number'"
            " --columns sale=id,store_id,what"
        ),
        f"snaptide grant hq sales jfk --param number=7 --login {store}",
    ]
    assert found.steps[1].details == (
        '- sale: "store_id" = :store; columns: id, store_id, what',
        "+ sale: id = :number; columns: id, store_id, what",
    )
    applied(sites, file)
    assert planned(sites, file).settled
    [grant] = masters.show_publication(sites["hq"], "sales").grants
    assert grant.parameters == {"number": "7"}


def test_a_file_says_whether_a_site_may_push(
    sites: Directory, tmp_path: Path, store: str, snaptide: Snaptide
) -> None:
    hq = sites["hq"]
    temporary = f'TEMPORARY ON DATABASE "{hq.url.database}"'
    run(hq, f"GRANT {temporary} TO {store}")
    text = FILE.replace("LOGIN", store)
    pushes = text.replace("params =", "updatable = true\nparams =")
    file = write(tmp_path, pushes)
    applied(sites, file)
    assert masters.show_publication(hq, "sales").grants[0].updatable
    # Another value takes nothing away.
    applied(sites, write(tmp_path, pushes.replace("store = 3", "store = 4")))
    assert masters.show_publication(hq, "sales").grants[0].updatable
    exported = export(hq).document
    assert planned(sites, write(tmp_path, toml.written(exported))).settled
    [line] = commands(sites, write(tmp_path, text))
    assert "--updatable" not in line
    run(hq, f"REVOKE {temporary} FROM {store}")
    snaptide.said(*shlex.split(line)[1:])
    assert not masters.show_publication(hq, "sales").grants[0].updatable
    [line] = commands(sites, write(tmp_path, pushes))
    run(hq, f"GRANT {temporary} TO {store}")
    snaptide.said(*shlex.split(line)[1:])
    assert masters.show_publication(hq, "sales").grants[0].updatable


def test_a_table_goes_from_one_publication_to_another(
    sites: Directory, tmp_path: Path, store: str
) -> None:
    text = FILE.replace("LOGIN", store)
    text += "\n[publications.all.tables.more]\n"
    run(sites["hq"], "CREATE TABLE public.more (id int PRIMARY KEY)")
    applied(sites, write(tmp_path, text))
    moved = text.replace("[publications.sales.tables.item]\n", "")
    moved += "\n[publications.all.tables.item]\n"
    file = write(tmp_path, moved)
    assert [one.split()[4] for one in commands(sites, file)] == ["sales", "all"]
    applied(sites, file)
    assert planned(sites, file).settled


def test_another_site_gets_no_log_of_what_a_site_publishes(
    make_sites: Callable[..., Directory], monkeypatch: pytest.MonkeyPatch
) -> None:
    sites = make_sites("hq", "jfk", "lga")
    for site in (sites["hq"], sites["jfk"]):
        run(site, "CREATE TABLE public.own (id int PRIMARY KEY, what text)")
    masters.create_snapshot_log(sites["jfk"], "own", partition_columns=["what"])
    masters.create_publication(sites["jfk"], "p", ["own"], where={"own": "what = :w"})
    run(sites["hq"], "CREATE TABLE public.item (id int PRIMARY KEY)")
    masters.create_snapshot_log(sites["hq"], "item")
    snapshots.create(sites["jfk"], "item", master="hq")
    # The refresh, which is the last step, would need Spark.
    monkeypatch.setattr(RefreshGroup, "run", lambda *_: None)
    like(sites, "lga", "jfk")
    assert [one.name for one in snapshots.list_snapshots(sites["lga"])] == ["item"]
    assert [one.table for one in masters.list_snapshot_logs(sites["hq"])] == ["item"]


def test_what_the_file_does_not_name_goes_only_when_asked(
    sites: Directory, tmp_path: Path, store: str
) -> None:
    text = FILE.replace("LOGIN", store)
    applied(sites, write(tmp_path, text))
    less = text[: text.index("[publications.sales.grants")]
    found = planned(sites, write(tmp_path, less))
    assert found.settled
    assert [one.command for one in found.extra] == ["snaptide revoke hq sales jfk"]
    nothing = write(tmp_path, '[site]\nname = "hq"\n')
    assert [one.command for one in planned(sites, nothing).extra] == [
        "snaptide revoke hq sales jfk",
        "snaptide publication drop hq sales",
    ]
    assert len(applied(sites, nothing).extra) == 2
    assert masters.list_publications(sites["hq"])
    applied(sites, nothing, prune=True)
    assert masters.list_publications(sites["hq"]) == []
    assert planned(sites, nothing).extra == ()


def test_what_nothing_changes_in_place_is_refused(
    sites: Directory, tmp_path: Path, store: str
) -> None:
    text = FILE.replace("LOGIN", store)
    applied(sites, write(tmp_path, text))
    before = masters.list_publications(sites["hq"])
    for old, new, says in (
        (
            '["store_id"]',
            '["region"]',
            "records the columns store_id, and the policies",
        ),
        (
            "publications.sales.",
            "publications.others.",
            "publication sales has it, too",
        ),
    ):
        file = write(tmp_path, text.replace(old, new))
        with pytest.raises(CannotApply, match=says):
            applied(sites, file)
    less = text[: text.index("[publications.sales.grants")]
    file = write(tmp_path, less.replace("store_id = :store", "id = :number"))
    with pytest.raises(CannotApply, match="granted to jfk without a value for number"):
        applied(sites, file)
    assert masters.list_publications(sites["hq"]) == before


WRONG = {
    "a condition": ("= :store", "> :store", "line 8, publications.sales.tables.sale."),
    "a parameter": ("{store = 3}", "{shop = 3}", "it gives values for shop; the"),
    "no parameter": ("params = {store = 3}", "", "line 13, publications.sales.grants"),
    "a table twice": (
        "tables.item]",
        "tables.'public.sale']",
        "publication sales has it, too",
    ),
    "a login twice": (
        "{store = 3}",
        (
            '{store = 3}\n[publications.sales.grants.lga]\nlogin = "LOGIN"\n'
            "params = {store = 4}"
        ),
        "LOGIN is the login of jfk",
    ),
    "no table": (
        "tables.sale]",
        "tablez.sale]",
        "line 7: There is no key publications.sales.tablez. Did",
    ),
    "a key": ("params =", "parameters =", "Did you mean params?"),
    "a contract without a group": (
        "[logs.sale]",
        '[contracts.shop]\nvisible_within = "1h"\n[logs.sale]',
        "there is no [groups.shop]; the groups are: none",
    ),
    "a contract without a limit": (
        "[logs.sale]",
        "[contracts.shop]\n[logs.sale]",
        "line 4, contracts.shop: ",
    ),
    "a contract of no duration": (
        "[logs.sale]",
        '[contracts.shop]\nmay_be_away = "soon"\n[logs.sale]',
        "line 4, contracts.shop: 'soon'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_has_its_place_in_the_file(
    sites: Directory, tmp_path: Path, case: str
) -> None:
    old, new, said = WRONG[case]
    assert old in FILE
    with pytest.raises(BadSiteFile) as refused:
        planned(sites, write(tmp_path, FILE.replace(old, new, 1)))
    assert said in refused.value.message


def test_an_export_is_the_file(sites: Directory, tmp_path: Path, store: str) -> None:
    text = FILE.replace("LOGIN", store)
    applied(sites, write(tmp_path, text))
    found = export(sites["hq"])
    assert found.notes == ()
    assert found.document["publications"] == {
        "sales": {
            "tables": {
                "item": {},
                "sale": {
                    "where": '"store_id" = :store',
                    "columns": ["id", "store_id", "what"],
                },
            },
            "grants": {"jfk": {"login": store, "params": {"store": "3"}}},
        }
    }
    written = write(tmp_path, toml.written(found.document), "exported.toml")
    again = planned(sites, written)
    assert (again.steps, again.extra, again.refused) == ((), (), ())


@pytest.mark.parametrize(
    "value",
    ["${store}", "$${store}", 'it\'s "3" = \\, ', "", "Küche 🍞", "2026-11-26"],
)
def test_a_value_means_itself(
    sites: Directory, tmp_path: Path, store: str, snaptide: Snaptide, value: str
) -> None:
    hq = sites["hq"]
    masters.create_snapshot_log(hq, "sale", partition_columns=["what"])
    masters.create_publication(hq, "sales", ["sale"], where={"sale": "what = :it"})
    masters.grant(hq, "sales", "jfk", login=store, parameters={"it": value})
    file = write(tmp_path, toml.written(export(hq).document))
    assert planned(sites, file).settled
    masters.revoke(hq, "sales", "jfk")
    [line] = commands(sites, file)
    snaptide.said(*shlex.split(line)[1:])
    assert masters.show_publication(hq, "sales").grants[0].parameters == {"it": value}


def test_each_line_of_a_plan_can_be_run_by_itself(
    sites: Directory, tmp_path: Path, store: str, snaptide: Snaptide
) -> None:
    file = write(tmp_path, FILE.replace("LOGIN", store))
    shown = snaptide("plan", str(file))
    assert shown.exit_code == 3, shown.output
    for line in shown.output.splitlines():
        assert snaptide(*shlex.split(line)[1:]).exit_code == 0, line
    assert "nothing to do" in snaptide.said("plan", str(file))
    assert snaptide.report("apply", str(file))["steps"] == []
    less = file.with_name("less.toml")
    less.write_text('[site]\nname = "hq"\n')
    for one in snaptide.report("plan", str(less))["extra"]:
        snaptide.said(*shlex.split(one["command"])[1:])
    assert masters.list_publications(sites["hq"]) == []


def test_rules_of_a_published_table_are_the_site_s_own(
    sites: Directory, tmp_path: Path, store: str, snaptide: Snaptide
) -> None:
    jfk = sites["jfk"]
    run(jfk, "CREATE TABLE public.own (id int PRIMARY KEY, what text)")
    text = SITE[: SITE.index("[contracts")] + (
        "[publications.mine.tables.own]\n[tables.own]\ngroups = {texts = ['what']}\n"
    )
    file = write(tmp_path, text)
    assert f"snaptide rules apply jfk {file} --keep-others" in commands(sites, file)
    snaptide.said("log", "create", "jfk", "own")
    snaptide.said("rules", "apply", "jfk", str(file), "--keep-others")
    assert not any("rules" in one for one in commands(sites, file))
    assert "own" not in snaptide.said("rules", "diff", "hq", str(file), "--keep-others")


SITE = """\
[site]
name = "jfk"

[groups.shop]
master = "hq"

[snapshots.sale]

[snapshots.item]

[contracts.shop]
visible_within = "15m"
may_be_away = "30d"
on_breach = "release"
"""


def test_whether_sites_follow_ddl(
    sites: Directory, tmp_path: Path, store: str, snaptide: Snaptide
) -> None:
    text = FILE.replace("LOGIN", store)
    file = write(tmp_path, text)
    applied(sites, file)
    without = text.replace(
        "[publications.sales.tables.item]",
        "[publications.sales]\nddl = false\n[publications.sales.tables.item]",
    )
    [step] = planned(sites, write(tmp_path, without)).steps
    assert step.details == ("sites follow DDL: False",)
    # Tables that are given again would have sites compare all rows.
    assert step.command == "snaptide publication alter hq sales --no-ddl"
    snaptide.said(*shlex.split(step.command)[1:])
    [one] = masters.list_publications(sites["hq"])
    assert not one.ddl
    assert planned(sites, write(tmp_path, without)).settled
    exported = export(sites["hq"]).document
    assert planned(sites, write(tmp_path, toml.written(exported))).settled
    applied(sites, write(tmp_path, text))
    [one] = masters.list_publications(sites["hq"])
    assert one.ddl
    columns = '"id", "store_id", "what"]'
    both = without.replace(columns, '"id", "store_id"]')
    applied(sites, write(tmp_path, both))
    [one] = masters.list_publications(sites["hq"])
    assert (one.ddl, one.tables[1].columns) == (False, ("id", "store_id"))


def test_how_soon_a_master_is_to_answer(sites: Directory, tmp_path: Path) -> None:
    run(sites["hq"], "CREATE TABLE public.sale (id int PRIMARY KEY, what text)")
    text = (
        SITE.replace("[snapshots.item]\n", "")
        .replace("[snapshots.sale]", "[snapshots.sale]\nupdatable = true")
        .replace("visible_within", 'answered_within = "5m"\nvisible_within')
    )
    file = write(tmp_path, text)
    assert " --answered-within 5m " in applied(sites, file).steps[-1].command
    assert planned(sites, file).settled
    exported = export(sites["jfk"]).document
    assert exported["contracts"]["shop"]["answered_within"] == "5m"
    assert planned(sites, write(tmp_path, toml.written(exported))).settled


def test_a_contract_whose_group_is_gone(sites: Directory, tmp_path: Path) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE TABLE public.sale (id int PRIMARY KEY)")
    run(hq, "CREATE TABLE public.item (id int PRIMARY KEY)")
    for name in ("sale", "item"):
        masters.create_snapshot_log(hq, name)
        snapshots.create(jfk, name, master="hq", group=name)
    snapshots.set_contract(jfk, "sale", visible_within=timedelta(minutes=5))
    snapshots.drop(jfk, "sale")
    document = export(jfk).document
    assert "contracts" not in document
    [extra] = planned(sites, write(tmp_path, toml.written(document))).extra
    assert extra.command == "snaptide contract drop hq jfk sale"


@pytest.mark.usefixtures("spark")
def test_contracts_of_a_site(
    sites: Directory, tmp_path: Path, store: str, snaptide: Snaptide
) -> None:
    hq = sites["hq"]
    file = write(tmp_path, SITE.replace("[snapshots.item]\n", ""))
    assert applied(sites, file).steps[-1].command == (
        "snaptide contract set jfk shop --visible-within 15m --may-be-away 30d"
        " --on-breach release"
    )
    assert planned(sites, file).settled
    # It is about the snapshots that the group has.
    file = write(tmp_path, SITE)
    assert [one.split()[1] for one in commands(sites, file)][-1] == "contract"
    applied(sites, file)
    assert masters.list_contracts(hq)[0].snapshots == ("item", "sale")
    # Other terms, in other words.
    assert planned(sites, write(tmp_path, SITE.replace("15m", "900s"))).settled
    file = write(tmp_path, SITE.replace('may_be_away = "30d"', 'log_share = "20GB"'))
    [line] = commands(sites, file)
    snaptide.said(*shlex.split(line)[1:])
    assert planned(sites, file).settled
    exported = export(sites["jfk"]).document
    assert exported["contracts"] == {
        "shop": {"visible_within": "15m", "log_share": "20GB", "on_breach": "release"}
    }
    assert planned(sites, write(tmp_path, toml.written(exported))).settled
    file = write(tmp_path, SITE[: SITE.index("[contracts")])
    [extra] = planned(sites, file).extra
    assert extra.command == "snaptide contract drop hq jfk shop"
    applied(sites, file, prune=True)
    assert masters.list_contracts(hq) == []
