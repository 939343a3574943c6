"""DDL of a master that its sites follow by their next refresh."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import deferred
import groups
import masters
import snapshots
from masters.errors import DdlRefused
from masters.log import site_ddl
from sites import Directory, Site
from sites.names import QualifiedName
from sites.sessions import revisions
from snapshots.definitions.errors import ColumnsRefused
from snapshots.errors import ColumnGone
from snaptide import migrate
from tests import airport
from tests.airport import ORDERS, SWAP
from tests.fix_commands import Snaptide
from tests.fix_moments import Moments
from tests.fix_sites import log
from tests.fix_worker import eventually
from tests.fix_worlds import prepared_once
from tests.grouped import GROUP, broken_off_at, found_group, push_all
from tests.let_go import WAITS
from tests.linked_table import parked, queued, run
from tests.stories import assert_equal_to_master, settle

pytestmark = pytest.mark.usefixtures("spark")

COLUMNS = (
    "SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute"
    " WHERE attrelid = 'public.{}'::regclass AND attnum > 0 AND NOT attisdropped"
)


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    """An updatable snapshot of some rows, and one to read of all."""
    airport.found(sites["hq"], sites["jfk"])


@prepared_once("hq", "lax", "jfk")
def world(sites: Directory) -> None:
    """Two masters of a table, and a snapshot of hq."""
    for name in ("hq", "lax"):
        run(sites[name], ORDERS)
        masters.create_snapshot_log(sites[name], "orders")
    found_group(sites, "hq", "lax")
    run(sites["hq"], "INSERT INTO orders SELECT n, 'JFK' FROM generate_series(1, 3) n")
    push_all({name: sites[name] for name in ("hq", "lax")})
    snapshots.create(sites["jfk"], "orders", master="hq", updatable=True)
    snapshots.refresh(sites["jfk"], "orders")


def columns(site: Site, name: str = "orders") -> str:
    [(found,)] = run(site, COLUMNS.format(name))
    return str(found)


def test_a_site_follows_three_changes_with_what_it_has_queued(
    hq: Site, jfk: Site
) -> None:
    run(jfk, "CREATE VIEW public.lasts AS SELECT id, last FROM public.orders")
    run(jfk, "GRANT SELECT ON public.orders TO pg_monitor")
    run(jfk, "UPDATE public.orders SET first = 'mine', qty = 0 WHERE id = 1")
    run(jfk, "INSERT INTO public.orders VALUES (10, 'JFK', 'f10', 'l10', 2)")
    run(jfk, "DELETE FROM public.orders WHERE id = 2")

    added = "ALTER TABLE orders ADD state text DEFAULT 'new'"
    assert masters.execute_ddl(hq, added).sites == ("jfk",)
    masters.execute_ddl(hq, "ALTER TABLE orders RENAME first TO given")
    masters.execute_ddl(hq, "ALTER TABLE orders ADD first int")
    run(hq, "UPDATE public.orders SET state = 'sold', first = id")

    report = snapshots.refresh(jfk, "airport")
    assert report.pushed is not None
    assert columns(jfk) == "id,airport,given,last,qty,state,first"
    assert columns(jfk, "seen") == columns(jfk)
    assert queued(jfk) == 0
    assert run(hq, "SELECT given, qty FROM public.orders WHERE id IN (1, 10)") == [
        ("mine", 0),
        ("f10", 2),
    ]
    assert run(jfk, "SELECT last FROM public.lasts WHERE id = 1") == [("l1",)]
    run(jfk, "UPDATE public.orders SET state = 'mine', first = 0 WHERE id = 4")
    settle(jfk)
    assert_equal_to_master(jfk)
    assert run(hq, "SELECT first, state FROM public.orders WHERE id = 4") == [
        (0, "mine")
    ]
    assert parked(hq) == []


def test_a_column_that_is_dropped_and_one_that_takes_its_name(
    hq: Site, jfk: Site
) -> None:
    run(jfk, "UPDATE public.orders SET last = 'mine' WHERE id = 1")
    masters.execute_ddl(hq, "ALTER TABLE orders DROP first")
    masters.execute_ddl(hq, "ALTER TABLE orders RENAME last TO first")
    settle(jfk)
    assert columns(jfk) == "id,airport,first,qty"
    assert run(hq, "SELECT first FROM public.orders WHERE id = 1") == [("mine",)]
    assert_equal_to_master(jfk)


def test_ddl_of_a_master_of_an_older_version_is_followed(hq: Site, jfk: Site) -> None:
    masters.execute_ddl(hq, "ALTER TABLE orders ADD state text DEFAULT 'new'")
    migrate.downgrade(hq, revisions.OLDEST_PARTNER)
    snapshots.refresh(jfk, "airport")
    assert columns(jfk) == "id,airport,first,last,qty,state"
    migrate.upgrade(hq)
    settle(jfk)
    assert_equal_to_master(jfk)


def test_columns_that_exchange_names(hq: Site, jfk: Site) -> None:
    run(jfk, "UPDATE public.orders SET first = 'mine' WHERE id = 1")
    masters.execute_ddl(hq, "; ".join(SWAP))
    settle(jfk)
    assert run(hq, "SELECT first, last FROM public.orders WHERE id = 1") == [
        ("l1", "mine")
    ]
    assert_equal_to_master(jfk)


def test_conflicts_about_a_renamed_column_are_found(hq: Site, jfk: Site) -> None:
    run(jfk, "UPDATE public.orders SET first = 'mine' WHERE id = 1")
    masters.execute_ddl(hq, "ALTER TABLE orders RENAME first TO given")
    run(hq, "UPDATE public.orders SET given = 'theirs' WHERE id = 1")
    settle(jfk)
    assert len(parked(hq)) == 1
    assert run(jfk, "SELECT given FROM public.orders WHERE id = 1") == [("theirs",)]


def test_the_default_of_a_dropped_column_is_no_value(hq: Site, jfk: Site) -> None:
    """An insert has it without anybody having written it."""
    masters.execute_ddl(hq, "ALTER TABLE orders ADD state text DEFAULT 'new'")
    settle(jfk)
    run(jfk, "INSERT INTO public.orders (id, airport) VALUES (20, 'JFK')")
    run(jfk, "UPDATE public.orders SET first = 'mine' WHERE id = 20")
    masters.execute_ddl(hq, "ALTER TABLE orders DROP state")
    settle(jfk)
    assert columns(jfk) == "id,airport,first,last,qty"
    assert run(hq, "SELECT first FROM public.orders WHERE id = 20") == [("mine",)]
    assert_equal_to_master(jfk)


def test_a_value_without_a_place_is_parked(hq: Site, jfk: Site) -> None:
    run(jfk, "UPDATE public.orders SET last = 'mine' WHERE id = 1")
    masters.execute_ddl(hq, "ALTER TABLE orders DROP last")
    settle(jfk)
    assert [one.reason for one in deferred.list_errors(hq)] == ["column gone"]
    assert columns(jfk) == "id,airport,first,qty"
    assert queued(jfk) == 0
    assert_equal_to_master(jfk)


def test_another_table_of_that_name_has_other_columns(
    hq: Site, jfk: Site, snaptide: Snaptide
) -> None:
    masters.execute_ddl(hq, "ALTER TABLE orders ADD state text")
    run(
        hq,
        "CREATE TABLE again AS"
        " SELECT id, airport, first, last, qty, ''::text AS own FROM public.orders",
        "DROP TABLE public.orders",
        "ALTER TABLE again ADD PRIMARY KEY (id)",
        "ALTER TABLE again RENAME TO orders",
    )
    masters.drop_snapshot_log(hq, "orders", force=True)
    log(hq, "orders")
    settle(jfk)
    assert columns(jfk) == "id,airport,first,last,qty"
    assert_equal_to_master(jfk)
    assert "has the snapshot follow" not in snaptide("doctor", "jfk").stdout


def test_a_table_that_was_made_anew_has_other_numbers(hq: Site, jfk: Site) -> None:
    """The site knows the numbers of before; a new column has one of them."""
    run(hq, "ALTER TABLE public.orders DROP qty, ADD middle text")
    for name in ("orders", "seen"):
        snapshots.alter_columns(jfk, name, drop=["qty"], add=["middle"])
    settle(jfk)
    run(jfk, "UPDATE public.orders SET middle = 'mine' WHERE id = 1")
    run(
        hq,
        "CREATE TABLE again AS SELECT * FROM public.orders",
        "ALTER TABLE again ALTER airport SET NOT NULL, ADD PRIMARY KEY (id)",
        "DROP TABLE public.orders",
        "ALTER TABLE again RENAME TO orders",
    )
    masters.drop_snapshot_log(hq, "orders", force=True)
    log(hq, "orders")
    assert masters.execute_ddl(hq, "ALTER TABLE orders ADD gate text").sites
    settle(jfk)
    assert columns(jfk) == "id,airport,first,last,middle,gate"
    assert run(hq, "SELECT middle, gate FROM public.orders WHERE id = 1") == [
        ("mine", None)
    ]
    assert_equal_to_master(jfk)


@prepared_once("hq", "jfk")
def pairs(sites: Directory) -> None:
    """Two tables, each with an updatable snapshot, in one group of a site."""
    hq, jfk = sites["hq"], sites["jfk"]
    for name in ("early", "late"):
        run(
            hq,
            f"CREATE TABLE public.{name} (id int PRIMARY KEY, a text, v numeric)",
            f"INSERT INTO public.{name} VALUES (1, 'x', 0), (2, 'y', 0)",
        )
        log(hq, name)
        made: dict[str, Any] = {"master": "hq", "group": "both", "updatable": True}
        snapshots.create(jfk, name, **made)
    snapshots.refresh(jfk, "both")


BOTH = (
    "ALTER TABLE late RENAME a TO b; ALTER TABLE late ADD c text DEFAULT 'c';"
    "ALTER TABLE early ADD c text DEFAULT 'c'"
)


def test_one_table_gets_a_column_and_another_a_name(pairs: Directory) -> None:
    """What waits for the one can only be pushed once the other has its name."""
    hq, jfk = pairs["hq"], pairs["jfk"]
    run(jfk, "UPDATE public.early SET a = 'mine'", "UPDATE public.late SET a = 'mine'")
    masters.execute_ddl(hq, BOTH)
    assert snapshots.refresh(jfk, "both").behind == ()
    settle(jfk)
    assert columns(jfk, "early") == "id,a,v,c"
    assert columns(jfk, "late") == "id,b,v,c"
    assert run(hq, "SELECT DISTINCT b FROM public.late") == [("mine",)]
    assert_equal_to_master(jfk)


def test_one_table_of_two_follows_and_the_other_cannot_yet(pairs: Directory) -> None:
    hq, jfk = pairs["hq"], pairs["jfk"]
    run(jfk, 'ALTER TABLE public."snap$_late" ADD c text')
    masters.execute_ddl(hq, BOTH)
    for _ in range(2):
        [left] = snapshots.refresh(jfk, "both").behind
        assert left.name == "late"
        assert "already exists" in left.why
    assert columns(jfk, "early") == "id,a,v,c"
    run(jfk, 'ALTER TABLE public."snap$_late" DROP c')
    assert snapshots.refresh(jfk, "both").behind == ()
    assert columns(jfk, "late") == "id,b,v,c"
    settle(jfk)
    assert_equal_to_master(jfk)


def test_values_that_equal_the_default_and_are_others(pairs: Directory) -> None:
    hq, jfk = pairs["hq"], pairs["jfk"]
    masters.execute_ddl(hq, "ALTER TABLE early ADD n numeric DEFAULT 0")
    run(hq, "UPDATE public.early SET n = 0.00 WHERE id = 1")
    snapshots.alter_columns(jfk, "early", add=["n"])
    assert run(jfk, "SELECT n::text FROM public.early ORDER BY id") == [
        ("0.00",),
        ("0",),
    ]


def test_a_column_that_was_left_out_does_not_come_under_another_name(
    hq: Site, jfk: Site
) -> None:
    few = ["id", "airport"]
    snapshots.create(jfk, "few", table="orders", master="hq", columns=few)
    settle(jfk)
    snapshots.alter_columns(jfk, "seen", drop=["last"])
    masters.execute_ddl(hq, "ALTER TABLE orders RENAME last TO secret")
    settle(jfk)
    assert columns(jfk, "few") == "id,airport"
    assert columns(jfk, "seen") == "id,airport,first,qty"
    assert columns(jfk) == "id,airport,first,secret,qty"


def test_users_draw_numbers_as_soon_as_they_see_the_column(hq: Site, jfk: Site) -> None:
    run(hq, "ALTER TABLE public.orders ADD number bigserial")
    snapshots.alter_columns(jfk, "orders", add=["number"])
    insert = "INSERT INTO public.orders (id, airport) VALUES (20, 'JFK')"
    run(jfk, insert)
    assert run(jfk, "SELECT number IS NOT NULL FROM public.orders WHERE id = 20") == [
        (True,)
    ]
    snapshots.alter_columns(jfk, "seen", add=["number"])
    settle(jfk)
    assert_equal_to_master(jfk)


def test_a_new_column_that_a_condition_asks_for(pairs: Directory) -> None:
    """The site's value of it is no sign that a row stays where it was."""
    hq, jfk = pairs["hq"], pairs["jfk"]
    run(hq, "ALTER TABLE public.late ADD region text DEFAULT 'y'")
    where = "EXISTS (SELECT FROM late l WHERE l.id = early.id AND l.region = 'x')"
    made: dict[str, Any] = {"master": "hq", "group": "both", "where": where}
    snapshots.create(jfk, "chosen", table="early", **made)
    snapshots.refresh(jfk, "both")
    assert run(jfk, "SELECT id FROM public.chosen") == []
    run(hq, "UPDATE public.late SET region = 'x' WHERE id = 1")
    snapshots.alter_columns(jfk, "late", add=["region"])
    snapshots.refresh(jfk, "both")
    assert run(jfk, "SELECT id FROM public.chosen") == [(1,)]
    settle(jfk)
    assert_equal_to_master(jfk)


def test_what_a_site_decides_for_itself_stays(hq: Site, jfk: Site) -> None:
    masters.execute_ddl(hq, "ALTER TABLE orders ADD state text")
    settle(jfk)
    snapshots.alter_columns(jfk, "seen", drop=["state"])
    few = ["id", "airport", "state"]
    snapshots.create(jfk, "few", table="orders", master="hq", columns=few)
    settle(jfk)
    assert columns(jfk, "seen") == "id,airport,first,last,qty"
    assert columns(jfk, "few") == "id,airport,state"

    masters.execute_ddl(hq, "ALTER TABLE orders ADD gate text")
    keep = ["id", "airport", "first", "last", "qty"]
    snapshots.alter_columns(jfk, "seen", columns=keep)
    settle(jfk)
    assert columns(jfk, "seen") == "id,airport,first,last,qty"
    assert columns(jfk, "few") == "id,airport,state,gate"
    assert columns(jfk) == "id,airport,first,last,qty,state,gate"
    assert_equal_to_master(jfk)


def test_a_snapshot_that_cannot_follow_stays_behind(hq: Site, jfk: Site) -> None:
    """Its condition uses the column; the others of its group go on."""
    masters.execute_ddl(hq, "ALTER TABLE orders RENAME airport TO code")
    run(hq, "UPDATE public.orders SET qty = 0 WHERE id = 3")
    for _ in range(2):
        [left] = snapshots.refresh(jfk, "airport").behind
        assert (left.name, left.code) == ("orders", ColumnsRefused.code)
        assert "give the new one, too" in left.why
    assert columns(jfk, "seen") == "id,code,first,last,qty"
    assert run(jfk, "SELECT qty FROM public.seen WHERE id = 3") == [(0,)]
    with pytest.raises(ColumnsRefused, match="give the new one, too"):
        snapshots.refresh(jfk, "airport", strict=True)
    snapshots.alter_columns(
        jfk,
        "orders",
        rename={"airport": "code"},
        condition=snapshots.Condition(where="code = 'JFK'"),
    )
    assert snapshots.refresh(jfk, "airport").behind == ()
    settle(jfk)
    assert_equal_to_master(jfk)


def test_a_column_that_was_renamed_for_sites_and_then_dropped_for_a_lens(
    hq: Site, jfk: Site
) -> None:
    """Sites follow what is for them, and a lens makes what the owner dropped later."""
    run(jfk, "UPDATE public.orders SET first = 'mine' WHERE id = 1")
    masters.execute_ddl(hq, "ALTER TABLE orders RENAME first TO given")
    run(
        hq,
        "ALTER TABLE orders ADD named text",
        "UPDATE orders SET named = upper(given)",
        "ALTER TABLE orders DROP given",
    )
    with pytest.raises(ColumnGone, match="no longer has the column first"):
        snapshots.refresh(jfk, "airport")
    assert columns(jfk) == columns(jfk, "seen") == "id,airport,first,last,qty"
    snapshots.map_shape(
        hq,
        "orders",
        gone=["first"],
        sets={"named": "upper(first)"},
        backs={"first": "lower(named)"},
    )
    assert [one.applied for one in deferred.retry_errors(hq)] == [True]
    settle(jfk)
    assert run(hq, "SELECT named FROM public.orders WHERE id = 1") == [("MINE",)]
    [(here,)] = run(jfk, "SELECT string_agg(first, ' ' ORDER BY id) FROM orders")
    [(there,)] = run(
        hq,
        "SELECT string_agg(lower(named), ' ' ORDER BY id) FROM orders"
        " WHERE airport = 'JFK'",
    )
    assert here == there


@pytest.mark.parametrize(
    "point",
    [
        "site_ddl.before_commit",
        "snapshot_alter.before_columns",
        "snapshot_alter.after_columns",
        "follow_ddl.between",
    ],
)
def test_what_breaks_off_is_done_by_the_next_refresh(
    hq: Site, jfk: Site, point: str
) -> None:
    run(jfk, "UPDATE public.orders SET first = 'mine' WHERE id = 1")
    both = "ALTER TABLE orders RENAME first TO given; ALTER TABLE orders ADD state int"
    with broken_off_at(point):
        masters.execute_ddl(hq, both)
        snapshots.refresh(jfk, "airport")
    if point == "site_ddl.before_commit":
        assert columns(hq) == "id,airport,first,last,qty"
        masters.execute_ddl(hq, both)
    settle(jfk)
    for name in ("orders", "seen"):
        assert columns(jfk, name) == "id,airport,given,last,qty,state"
    assert run(hq, "SELECT given FROM public.orders WHERE id = 1") == [("mine",)]
    assert_equal_to_master(jfk)


REFUSED = {
    "DELETE FROM orders; ALTER TABLE orders ADD state text NOT NULL": "(jfk) cannot",
    "ALTER TABLE orders DROP id CASCADE": "column id identifies its rows",
    "ALTER TABLE orders RENAME id TO number": "column id identifies its rows",
    "ALTER TABLE orders ALTER qty TYPE smallint": "does not hold all values",
    "ALTER TABLE orders ALTER qty TYPE text": "does not hold all values",
    "ALTER TABLE orders ALTER first TYPE varchar(9)": "does not hold all values",
    'ALTER TABLE orders ALTER first TYPE text COLLATE "C"': "another collation",
    "ALTER TABLE orders ALTER id TYPE bigint": "column id identifies its rows",
    "ALTER TABLE orders ADD g int GENERATED ALWAYS AS (qty * 2) STORED": "generated",
    "ALTER TABLE orders ADD CHECK (qty > 0)": "nothing for sites to follow",
    "CREATE TABLE other (id int)": "nothing for sites to follow",
    "ALTER TABLE nowhere ADD state text": 'relation "nowhere" does not exist',
    "ALTER TABLE orders ADD": "syntax error",
    "COMMIT": "hq: ",
}


@pytest.mark.parametrize("statements", REFUSED)
def test_what_sites_could_not_follow_is_refused(
    hq: Site, jfk: Site, statements: str
) -> None:
    with pytest.raises(DdlRefused, match=re.escape(REFUSED[statements])):
        masters.execute_ddl(hq, statements)
    assert columns(hq) == "id,airport,first,last,qty"
    with hq.session() as connection:
        assert site_ddl.known(connection, QualifiedName("public", "orders")) == []
    settle(jfk)
    assert_equal_to_master(jfk)


def test_sites_that_only_read_need_no_default(hq: Site, jfk: Site) -> None:
    snapshots.drop(jfk, "orders")
    masters.execute_ddl(
        hq, "DELETE FROM orders; ALTER TABLE orders ADD state text NOT NULL"
    )
    snapshots.refresh(jfk, "airport", allow_mass_delete=True)
    assert columns(jfk, "seen") == "id,airport,first,last,qty,state"


MOVED = (
    "ALTER TABLE orders RENAME first TO given; ALTER TABLE orders DROP last;"
    "ALTER TABLE orders ADD state text NOT NULL DEFAULT 'new'"
)


def test_a_snapshot_that_the_master_has_not_heard_of(hq: Site, jfk: Site) -> None:
    """It was made before the DDL, and is filled afterwards."""
    made: dict[str, Any] = {"table": "orders", "master": "hq", "updatable": True}
    snapshots.create(jfk, "early", group="moved", **made)
    snapshots.create(jfk, "late", group="added", **made)
    snapshots.refresh(jfk, "added")
    run(hq, "DELETE FROM snaptide.registered_snapshot WHERE snapshot = 'late'")
    run(jfk, "UPDATE public.late SET first = 'mine' WHERE id = 1")
    assert masters.execute_ddl(hq, MOVED).sites == ("jfk",)
    for name, group in (("early", "moved"), ("late", "added")):
        assert snapshots.refresh(jfk, group).behind == ()
        assert columns(jfk, name) == "id,airport,given,qty,state"
    assert run(hq, "SELECT given FROM public.orders WHERE id = 1") == [("mine",)]

    snapshots.create(jfk, "new", group="new", **made)
    assert masters.execute_ddl(hq, "ALTER TABLE orders ADD gate text").sites == ("jfk",)
    for name, group in (("new", "new"), ("late", "added")):
        run(hq, "DELETE FROM snaptide.registered_snapshot WHERE snapshot = 'late'")
        snapshots.refresh(jfk, group)
        snapshots.refresh(jfk, group)
        assert columns(jfk, name) == "id,airport,given,qty,state,gate"
    settle(jfk)
    assert_equal_to_master(jfk)


def test_a_site_that_goes_to_another_master_of_the_group(world: Directory) -> None:
    """It is altered during the switch, by the refresh that levels the two masters."""
    hq, lax, jfk = world["hq"], world["lax"], world["jfk"]
    with pytest.raises(DdlRefused, match="group execute-ddl --and-sites"):
        masters.execute_ddl(hq, "ALTER TABLE orders ADD state text")
    run(jfk, "UPDATE public.orders SET first = 'mine' WHERE id = 1")
    groups.execute_ddl(hq, GROUP, "ALTER TABLE orders ADD state text", and_sites=True)
    groups.execute_ddl(hq, GROUP, "ALTER TABLE orders ADD gate text")
    snapshots.refresh(jfk, "orders")
    assert columns(jfk) == "id,airport,first,last,qty,state"
    groups.execute_ddl(hq, GROUP, "ALTER TABLE orders ADD wing int", and_sites=True)
    groups.switch_master(jfk, "orders", to="lax")
    settle(jfk)
    assert columns(jfk) == "id,airport,first,last,qty,state,wing"
    run(jfk, "UPDATE public.orders SET wing = 3 WHERE id = 2")
    settle(jfk)
    assert_equal_to_master(jfk)
    assert run(lax, "SELECT wing FROM public.orders WHERE id = 2") == [(3,)]


def test_a_wider_type_at_all_masters_of_a_group(world: Directory) -> None:
    hq, lax, jfk = world["hq"], world["lax"], world["jfk"]
    run(jfk, "UPDATE public.orders SET qty = 7 WHERE id = 1")
    groups.suspend(hq, GROUP)
    wider = "ALTER TABLE orders ALTER qty TYPE bigint"
    groups.execute_ddl(hq, GROUP, wider, and_sites=True)
    groups.resume(hq, GROUP)
    assert snapshots.refresh(jfk, "orders").behind == ()
    run(jfk, "UPDATE public.orders SET qty = 5000000000 WHERE id = 2")
    settle(jfk)
    push_all({"hq": hq, "lax": lax})
    assert run(lax, "SELECT qty FROM public.orders WHERE id < 3 ORDER BY id") == [
        (7,),
        (5000000000,),
    ]
    assert_equal_to_master(jfk)


def test_two_at_once_are_told_apart(hq: Site, jfk: Site, moments: Moments) -> None:
    with ThreadPoolExecutor(1) as pool:
        began = []

        def meanwhile() -> None:
            ddl = "ALTER TABLE orders ADD second int"
            began.append(pool.submit(masters.execute_ddl, hq, ddl))
            eventually(lambda: run(hq, WAITS))

        moments.at("site_ddl.before_commit", meanwhile)
        masters.execute_ddl(hq, "ALTER TABLE orders ADD first_one int")
        began[0].result()
    added = run(hq, "SELECT added FROM snaptide.site_ddl ORDER BY made_at")
    assert [len(numbers) for (numbers,) in added] == [1, 1]
    settle(jfk)
    assert columns(jfk).endswith(",first_one,second")


def test_the_command(snaptide: Snaptide, hq: Site, jfk: Site) -> None:
    said = snaptide.said("ddl", "hq", "ALTER TABLE orders ADD state text")
    assert "jfk" in said
    new = "ALTER TABLE orders ADD x text NOT NULL"
    assert "SNP-107" in snaptide.said("ddl", "hq", new, code=1)
    [past] = snaptide.report("ddl", "hq")
    assert past["tables"] == ["orders"]
    assert past["sites"] == ["jfk"]
    assert "ADD state text" in snaptide.said("ddl", "hq")
    follows = "the next refresh has the snapshot follow"
    assert follows in snaptide("doctor", "jfk").stdout
    settle(jfk)
    assert follows not in snaptide("doctor", "jfk").stdout
    assert snaptide.report("ddl", "hq")[0]["sites"] == []
    assert columns(jfk) == "id,airport,first,last,qty,state"
