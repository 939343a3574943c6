"""Publications: what a site gets of a master, by its login and not by its condition."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.exc import ProgrammingError

import masters
import snapshots
from masters import ContractState
from masters.errors import NoSnapshotLog, TablePublished
from masters.publications.errors import (
    BadTemplate,
    CannotPublish,
    LoginUnfit,
    PublicationExists,
    PublicationGranted,
    UnknownGrant,
    UnknownPublication,
    WrongParameters,
)
from sites import Directory, Site
from sites.errors import NotGranted, UnknownTable
from snapshots.definitions.errors import BeyondGrant
from snapshots.errors import ColumnGone
from snaptide.doctor import registrations
from snaptide.embedded import PostgresServer
from tests.fix_commands import Snaptide
from tests.fix_sites import log
from tests.granted import as_login, login, stores
from tests.linked_table import run
from tests.stories import refresh

#: A function that tells anybody what nobody may read.
_PAYS = (
    "CREATE FUNCTION public.pays() RETURNS int LANGUAGE sql"
    " SECURITY DEFINER AS 'SELECT pays FROM public.salary'"
)

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def store(sites: Directory, server: PostgresServer) -> Iterator[str]:
    """Sales at hq, and the login of jfk."""
    stores(sites["hq"])
    with login(server, sites["hq"]) as name:
        yield name


@pytest.fixture
def granted(sites: Directory, store: str) -> Iterator[Site]:
    """The site jfk, to which the sales of store 3 are granted."""
    hq = sites["hq"]
    masters.create_publication(
        hq, "sales", ["sale"], where={"sale": "store_id = :store"}
    )
    masters.grant(hq, "sales", "jfk", login=store, parameters={"store": "3"})
    with as_login(sites, store) as directory:
        yield directory["jfk"]


def ids(site: Site) -> list[int]:
    return [row[0] for row in run(site, "SELECT id FROM public.sale ORDER BY 1")]


def test_a_site_gets_its_rows_without_a_condition(
    sites: Directory, granted: Site
) -> None:
    hq = sites["hq"]
    snapshots.create(granted, "sale", master="hq")
    refresh(granted, "sale")
    assert ids(granted) == [2, 4, 6, 8, 10]
    # One moves to another store, one comes from there, one goes, and one is new.
    run(
        hq,
        "UPDATE public.sale SET store_id = 4 WHERE id = 2",
        "UPDATE public.sale SET store_id = 3 WHERE id = 1",
        "DELETE FROM public.sale WHERE id IN (3, 4)",
        "INSERT INTO public.sale VALUES (11, 3, 'new', 1), (12, 4, 'new', 1)",
    )
    [report] = refresh(granted, "sale").values()
    assert report.method == "fast"
    assert report.window_keys == 4
    assert ids(granted) == [1, 6, 8, 10, 11]
    [report] = refresh(granted, "sale").values()
    assert report.window_keys == 0


def test_refresh_of_a_granted_site_notes_a_breach_that_it_ends(
    sites: Directory, granted: Site
) -> None:
    hq = sites["hq"]
    snapshots.create(granted, "sale", master="hq")
    refresh(granted, "sale")
    within = timedelta(hours=1)
    snapshots.set_contract(sites["jfk"], "sale", visible_within=within)
    run(
        hq,
        "INSERT INTO public.sale VALUES (11, 3, 'new', 1)",
        "DELETE FROM snaptide.position_time",
        "UPDATE snaptide.\"mlog$_sale\" SET at = at - interval '2 hours'",
    )
    refresh(granted, "sale")
    masters.look_at_contracts(hq)
    [found] = masters.list_contracts(hq)
    assert (found.state, found.age) == (ContractState.LATE, 0)
    assert "A refresh came late" in str(found.reason)


def test_a_site_with_a_condition_loses_no_rows_to_a_grant(
    sites: Directory, granted: Site
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    snapshots.create(jfk, "sale", master="hq", where="id > 0")
    refresh(jfk, "sale")
    before = ids(jfk)
    run(hq, "UPDATE public.sale SET what = 'other'")
    with pytest.raises(BeyondGrant, match="chooses its rows itself"):
        refresh(granted, "sale", method="C")
    assert ids(jfk) == before


def test_doctor_looks_at_the_registrations_of_a_granted_site(
    sites: Directory, granted: Site
) -> None:
    snapshots.create(granted, "sale", master="hq")
    run(sites["hq"], "DELETE FROM snaptide.registered_snapshot")
    with granted.session() as connection:
        [found] = registrations.check(connection, granted)
    assert "It is not registered at hq" in found.what


def test_what_is_revoked_leaves_the_site(
    sites: Directory, granted: Site, store: str
) -> None:
    hq = sites["hq"]
    snapshots.create(granted, "sale", master="hq")
    refresh(granted, "sale")
    # With another one, the site may still meet the master.
    masters.create_publication(hq, "pay", ["salary"])
    masters.grant(hq, "pay", "jfk", login=store)
    for publication, says in {
        "sales": "permission denied for table sale",
        "pay": "may not read who that is",
    }.items():
        masters.revoke(hq, publication, "jfk")
        run(hq, "DELETE FROM public.sale WHERE id = 2")
        with pytest.raises(NotGranted, match=says):
            refresh(granted, "sale")
        assert ids(granted) == []
    masters.grant(hq, "sales", "jfk", login=store, parameters={"store": "3"})
    [report] = refresh(granted, "sale").values()
    assert report.method == "complete"
    assert ids(granted) == [4, 6, 8, 10]


def test_rows_stay_where_all_may_read_the_table_but_none_is_granted(
    sites: Directory, granted: Site, store: str
) -> None:
    hq = sites["hq"]
    masters.create_publication(hq, "pays", ["salary"])
    masters.grant(hq, "pays", "jfk", login=store)
    snapshots.create(granted, "sale", master="hq")
    refresh(granted, "sale")
    run(hq, "GRANT SELECT ON public.sale TO PUBLIC")
    masters.revoke(hq, "sales", "jfk")
    with pytest.raises(ProgrammingError, match="is not granted to"):
        refresh(granted, "sale")
    assert ids(granted) == [2, 4, 6, 8, 10]


def test_only_granted_columns_are_read(sites: Directory, store: str) -> None:
    hq = sites["hq"]
    masters.create_publication(
        hq,
        "sales",
        ["sale"],
        where={"sale": "store_id = :store"},
        columns={"sale": ["id", "what"]},
    )
    masters.grant(hq, "sales", "jfk", login=store, parameters={"store": "3"})
    with as_login(sites, store) as directory:
        jfk = directory["jfk"]
        with pytest.raises(BeyondGrant, match="sale: column store_id, column cost"):
            snapshots.create(jfk, "sale", master="hq")
        less: dict[str, Any] = {"master": "hq", "columns": ["id", "what"]}
        for more in ({"updatable": True}, {"where": "id > 4"}):
            with pytest.raises(BeyondGrant, match="to this site"):
                snapshots.create(jfk, "sale", **less, **more)
        snapshots.create(jfk, "sale", master="hq", columns=["id", "what"])
        refresh(jfk, "sale")
        run(hq, "UPDATE public.sale SET what = 'other' WHERE id < 3")
        [report] = refresh(jfk, "sale").values()
        assert (report.method, report.window_keys) == ("fast", 1)
        found = run(jfk, "SELECT id, what FROM public.sale ORDER BY 1 LIMIT 2")
        assert found == [(2, "other"), (4, "thing 4")]
        run(hq, "UPDATE public.sale SET what = repeat('more', 300)")
        refresh(jfk, "sale", method="c")
        longer = "SELECT count(*) FROM public.sale WHERE what LIKE 'moremore%'"
        assert run(jfk, longer) == [(5,)]


def test_other_values_and_other_conditions_are_compared_in_full(
    sites: Directory, granted: Site, store: str
) -> None:
    hq = sites["hq"]
    snapshots.create(granted, "sale", master="hq")
    refresh(granted, "sale")
    masters.grant(hq, "sales", "jfk", login=store, parameters={"store": "4"})
    [report] = refresh(granted, "sale").values()
    assert report.method == "complete"
    assert ids(granted) == [1, 3, 5, 7, 9]
    masters.alter_publication(hq, "sales", ["sale"], where={"sale": "id = :store"})
    [report] = refresh(granted, "sale").values()
    assert report.method == "complete"
    assert ids(granted) == [4]
    # By its key, too, the log tells whose rows have left.
    run(hq, "UPDATE public.sale SET id = 40 WHERE id = 4")
    [report] = refresh(granted, "sale").values()
    assert (report.method, report.window_keys) == ("fast", 1)
    assert ids(granted) == []


def test_rows_whose_column_was_renamed_are_not_missed(
    sites: Directory, granted: Site
) -> None:
    hq = sites["hq"]
    snapshots.create(granted, "sale", master="hq")
    refresh(granted, "sale")
    run(
        hq,
        "ALTER TABLE public.sale RENAME store_id TO shop",
        "UPDATE public.sale SET shop = 4 WHERE id = 2",
        "ALTER TABLE public.sale RENAME shop TO store_id",
    )
    refresh(granted, "sale")
    assert ids(granted) == [4, 6, 8, 10]


def test_columns_that_a_lens_makes_are_read(sites: Directory, granted: Site) -> None:
    hq = sites["hq"]
    snapshots.create(granted, "sale", master="hq")
    refresh(granted, "sale")
    run(
        hq,
        "ALTER TABLE public.sale ADD name text",
        "UPDATE public.sale SET name = upper(what)",
    )
    snapshots.map_shape(
        hq, "sale", gone=["what"], sets={"name": "upper(what)"}, backs={"what": "name"}
    )
    run(hq, "ALTER TABLE public.sale DROP what")
    [report] = refresh(granted, "sale").values()
    assert report.method == "complete"
    found = run(granted, "SELECT id, what FROM public.sale ORDER BY 1 LIMIT 2")
    assert found == [(2, "THING 2"), (4, "THING 4")]


def test_a_column_that_is_gone_is_named(sites: Directory, granted: Site) -> None:
    snapshots.create(granted, "sale", master="hq")
    refresh(granted, "sale")
    run(sites["hq"], "ALTER TABLE public.sale DROP what")
    with pytest.raises(ColumnGone):
        snapshots.refresh(granted, "sale")


def test_all_others_see_every_row(sites: Directory, granted: Site) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    role = f"clerk_{granted.url.database}"
    run(
        hq,
        f"CREATE ROLE {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON public.sale TO {role}",
    )
    try:
        as_clerk = (
            f"SET LOCAL ROLE {role}",
            "INSERT INTO public.sale VALUES (20, 9, 'new', 1)",
            "SELECT count(*) FROM public.sale",
        )
        assert run(hq, *as_clerk) == [(11,)]
    finally:
        run(hq, f"DROP OWNED BY {role}", f"DROP ROLE {role}")
    snapshots.create(jfk, "sale", master="hq")
    refresh(jfk, "sale")
    assert len(ids(jfk)) == 11


def test_nothing_is_left_of_a_publication(sites: Directory, granted: Site) -> None:
    hq = sites["hq"]
    with pytest.raises(PublicationGranted, match="granted to jfk"):
        masters.drop_publication(hq, "sales")
    with pytest.raises(TablePublished):
        masters.drop_snapshot_log(hq, "sale", force=True)
    with pytest.raises(TablePublished):
        masters.alter_snapshot_log(hq, "sale", partition_columns=[])
    masters.revoke(hq, "sales", "jfk")
    masters.drop_publication(hq, "sales")
    secured = "SELECT count(*) FROM pg_class WHERE relrowsecurity"
    assert run(hq, secured) == [(0,)]
    assert run(hq, "SELECT count(*) FROM pg_policy") == [(0,)]
    assert masters.list_publications(hq) == []
    masters.alter_snapshot_log(hq, "sale", partition_columns=[])


@pytest.mark.parametrize(
    ("where", "error", "says"),
    [
        ("store_id > :store", BadTemplate, "not of the form"),
        ("store_id = 3", BadTemplate, "not of the form"),
        ("store_id = :a OR true", BadTemplate, "not of the form"),
        ("store_id = :a AND store_id = :b", BadTemplate, "names store_id twice"),
        ("shop = :store", BadTemplate, "no column shop"),
        ("what = :what", BadTemplate, "does not record what"),
    ],
)
def test_conditions_that_cannot_be_bound(
    sites: Directory, store: str, where: str, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        masters.create_publication(sites["hq"], "s", ["sale"], where={"sale": where})
    assert masters.list_publications(sites["hq"]) == []
    assert run(sites["hq"], "SELECT count(*) FROM pg_policy") == [(0,)]


@pytest.mark.parametrize("kind", ["timestamptz", "date"])
def test_values_that_settings_of_a_session_change(
    sites: Directory, store: str, kind: str
) -> None:
    hq = sites["hq"]
    run(hq, f"CREATE TABLE public.day (id int PRIMARY KEY, d {kind})")
    masters.create_snapshot_log(hq, "day", partition_columns=["d"])
    with pytest.raises(BadTemplate, match="depends on settings of the session"):
        masters.create_publication(hq, "s", ["day"], where={"day": "d = :d"})


@pytest.mark.parametrize(
    ("kind", "value"),
    [("character(3)", "abc"), ("public.mood", "sad")],
)
def test_values_that_are_the_same_in_all_sessions(
    sites: Directory, store: str, kind: str, value: str
) -> None:
    hq = sites["hq"]
    run(
        hq,
        "CREATE TYPE public.mood AS ENUM ('sad')",
        f"CREATE TABLE public.day (id int PRIMARY KEY, d {kind})",
        f"INSERT INTO public.day VALUES (1, '{value}'), (2, NULL)",
    )
    masters.create_snapshot_log(hq, "day", partition_columns=["d"])
    masters.create_publication(hq, "s", ["day"], where={"day": "d = :d"})
    masters.grant(hq, "s", "jfk", login=store, parameters={"d": value})
    run(hq, "UPDATE public.day SET id = id + 2")
    with as_login(sites, store) as directory:
        rows = run(directory["hq"], "SELECT id FROM public.day")
        keys = 'SELECT DISTINCT k1 FROM snaptide."mlog$_day" ORDER BY 1'
        assert (rows, run(directory["hq"], keys)) == ([(3,)], [(1,), (3,)])


def test_hashes_of_columns_that_are_not_granted(sites: Directory, store: str) -> None:
    hq = sites["hq"]
    masters.alter_snapshot_log(hq, "sale", partition_columns=["store_id", "cost"])
    less = {"sale": ["id", "what"]}
    where = {"sale": "store_id = :store"}
    with pytest.raises(CannotPublish, match="must include cost: its log shows hashes"):
        masters.create_publication(hq, "s", ["sale"], where=where, columns=less)
    less["sale"].append("cost")
    masters.create_publication(hq, "s", ["sale"], where=where, columns=less)


def test_tables_that_cannot_be_published(sites: Directory, store: str) -> None:
    hq = sites["hq"]
    run(
        hq,
        "CREATE TABLE public.parted (id int PRIMARY KEY) PARTITION BY LIST (id)",
        "CREATE TABLE public.own (id int PRIMARY KEY)",
        "CREATE POLICY mine ON public.own USING (true)",
        "CREATE TABLE public.bare (id int PRIMARY KEY)",
    )
    log(hq, "parted", "own")
    for table, says in {"parted": "partitions", "own": "of its own"}.items():
        with pytest.raises(CannotPublish, match=says):
            masters.create_publication(hq, "s", [table])
    with pytest.raises(NoSnapshotLog):
        masters.create_publication(hq, "s", ["bare"])
    with pytest.raises(UnknownTable):
        masters.create_publication(hq, "s", ["gone"])
    with pytest.raises(CannotPublish, match="must include id"):
        masters.create_publication(hq, "s", ["sale"], columns={"sale": ["what"]})
    with pytest.raises(CannotPublish, match="has no column price"):
        masters.create_publication(hq, "s", ["sale"], columns={"sale": ["id", "price"]})
    with pytest.raises(CannotPublish, match="salary is not among"):
        masters.create_publication(hq, "s", ["sale"], columns={"salary": ["id"]})


def test_grants_that_are_refused(
    sites: Directory, granted: Site, store: str, server: PostgresServer
) -> None:
    hq = sites["hq"]
    with pytest.raises(PublicationExists):
        masters.create_publication(hq, "sales", ["sale"])
    with pytest.raises(UnknownPublication):
        masters.grant(hq, "sale", "jfk", login=store)
    with pytest.raises(UnknownGrant):
        masters.revoke(hq, "sales", "lga")
    with pytest.raises(LoginUnfit, match="the login of jfk"):
        masters.grant(hq, "sales", "lga", login=store, parameters={"store": "4"})
    with pytest.raises(LoginUnfit, match="no such role"):
        masters.grant(hq, "sales", "lga", parameters={"store": "4"})
    for values, says in {
        (): "needs values for store",
        (("store", "4"), ("shop", "4")): "no parameter shop",
        (("store", "four"),): "store=four is no value for column store_id",
    }.items():
        with pytest.raises(WrongParameters, match=says):
            masters.grant(hq, "sales", "jfk", login=store, parameters=dict(values))
    with pytest.raises(CannotPublish, match="is in another publication"):
        masters.create_publication(hq, "all", ["sale"])
    # Nothing of these was kept.
    [one] = masters.show_publication(hq, "sales").grants
    assert (one.site, one.login, one.parameters) == ("jfk", store, {"store": "3"})


@pytest.mark.parametrize(
    ("statements", "says"),
    [
        (["ALTER ROLE {login} BYPASSRLS"], "bypass row-level security"),
        (["GRANT pg_read_all_data TO {login}"], "a member of pg_read_all_data"),
        (
            ["GRANT SELECT (pays) ON public.salary TO {login}"],
            "rights on public.salary",
        ),
        (["GRANT TEMPORARY ON DATABASE {database} TO {login}"], "temporary tables"),
        (["GRANT CREATE ON SCHEMA public TO {login}"], "create objects in public"),
        (["GRANT snaptide_apply TO {login}"], "may become snaptide_apply"),
        (
            [
                _PAYS,
            ],
            r"rights of their owners: (public\.)?pays\(\)",
        ),
    ],
)
def test_logins_that_may_do_more(
    sites: Directory, store: str, statements: list[str], says: str
) -> None:
    hq = sites["hq"]
    masters.create_publication(hq, "sales", ["sale"])
    database = f'"{hq.url.database}"'
    run(hq, *(one.format(login=store, database=database) for one in statements))
    with pytest.raises(LoginUnfit, match=says):
        masters.grant(hq, "sales", "jfk", login=store)


def test_the_commands(sites: Directory, store: str, snaptide: Snaptide) -> None:
    where = ["--where", "sale=store_id = :store"]
    made = snaptide.said("publication", "create", "hq", "sales", "sale", *where)
    assert "store_id" in made
    columns = ["--columns", "sale=id,store_id"]
    snaptide.said("publication", "alter", "hq", "sales", "sale", *where, *columns)
    to = ["hq", "sales", "jfk"]
    snaptide.said("grant", *to, "--param", "store=3", "--login", store)
    run(
        sites["hq"],
        f'GRANT TEMPORARY ON DATABASE "{sites["hq"].url.database}" TO {store}',
    )
    granted = ["--param", "store=3", "--login", store, "--updatable"]
    assert snaptide.report("grant", *to, *granted)["updatable"]
    shown = snaptide.said("publication", "show", "hq", "sales")
    assert "store=3" in shown
    assert store in shown
    assert "jfk" in snaptide.said("publication", "list", "hq")
    assert "SNP-157" in snaptide.said("publication", "drop", "hq", "sales", code=1)
    snaptide.said("revoke", *to)
    snaptide.said("publication", "drop", "hq", "sales")
    assert masters.list_publications(sites["hq"]) == []
