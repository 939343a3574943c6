"""Publications whose sites do not follow DDL of the master."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import masters
import snapshots
from masters.errors import DdlRefused
from masters.publications import bound, policies
from masters.publications.errors import CannotPublish
from sites import Directory, Site
from snapshots.definitions.errors import ColumnsRefused
from snapshots.errors import ColumnGone
from snaptide import migrate
from snaptide.embedded import PostgresServer
from tests.fix_commands import Snaptide
from tests.granted import as_login, login, stores
from tests.linked_table import run
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def granted(sites: Directory, server: PostgresServer) -> Iterator[Site]:
    """The site jfk, to which the sales of store 3 are granted."""
    hq = sites["hq"]
    stores(hq)
    masters.create_publication(
        hq, "sales", ["sale"], where={"sale": "store_id = :store"}
    )
    with login(server, hq) as name:
        masters.grant(hq, "sales", "jfk", login=name, parameters={"store": "3"})
        with as_login(sites, name) as directory:
            yield directory["jfk"]


def names_of(site: Site) -> str:
    [(found,)] = run(
        site,
        "SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute"
        " WHERE attrelid = 'public.sale'::regclass AND attnum > 0"
        " AND NOT attisdropped",
    )
    return str(found)


def test_sites_of_a_publication_without_ddl_keep_their_columns(
    sites: Directory, granted: Site
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    snapshots.create(granted, "sale", master="hq")
    refresh(granted, "sale")
    assert masters.execute_ddl(hq, "ALTER TABLE sale ADD early int").sites == ("jfk",)
    assert not masters.alter_publication(hq, "sales", ddl=False).ddl

    report = masters.execute_ddl(hq, "ALTER TABLE sale ADD late int")
    assert (report.sites, report.staying) == ((), ("jfk",))
    run(hq, "UPDATE sale SET late = 1, what = 'sold' WHERE id = 2")
    [seen] = refresh(granted, "sale").values()
    assert seen.method == "fast"
    assert names_of(jfk) == "id,store_id,what,cost"
    assert run(jfk, "SELECT what FROM public.sale WHERE id = 2") == [("sold",)]
    past = masters.list_ddl(hq)
    assert [(one.sites, one.staying) for one in past] == [((), ("jfk",))] * 2
    [[shown]] = [one.snapshots for one in snapshots.list_shapes(hq, "sale")][:1]
    assert not shown.follows

    found = snapshots.list_shape_differences(granted, "sale")
    assert "--add-column late" in next(one.todo for one in found if "late" in one.what)
    snapshots.alter_columns(granted, "sale", add=["late"])
    refresh(granted, "sale")
    assert run(jfk, "SELECT late FROM public.sale WHERE id = 2") == [(1,)]


def test_a_column_that_is_gone_stays_where_ddl_is_not_followed(
    sites: Directory, granted: Site
) -> None:
    hq = sites["hq"]
    snapshots.create(granted, "sale", master="hq")
    refresh(granted, "sale")
    masters.alter_publication(hq, "sales", ddl=False)
    masters.execute_ddl(hq, "ALTER TABLE sale RENAME what TO thing")
    with pytest.raises(ColumnGone):
        snapshots.refresh(granted, "sale")
    # From now on it follows, and what was run before is left to its owner.
    assert masters.alter_publication(hq, "sales", ddl=True).ddl
    masters.execute_ddl(hq, "ALTER TABLE sale ADD late int")
    with pytest.raises(ColumnsRefused, match="has renamed or dropped what"):
        snapshots.refresh(granted, "sale")
    snapshots.alter_columns(granted, "sale", rename={"what": "thing"})
    refresh(granted, "sale")
    assert names_of(granted) == "id,store_id,thing,cost,late"


def test_ddl_that_sites_cannot_follow_names_those_that_would_not(
    sites: Directory, granted: Site
) -> None:
    hq = sites["hq"]
    masters.alter_publication(hq, "sales", ddl=False)
    snapshots.create(granted, "sale", master="hq")
    with pytest.raises(DdlRefused, match=r"Sites \(jfk\) cannot follow"):
        masters.execute_ddl(hq, "ALTER TABLE sale ALTER cost TYPE smallint")


def test_other_users_follow_ddl_of_a_publication_without(
    sites: Directory, granted: Site
) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    masters.revoke(hq, "sales", "jfk")
    masters.alter_publication(hq, "sales", ["sale"], ddl=False)
    snapshots.create(jfk, "sale", master="hq")
    refresh(jfk, "sale")
    report = masters.execute_ddl(hq, "ALTER TABLE sale ADD late int")
    assert (report.sites, report.staying) == (("jfk",), ())
    snapshots.refresh(jfk, "sale")
    assert names_of(jfk) == "id,store_id,what,cost,late"


def test_what_the_publication_says_of_ddl_stays(
    sites: Directory, granted: Site
) -> None:
    hq = sites["hq"]
    masters.alter_publication(hq, "sales", ddl=False)
    with pytest.raises(CannotPublish, match="at least one table"):
        masters.alter_publication(hq, "sales")
    kept = masters.alter_publication(hq, "sales", ["sale"])
    assert (kept.ddl, kept.tables[0].where) == (False, None)


#: What logins of sites saw of the DDL that they follow before revision 0080.
BEFORE = (
    "ALTER TABLE snaptide.site_ddl ENABLE ROW LEVEL SECURITY",
    'CREATE POLICY "snaptide$others" ON snaptide.site_ddl USING (true)',
    (
        'CREATE POLICY "snaptide$site" ON snaptide.site_ddl AS RESTRICTIVE'
        " TO snaptide_site USING (snaptide.is_granted(table_schema, table_name))"
    ),
)


def test_publications_of_before_are_bound_by_the_new_revision(
    sites: Directory, granted: Site
) -> None:
    hq = sites["hq"]
    snapshots.create(granted, "sale", master="hq")
    refresh(granted, "sale")
    # Policies of later revisions call functions that one of before does not have.
    with hq.begin() as connection:
        bound.run(connection, policies.unbinding_ours())
    migrate.downgrade(hq, "0079")
    run(hq, *BEFORE)
    refresh(granted, "sale")
    migrate.upgrade(hq)
    assert masters.show_publication(hq, "sales").ddl
    masters.alter_publication(hq, "sales", ddl=False)
    masters.execute_ddl(hq, "ALTER TABLE sale ADD late int")
    snapshots.refresh(granted, "sale")
    assert names_of(sites["jfk"]) == "id,store_id,what,cost"


def test_the_commands_say_which_sites_do_not_follow(
    sites: Directory, granted: Site, snaptide: Snaptide
) -> None:
    snapshots.create(granted, "sale", master="hq")
    altered = snaptide.said("publication", "alter", "hq", "sales", "--no-ddl")
    assert "Sites do not follow DDL." in altered
    assert snaptide.said("publication", "list", "hq").split()[-1] == "no"
    ran = snaptide.report("ddl", "hq", "ALTER TABLE sale ADD late int")
    assert (ran["sites"], ran["staying"]) == ([], ["jfk"])
    assert "do not follow" in snaptide.said("ddl", "hq")
    [shape, _] = snaptide.report("shape", "list", "hq", "sale")
    assert shape["snapshots"][0]["follows"] is False
    both = snaptide.said("publication", "alter", "hq", "sales", "sale", "--ddl")
    assert "Sites follow DDL." in both


def test_site_goes_on_without_a_column_that_it_may_not_read(
    sites: Directory, server: PostgresServer
) -> None:
    """A publication of some columns gives no right to one that is added."""
    hq, some = sites["hq"], ["id", "store_id", "what"]
    stores(hq)
    masters.create_publication(
        hq,
        "sales",
        ["sale"],
        where={"sale": "store_id = :store"},
        columns={"sale": some},
    )
    with login(server, hq) as name:
        masters.grant(hq, "sales", "jfk", login=name, parameters={"store": "3"})
        with as_login(sites, name) as directory:
            granted = directory["jfk"]
            snapshots.create(granted, "sale", master="hq", columns=some)
            refresh(granted, "sale")
            before = names_of(granted)
            masters.execute_ddl(hq, "ALTER TABLE sale ADD late int")
            run(hq, "UPDATE sale SET what = 'new' WHERE id = 2")
            refresh(granted, "sale")
            assert names_of(granted) == before
            new = "SELECT what FROM public.sale WHERE id = 2"
            assert run(granted, new) == [("new",)]
