"""All that a site was given by commands is in the file that describes it.

What there is to be said is read from the code: the fields of the file's sections, the
arguments of the verbs, and the columns of the catalog. A new one fails here until this
world uses it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
import sqlalchemy as sa
from pydantic import BaseModel

import deferred
import groups
import masters
import snapshots
from deferred import schedules
from deferred.options import OF_WORK
from masters import OnBreach
from sites import Directory, Site
from sites.transfer.types import PgSnapshot, Xid8
from snaptide import plan, toml
from snaptide.embedded import PostgresServer
from snaptide.plan import document, export
from tests.fix_sites import log
from tests.granted import login
from tests.linked_table import run
from tests.site_file import applied, make_clerk, planned, write
from tests.unit.test_catalog_columns import CATALOGS

TABLES = (
    "CREATE TABLE public.customer (id int PRIMARY KEY, store_id int NOT NULL)",
    "CREATE TABLE public.rental (id int PRIMARY KEY, kind text, note text)",
    "ALTER TABLE public.rental ADD customer_id int NOT NULL REFERENCES customer",
    "CREATE INDEX ON public.rental (customer_id)",
    "CREATE TABLE public.sale (id int PRIMARY KEY, store_id int NOT NULL, what text)",
    "CREATE TABLE public.visit (day date, note text)",
    "CREATE TABLE public.seat (id serial PRIMARY KEY, flight int, n int, code text)",
    "ALTER TABLE public.seat ADD at timestamptz",
    "ALTER TABLE public.seat ADD CONSTRAINT seat_code UNIQUE (code)",
    "CREATE TABLE public.kind (note text)",
)

CATALOG = {
    table.name: table
    for catalog in CATALOGS
    for table in vars(catalog).values()
    if isinstance(table, sa.Table)
}

NEVER_DECIDED = (sa.DateTime, sa.Uuid, PgSnapshot, Xid8)

#: The tables of the catalog in which decisions of operators stand that a file is about,
#: with the columns that hold what else is known of their subjects. Moments, positions
#: and identities are never decided.
DECIDED = {
    "column_group": "",
    "comparison": "",
    "contract": "state reason age log_bytes seen",
    "destination": "delivered failures last_error last_txn_count batch_no batch_end"
    " previous_end purged_batch purged_order purged_settled traceparent",
    "numbered_column": "size per_day measured_ticket last_error",
    "publication": "",
    "publication_grant": "",
    "publication_table": "",
    "refresh_group": "last_error held_back rows_inserted rows_updated rows_deleted"
    " rows_held_back",
    "resolution_rule": "",
    "schedule": "last_error",
    "snapshot": "last_method loaded parents master_parts master_files master_columns"
    " behind",
    "snapshot_log": "",
}


#: The verbs by which operators decide, with the sections that say the same.
VERBS: dict[Callable[..., object], tuple[type[BaseModel], ...]] = {
    deferred.set_budget: (document.DestinationSection,),
    masters.create_publication: (
        document.PublicationSection,
        document.PublishedSection,
    ),
    masters.create_snapshot_log: (document.LogSection,),
    masters.grant: (document.GrantSection,),
    schedules.schedule: (document.ScheduleSection,),
    snapshots.alter_propagation: (document.GroupSection,),
    snapshots.create: (document.GroupSection, document.SnapshotSection),
    snapshots.set_contract: (document.ContractSection,),
}

#: What they call otherwise, and what stands in the path of a section.
CALLED = {
    "parameters": "params",
    "synchronous": "propagation",
    "what": "name",
    "group": "name",
    **dict.fromkeys(("destination", "publication_name", "site", "table"), "name"),
}


def test_each_argument_of_a_verb_is_said_in_its_section() -> None:
    for verb, sections in VERBS.items():
        known = {"name", *(field for one in sections for field in one.model_fields)}
        asked = {*inspect.signature(verb).parameters} - {"master"}
        unsaid = {one for one in asked if not {one, CALLED.get(one)} & known}
        assert unsaid == set(), verb


def test_each_kind_of_schedule_can_be_said() -> None:
    kinds = get_args(document.ScheduleSection.model_fields["kind"].annotation)
    assert {*kinds} == {*OF_WORK}


@pytest.fixture
def pairs(make_sites: Callable[..., Directory]) -> Directory:
    """A master and its site, and two that are to become the same."""
    sites = make_sites("hq1", "store1", "hq2", "store2")
    for name in ("hq1", "hq2"):
        run(sites[name], *TABLES)
    make_clerk(sites)
    return sites


def master(hq: Site, store: str) -> None:
    """Give a master one of everything, on tables that it publishes or keeps."""
    masters.create_snapshot_log(hq, "sale", partition_columns=["store_id"])
    masters.create_snapshot_log(hq, "visit", with_rowid=True)
    masters.create_snapshot_log(hq, "seat", partition_columns=["flight"])
    for table, column in (("sale", "what"), ("seat", "at")):
        masters.set_column_group(hq, table, "changed", [column])
        masters.add_update_resolution(hq, table, "changed", "discard")
    masters.create_publication(
        hq,
        "sales",
        ["sale"],
        where={"sale": "store_id = :store"},
        columns={"sale": ["id", "store_id", "what"]},
        ddl=False,
    )
    temporary = f'TEMPORARY ON DATABASE "{hq.url.database}"'
    run(hq, f"GRANT {temporary} TO {store}")
    masters.grant(
        hq, "sales", "jfk", login=store, parameters={"store": "3"}, updatable=True
    )


def site(hq: Site, store: Site) -> None:
    """Give a site one of everything that a file may say."""
    log(hq, "customer", "rental")
    masters.set_column_group(hq, "seat", "counts", ["n"])
    masters.add_update_resolution(
        hq,
        "seat",
        "counts",
        "priority_group",
        sequence_no=3,
        parameters={"column": "n", "priorities": {"1": 2, "2": 1}},
    )
    masters.add_unique_resolution(
        hq, "seat", "seat_code", "append_site_name", parameters={"column": "code"}
    )
    masters.add_delete_resolution(hq, "seat", "ignore")
    masters.set_row_version(hq, "seat", "at")
    masters.compare_old_values(hq, "seat", ["code"], compare=False)
    masters.send_old_values(hq, "seat", ["flight"], send=False)
    shop: dict[str, Any] = {"master": hq.name, "group": "shop"}
    snapshots.create(store, "customer", where="store_id = 1", **shop)
    snapshots.create(
        store,
        "rental",
        follow=["customer"],
        columns=["id", "customer_id", "kind"],
        leaving="freeze",
        updatable=True,
        **shop,
    )
    snapshots.create(
        store,
        "chair",
        table="seat",
        updatable=True,
        numbers={"id": "none", "n": "none"},
        **shop,
    )
    snapshots.create(store, "visit", master=hq.name, group="now", updatable=True)
    snapshots.alter_propagation(store, "now", synchronous=True)
    for group in ("shop", "now"):
        snapshots.refresh(store, group)
    run(store, "GRANT SELECT, DELETE ON public.chair TO clerk")
    schedules.schedule(store, "push", hq.name, every="90s", transaction_count=5)
    schedules.enable_schedule(store, "push", hq.name, enabled=False)
    deferred.set_budget(store, hq.name, age=timedelta(days=1), size=1000)
    snapshots.set_contract(
        store,
        "shop",
        visible_within=timedelta(minutes=15),
        answered_within=timedelta(minutes=5),
        may_be_away=timedelta(days=30),
        log_share=1000,
        on_breach=OnBreach.RELEASE,
    )


def given(found: object) -> Iterator[str]:
    """The fields that a description gives."""
    if isinstance(found, BaseModel):
        for name in found.model_fields_set:
            yield f"{type(found).__name__}.{name}"
            yield from given(getattr(found, name))
    elif isinstance(found, Mapping):
        for one in found.values():
            yield from given(one)
    elif isinstance(found, tuple):
        for one in found:
            yield from given(one)


def fields_of_sections() -> set[str]:
    """The fields that a file may give."""
    return {
        f"{name}.{field}"
        for name, one in vars(document).items()
        if isinstance(one, type) and issubclass(one, BaseModel)
        for field in one.model_fields
    }


def again(sites: Directory, name: str, other: str, folder: Path) -> document.Document:
    """Make another site what one is exported as; return what the file says.

    Sites are called as the pairs are numbered.
    """
    text = toml.written(export(sites[name]).document)
    for one in ("hq", "store"):
        text = text.replace(f"{one}1", f"{one}2")
    file = write(folder, text, f"{other}.toml")
    assert applied(sites, file).left == ()
    left = planned(sites, file)
    assert (left.steps, left.extra, left.refused) == ((), (), ())
    assert toml.written(export(sites[other]).document) == text
    return plan.read(file).document


def decided(site: Site, table: str) -> list[str]:
    """What an operator has decided, as the catalog keeps it."""
    known = DECIDED[table].split()
    columns = [
        one
        for one in CATALOG[table].columns
        if not isinstance(one.type, NEVER_DECIDED)
        and not one.foreign_keys
        and not one.identity
        and one.name not in known
    ]
    with site.session() as connection:
        rows = connection.execute(sa.select(*columns)).all()
    return sorted(re.sub(r"(hq|store)[12]", r"\1", repr(row)) for row in rows)


def assert_same(one: Site, other: Site) -> None:
    """Both have the same decisions; what they are called ends with another digit."""
    for table in DECIDED:
        assert decided(one, table) == decided(other, table), table


def test_another_site_is_the_same_by_its_file(
    pairs: Directory, server: PostgresServer, tmp_path: Path
) -> None:
    hq1, hq2 = pairs["hq1"], pairs["hq2"]
    with login(server, hq1) as store:
        run(hq2, f"GRANT TEMPORARY ON DATABASE {hq2.url.database} TO {store}")
        master(hq1, store)
        files = [again(pairs, "hq1", "hq2", tmp_path)]
        assert_same(hq1, hq2)
        site(hq1, pairs["store1"])
        files.append(again(pairs, "store1", "store2", tmp_path))
        assert_same(hq1, hq2)
        assert_same(pairs["store1"], pairs["store2"])
        run(hq2, f"DROP OWNED BY {store}")
    assert fields_of_sections() - {*given(tuple(files))} == set()


@pytest.mark.usefixtures("spark")
def test_what_no_section_is_about_is_noted(pairs: Directory, tmp_path: Path) -> None:
    hq1, store1 = pairs["hq1"], pairs["store1"]
    log(hq1, "customer")
    run(
        store1,
        "CREATE TABLE public.own (id int PRIMARY KEY, v int)",
        "CREATE PROCEDURE public.count() LANGUAGE sql AS 'SELECT 1'",
    )
    log(store1, "own")
    masters.set_column_group(store1, "own", "values", ["v"])
    snapshots.create(store1, "customer", master="hq1")
    deferred.allow_procedure(store1, "count")
    groups.create_group(store1, "all")
    found = export(store1)
    assert {"logs", "tables"} & found.document.keys() == set()
    assert found.notes == (
        "the replication group all",
        "the leave of other sites to call count",
        "the log of own at store1: in the file, it would be hq1's",
        "the rules of own at store1: in the file, it would be hq1's",
    )
