"""A site that is written down as a file is what that file says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deferred
import snapshots
from deferred import schedules
from sites import Directory
from snaptide import toml
from snaptide.plan import export, retire
from snaptide.plan.errors import BadSiteFile, NoSuchParameter
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.site_file import FILE, SHOP, applied, make_clerk, planned, write
from tests.stories import assert_equal_to_master, column_groups

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "store1", "store2")
def sites(sites: Directory) -> None:
    run(sites["hq"], SHOP)


def test_what_a_file_made_is_written_as_that_file(
    sites: Directory, tmp_path: Path
) -> None:
    make_clerk(sites)
    applied(sites, write(tmp_path), store="1")
    found = export(sites["store1"], ["store"])
    assert found.parameters == {"store": "1"}
    assert found.notes == ()
    said = found.document["snapshots"]
    assert said["customer"] == {"where": "store_id = ${store}", "updatable": True}
    assert said["rental"]["follow"] == ["customer"]
    assert said["rental"]["where"] == "kind <> 'test'::text"
    assert said["payment"] == {"follow": ["rental"], "updatable": True}
    assert said["Back Office.Note"] == {"columns": ["id", "code"]}
    assert found.document["site"] == {"name": "store${store}"}
    file = write(tmp_path, toml.written(found.document), "exported.toml")
    again = planned(sites, file, store="1")
    assert (again.steps, again.extra, again.refused, again.notes) == ((), (), (), ())
    assert applied(sites, file, store="2").site == "store2"
    assert_equal_to_master(sites["store2"])
    file = write(tmp_path, toml.written(export(sites["store2"]).document))
    assert planned(sites, file).settled


def test_what_commands_made_is_written_as_a_file(
    sites: Directory, tmp_path: Path
) -> None:
    hq, store1, store2 = (sites[name] for name in ("hq", "store1", "store2"))
    run(
        hq,
        "CREATE TABLE public.visit (day date, note text)",
        "CREATE TABLE public.staff (id int PRIMARY KEY, boss int REFERENCES staff,"
        " sold int REFERENCES payment, bought int REFERENCES payment, n text)",
        "INSERT INTO public.staff VALUES (1, 1, 3, 4, '${a} $${b} it''s')",
        "CREATE INDEX ON public.staff (sold)",
    )
    run(store2, "CREATE TABLE public.other (id int PRIMARY KEY)")
    run(store1, "CREATE TYPE public.mood AS ENUM ('low', 'it''s \"high\"')")
    run(
        store1,
        'CREATE TYPE public.address AS (street text COLLATE "C", moods public.mood[])',
    )
    run(
        store1,
        "CREATE DOMAIN public.price AS numeric(8,2)"
        " NOT NULL CHECK (VALUE >= 0) CHECK (VALUE < 100000)",
    )
    run(store1, "CREATE TYPE public.span AS RANGE (SUBTYPE = int4)")
    log(hq, "customer", "rental", "payment", "staff")
    log(hq, "visit", with_rowid=True)
    log(store2, "other")
    made: dict[str, Any] = {"master": "hq", "group": "shop"}
    snapshots.create(store1, "customer", where="store_id IN (1, 2)", **made)
    snapshots.create(store1, "rental", follow=["customer"], **made)
    snapshots.create(
        store1,
        "payment",
        where="EXISTS (SELECT FROM rental r WHERE r.id = rental_id AND r.id < 9"
        " AND r.kind = '${x}') OR amount = 7",
        **made,
    )
    snapshots.create(
        store1, "staff", where="n = '${a} $${b} it''s'", updatable=True, **made
    )
    snapshots.create(
        store1, "worker", table="staff", where="n <> '${a}'", follow=["sold"], **made
    )
    snapshots.create(store1, "visit", master="hq")
    snapshots.create(store1, "other", master="store2")
    for group in ("shop", "visit", "other"):
        snapshots.refresh(store1, group)
    schedules.schedule(store1, "push", "hq", every="90s", transaction_count=5)
    schedules.enable_schedule(store1, "push", "hq", enabled=False)
    deferred.set_budget(store1, "hq", size=1000)
    run(
        store1,
        "GRANT SELECT ON public.staff TO PUBLIC",
        "GRANT UPDATE (n) ON public.staff TO snaptide_apply",
    )
    found = export(store1)
    said = found.document
    assert said["logs"] == {"visit": {"with_rowid": True}}
    assert said["groups"]["other"] == {"master": "store2"}
    assert said["snapshots"]["worker"]["follow"] == ["staff_sold_fkey"]
    assert "EXISTS" in said["snapshots"]["payment"]["where"]
    assert said["destinations"] == {"hq": {"size": "1000B"}}
    assert found.notes == ("staff: the right of snaptide_apply to UPDATE column n",)
    again = planned(sites, write(tmp_path, toml.written(said)))
    assert [one.command for one in again.steps] == []
    assert (again.extra, again.refused, again.notes) == ((), (), ())


def test_tables_of_one_name_at_two_masters(sites: Directory, tmp_path: Path) -> None:
    """A file cannot say whose rules and log they are, so it says that."""
    store1 = sites["store1"]
    for home in ("hq", "store2"):
        run(sites[home], "CREATE TABLE public.visit (id int PRIMARY KEY, n int, m int)")
        log(sites[home], "visit", with_rowid=home == "hq")
        column_groups(sites[home], "visit", {"n" if home == "hq" else "m": "discard"})
        name = f"visit_{home}"
        snapshots.create(store1, name, table="visit", master=home, updatable=True)
        snapshots.refresh(store1, name)
    found = export(store1)
    assert {"logs", "tables"} & found.document.keys() == set()
    either = "in the file, it would be one or another master's"
    assert found.notes == (
        f"the log of visit at hq: {either}",
        f"the rules of visit at hq: {either}",
        f"the rules of visit at store2: {either}",
    )
    again = planned(sites, write(tmp_path, toml.written(found.document)))
    assert (again.steps, again.extra, again.refused, again.notes) == ((), (), (), ())


def test_synchronous_propagation_is_written_and_kept(
    sites: Directory, tmp_path: Path
) -> None:
    make_clerk(sites)
    how = 'master = "hq"\npropagation = "synchronous"'
    file = write(tmp_path, FILE.replace('master = "hq"', how))
    commands = [one.command for one in applied(sites, file, store="1").steps]
    assert "snaptide snapshot alter store1 shop --propagation synchronous" in commands
    found = export(sites["store1"])
    assert found.document["groups"]["shop"]["propagation"] == "synchronous"
    assert planned(sites, write(tmp_path, toml.written(found.document))).settled
    [step] = planned(sites, write(tmp_path), store="1").steps
    assert step.command.endswith("--propagation asynchronous")


@pytest.mark.parametrize("kind", ["smallint", "bigint", "numeric", "float8"])
def test_a_number_of_another_type_is_written_with_its_own(
    sites: Directory, tmp_path: Path, kind: str
) -> None:
    hq, store1 = sites["hq"], sites["store1"]
    run(
        hq,
        f"CREATE TABLE public.visit (id bigint PRIMARY KEY, store_id {kind}, n text)",
        "INSERT INTO public.visit SELECT g, 1 + g % 2 FROM generate_series(1, 4) g",
    )
    log(hq, "visit")
    either = "store_id = 1 OR n = '${x} 1'"
    snapshots.create(store1, "visit", master="hq", where=either)
    snapshots.refresh(store1, "visit")
    said = export(store1, ["store"]).document
    assert said["snapshots"]["visit"]["where"].count("${store}::integer") == 1
    file = write(tmp_path, toml.written(said))
    assert planned(sites, file, store="1").settled
    applied(sites, file, store="2")
    assert_equal_to_master(sites["store2"])


def test_a_site_whose_number_ends_with_another_keeps_its_name(
    make_sites: Callable[..., Directory],
) -> None:
    sites = make_sites("hq", "store12")
    run(sites["hq"], SHOP)
    log(sites["hq"], "rental")
    snapshots.create(
        sites["store12"],
        "rental",
        master="hq",
        columns=["id", "customer_id"],
        where="customer_id = 2",
    )
    found = export(sites["store12"], ["customer"])
    assert found.parameters == {"customer": "2"}
    assert found.document["site"] == {"name": "store12"}


def test_a_number_with_decimals_is_no_parameter(sites: Directory) -> None:
    run(sites["hq"], "CREATE TABLE public.tariff (id int PRIMARY KEY, amount numeric)")
    log(sites["hq"], "tariff")
    snapshots.create(sites["store1"], "tariff", master="hq", where="amount = 2.5")
    with pytest.raises(NoSuchParameter, match="no column with a value"):
        export(sites["store1"], ["amount"])


def test_a_parameter_that_is_not_one_value_is_refused(
    sites: Directory, tmp_path: Path
) -> None:
    make_clerk(sites)
    text = FILE.replace("kind <> 'test'", "(kind = 'a' OR kind = 'b')")
    applied(sites, write(tmp_path, text), store="1")
    with pytest.raises(NoSuchParameter) as refused:
        export(sites["store1"], ["kind"])
    assert refused.value.message == (
        "'kind' is not one value in the conditions of store1; they compare: kind = a or"
        " b; store_id = 1."
    )


def test_the_command_prints_a_file(
    sites: Directory, tmp_path: Path, snaptide: Snaptide
) -> None:
    make_clerk(sites)
    applied(sites, write(tmp_path), store="1")
    printed = snaptide.said("export", "store1", "--as-template", "store")
    assert printed.startswith(
        "# store1, as snaptide export printed it: snaptide plan FILE --set store=1\n\n"
        '[site]\nname = "store${store}"\n'
    )
    file = write(tmp_path, printed)
    assert "nothing to do" in snaptide.said("plan", str(file), "--set", "store=1")
    as_json = snaptide.said("export", "store1", "--as-template", "store_id", "--json")
    assert '"store_id = ${store_id}"' in as_json


def test_a_site_is_made_like_another(
    sites: Directory, tmp_path: Path, snaptide: Snaptide
) -> None:
    make_clerk(sites)
    text = FILE.replace("updatable = true", 'updatable = true\nleaving = "freeze"', 1)
    applied(sites, write(tmp_path, text), store="2")
    create = ("snapshot", "create", "store1", "--like", "store2")
    assert "SNP-414" in snaptide.said(*create, "--set", "shop=1", code=1)
    assert "SNP-404" in snaptide.said(*create, "--updatable", code=2)
    assert "SNP-404" in snaptide.said("snapshot", "create", "store1", "film", code=2)
    said = snaptide.said(*create, "--set", "store=1")
    assert "--where \"store_id = '1'\" --updatable" in said
    assert said.endswith("store1 has them: 12 steps done.\n")
    assert_equal_to_master(sites["store1"])
    ours = export(sites["store1"], ["store"]).document
    theirs = export(sites["store2"], ["store"]).document
    assert {**ours, "schedules": 0, "destinations": 0} == {
        **theirs,
        "schedules": 0,
        "destinations": 0,
    }
    assert snaptide.said(*create, "--set", "store_id=1").startswith(
        "store1 has them: nothing"
    )
    # A policy for rows that leave is altered in place.
    [step] = planned(sites, write(tmp_path), store="2").steps
    assert step.command == "snaptide snapshot alter store2 payment --leaving drain"
    text = FILE.replace("updatable = true", 'leaving = "freeze"', 1)
    with pytest.raises(BadSiteFile, match=r"line 9, snapshots.payment.leaving: .*read"):
        planned(sites, write(tmp_path, text), store="2")


def test_numbers_are_altered_in_place_and_written(
    sites: Directory, tmp_path: Path
) -> None:
    hq, store1 = sites["hq"], sites["store1"]
    run(
        hq,
        "CREATE TABLE public.visit (id serial PRIMARY KEY, no uuid, n serial)",
    )
    head = '[site]\nname = "store1"\n[groups.g]\nmaster = "hq"\n'
    text = f"{head}[snapshots.visit]\nupdatable = true\n"
    applied(sites, write(tmp_path, text))
    run(store1, "INSERT INTO public.visit DEFAULT VALUES")
    assert "numbers" not in export(store1).document["snapshots"]["visit"]
    text += 'numbers = {n = "none", no = "uuidv7"}\n'
    file = write(tmp_path, text)
    [step] = planned(sites, file).steps
    assert step.command == (
        "snaptide snapshot alter store1 visit --numbers n=none --numbers no=uuidv7"
    )
    step.run(sites)
    assert planned(sites, file).settled
    said = export(store1).document
    assert said["snapshots"]["visit"]["numbers"] == {"n": "none", "no": "uuidv7"}
    assert planned(sites, write(tmp_path, toml.written(said))).settled
    file = write(tmp_path, text.replace("uuidv7", "uuid"))
    with pytest.raises(
        BadSiteFile, match=r"line 7, snapshots.visit.numbers: 'uuid' is"
    ):
        planned(sites, file)
    done = retire(store1)
    assert [one.command for one in done.steps] == [
        "snaptide numbers return store1 visit.id",
        "snaptide snapshot drop store1 visit",
    ]
