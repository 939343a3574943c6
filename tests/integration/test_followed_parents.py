"""Snapshots whose conditions ask other tables: children follow their parents."""

from typing import Any

import pytest

import masters
import snapshots
from masters.errors import NoSnapshotLog
from sites import Directory
from sites.conditions.where import BadCondition
from sites.errors import StillNeeded
from sites.names import parse
from sites.tables.table import describe
from snapshots import keys
from snapshots.definitions import follow
from snapshots.definitions.errors import (
    NeedsParent,
    NoSuchReference,
    NotByKey,
    SeveralParents,
)
from snapshots.differences import comparison, moved
from snaptide import doctor
from snaptide.plan import export
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import assert_equal_to_master, refresh, settle, user

pytestmark = pytest.mark.usefixtures("spark")

SHOP = """
CREATE TABLE public.customer (id int PRIMARY KEY, store_id int, name text);
CREATE TABLE public.rental (
    id int PRIMARY KEY, customer_id int REFERENCES public.customer, kind text
);
CREATE TABLE public.payment (
    id int PRIMARY KEY,
    rental_id int REFERENCES public.rental ON DELETE CASCADE,
    amount numeric
);
CREATE INDEX ON public.rental (customer_id);
CREATE INDEX ON public.payment (rental_id);
INSERT INTO public.customer
    SELECT g, g % 3, 'c' || g FROM generate_series(1, 9) g;
INSERT INTO public.rental SELECT g, 1 + g % 9, 'k' FROM generate_series(1, 36) g;
INSERT INTO public.payment SELECT g, 1 + g % 36, g FROM generate_series(1, 108) g;
"""


def make_shop(sites: Directory) -> None:
    """Tables of three levels at hq, and a store's part of them at jfk."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, SHOP)
    log(hq, "customer", "rental", "payment")
    made: dict[str, Any] = {"master": "hq", "group": "shop", "updatable": True}
    snapshots.create(jfk, "customer", where="store_id = 1", **made)
    snapshots.create(jfk, "rental", follow=["customer"], **made)
    snapshots.create(jfk, "payment", follow=["rental"], **made)
    snapshots.refresh(jfk, "shop")


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    make_shop(sites)


def test_children_of_a_parent_that_moves_follow_it_to_the_last_level(hq, jfk):
    assert run(jfk, "SELECT count(*) FROM public.payment") == [(36,)]
    assert_equal_to_master(jfk)
    run(hq, "UPDATE public.customer SET store_id = 2 WHERE id = 1")
    done = refresh(jfk, "shop")
    assert {name: one.deleted for name, one in done.items()} == {
        "customer": 1,
        "rental": 4,
        "payment": 12,
    }
    assert {one.method for one in done.values()} == {"fast"}
    assert_equal_to_master(jfk)
    run(hq, "UPDATE public.customer SET store_id = 1 WHERE id IN (1, 2)")
    done = refresh(jfk, "shop")
    assert {name: one.inserted for name, one in done.items()} == {
        "customer": 2,
        "rental": 8,
        "payment": 24,
    }
    assert_equal_to_master(jfk)
    assert refresh(jfk, "shop")["payment"].window_keys == 0


def test_a_parent_deleted_with_its_children_takes_them_along(hq, jfk):
    run(
        hq,
        "DELETE FROM public.payment WHERE rental_id IN"
        " (SELECT id FROM public.rental WHERE customer_id = 4)",
        "DELETE FROM public.rental WHERE customer_id = 4",
        "DELETE FROM public.customer WHERE id = 4",
        "DELETE FROM public.rental WHERE id = 27",
    )
    refresh(jfk, "shop")
    assert_equal_to_master(jfk)


def test_the_site_has_the_foreign_keys_and_refuses_what_is_not_its_own(jfk):
    assert run(
        jfk,
        "SELECT conrelid::regclass::text FROM pg_constraint"
        " WHERE contype = 'f' AND conrelid::regclass::text LIKE '%snap$%' ORDER BY 1",
    ) == [('"snap$_payment"',), ('"snap$_rental"',)]
    with user(jfk) as one:
        for refused in (
            "INSERT INTO public.rental VALUES (100, 2, 'k')",
            "UPDATE public.rental SET customer_id = 2 WHERE customer_id = 1",
            "UPDATE public.customer SET store_id = 2 WHERE id = 1",
            "INSERT INTO public.payment VALUES (1000, 2, 1)",
            (
                "WITH parent AS (INSERT INTO public.customer VALUES (100, 1, 'new'))"
                " INSERT INTO public.rental VALUES (100, 100, 'k')"
            ),
        ):
            with pytest.raises(Exception, match="check option"):
                one.execute(refused)
            one.rollback()
        one.execute("INSERT INTO public.customer VALUES (100, 1, 'new')")
        one.execute("INSERT INTO public.rental VALUES (100, 100, 'k')")
        one.execute("INSERT INTO public.payment VALUES (1000, 100, 1)")
        one.commit()


def test_new_rows_of_the_site_arrive_with_their_parents(hq, jfk):
    with user(jfk) as one:
        one.execute("INSERT INTO public.customer VALUES (100, 1, 'new')")
        one.execute("INSERT INTO public.rental VALUES (100, 100, 'k'), (101, 1, 'k')")
        one.execute("INSERT INTO public.payment VALUES (1000, 100, 1), (1001, 101, 1)")
        one.commit()
    settle(jfk)
    assert run(hq, "SELECT id FROM public.payment WHERE id > 999 ORDER BY 1") == [
        (1000,),
        (1001,),
    ]
    assert_equal_to_master(jfk)


@pytest.mark.parametrize("parent", [1, 2])
def test_no_child_is_read_if_what_changed_of_a_parent_does_not_matter(hq, jfk, parent):
    run(hq, f"UPDATE public.customer SET name = 'other' WHERE id = {parent}")
    done = refresh(jfk, "shop")
    assert {name: one.window_keys for name, one in done.items()} == {
        "customer": 1,
        "rental": 0,
        "payment": 0,
    }
    assert {one.method for one in done.values()} == {"fast"}


def test_a_parent_to_which_a_trigger_of_the_site_gives_other_values(hq, jfk):
    """What the site has of it says nothing about what the master had."""
    snapshots.drop(jfk, "payment")
    snapshots.alter_condition(
        jfk,
        "rental",
        where="EXISTS (SELECT FROM customer c WHERE c.id = customer_id"
        " AND c.store_id = 1 AND c.name <> 'left')",
    )
    refresh(jfk, "shop")
    run(
        jfk,
        "CREATE FUNCTION public.as_it_was() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.name := OLD.name; RETURN NEW; END $$",
        'CREATE TRIGGER as_it_was BEFORE UPDATE ON public."snap$_customer"'
        " FOR EACH ROW EXECUTE FUNCTION public.as_it_was()",
    )
    for name, count in (("left", 8), ("c1", 12)):
        run(hq, f"UPDATE public.customer SET name = '{name}' WHERE id = 1")
        assert refresh(jfk, "shop", allow_mass_delete=True)["rental"].method == "fast"
        assert run(jfk, 'SELECT count(*) FROM public."snap$_rental"') == [(count,)]


def test_a_child_to_which_a_trigger_of_the_site_gives_another_parent(hq, jfk):
    """The site cannot look for the children of a parent that has left."""
    run(
        jfk,
        "CREATE FUNCTION public.as_it_was() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.customer_id := OLD.customer_id; RETURN NEW; END $$",
        'CREATE TRIGGER as_it_was BEFORE UPDATE ON public."snap$_rental"'
        " FOR EACH ROW EXECUTE FUNCTION public.as_it_was()",
    )
    run(hq, "UPDATE public.rental SET customer_id = 4 WHERE id = 9")
    refresh(jfk, "shop")
    run(hq, "UPDATE public.customer SET store_id = 2 WHERE id = 4")
    refresh(jfk, "shop", allow_mass_delete=True)
    assert run(jfk, 'SELECT id FROM public."snap$_rental" WHERE id = 9') == []


def test_a_parent_that_the_site_has_changed_too_counts_as_moved(hq, jfk):
    run(hq, "UPDATE public.customer SET store_id = 2 WHERE id = 1")
    with user(jfk) as one:
        one.execute("UPDATE public.customer SET name = 'mine' WHERE id = 1")
        one.commit()
    refresh(jfk, "shop")
    settle(jfk)
    assert_equal_to_master(jfk)


def test_blanks_at_the_end_of_a_value_that_a_condition_counts(hq, jfk):
    run(
        hq,
        "CREATE TABLE public.kind (id int PRIMARY KEY, code bpchar)",
        "INSERT INTO public.kind VALUES (1, 'ab'), (2, 'abc')",
        "CREATE TABLE public.item (id int PRIMARY KEY, kind int REFERENCES kind)",
        "INSERT INTO public.item VALUES (1, 1), (2, 2)",
    )
    log(hq, "kind", "item")
    made: dict[str, Any] = {"master": "hq", "group": "kinds", "updatable": True}
    snapshots.create(jfk, "kind", **made)
    three = (
        "EXISTS (SELECT FROM public.kind WHERE kind.id = item.kind"
        " AND octet_length(kind.code) = 3)"
    )
    snapshots.create(jfk, "item", where=three, **made)
    refresh(jfk, "kinds")
    run(hq, "UPDATE public.kind SET code = 'ab ' WHERE id = 1")
    assert refresh(jfk, "kinds")["item"].method == "fast"
    assert run(jfk, "SELECT id FROM public.item ORDER BY id") == [(1,), (2,)]


@pytest.mark.parametrize(
    "what",
    [
        "TRUNCATE public.customer CASCADE",
        "ALTER TABLE public.customer ALTER store_id TYPE int USING 3 - store_id",
    ],
)
def test_what_no_trigger_sees_of_a_parent_makes_children_complete(hq, jfk, what):
    run(hq, what)
    done = refresh(jfk, "shop", allow_mass_delete=True)
    assert done["rental"].method == "complete"
    assert_equal_to_master(jfk)
    assert refresh(jfk, "shop")["rental"].method == "fast"


def test_the_log_of_a_parent_is_kept_for_the_children(hq, jfk):
    log_now = masters.show_snapshot_log(hq, "customer")
    assert set(log_now.snapshots) == {"jfk:customer", "jfk:rental", "jfk:payment"}
    masters.drop_snapshot_log(hq, "customer", force=True)
    run(hq, "UPDATE public.customer SET store_id = 1 WHERE id = 2")
    assert refresh(jfk, "shop")["payment"].method == "complete"
    assert_equal_to_master(jfk)
    log(hq, "customer")
    assert refresh(jfk, "shop")["payment"].method == "complete"
    run(hq, "UPDATE public.customer SET store_id = 2 WHERE id = 2")
    assert refresh(jfk, "shop")["payment"].method == "fast"
    assert_equal_to_master(jfk)


def test_a_read_only_snapshot_needs_the_parents_log_alone(hq, jfk):
    condition = (
        "kind = 'k' AND (EXISTS (SELECT FROM customer c WHERE c.id = customer_id AND"
        " c.store_id = 2) OR NOT EXISTS (SELECT 1 FROM customer c WHERE"
        " c.id = customer_id AND c.name <> 'c1'))"
    )
    snapshots.create(
        jfk, "odd", master="hq", table="rental", where=condition, group="odd"
    )
    snapshots.refresh(jfk, "odd")
    assert_equal_to_master(jfk)
    run(
        hq,
        "UPDATE public.customer SET name = 'c1' WHERE id = 3",
        "UPDATE public.customer SET name = 'x', store_id = 2 WHERE id = 1",
    )
    assert refresh(jfk, "odd")["odd"].method == "fast"
    refresh(jfk, "shop")
    assert_equal_to_master(jfk)


def test_a_foreign_key_that_would_change_a_read_only_child_stays_at_the_master(hq, jfk):
    snapshots.drop(jfk, "payment")
    made = snapshots.create(
        jfk, "payment", master="hq", group="shop", follow=["rental"]
    )
    assert any("payment_rental_id_fkey" in one for one in made.left_out)
    refresh(jfk, "shop")
    with user(jfk) as one:
        one.execute("DELETE FROM public.rental WHERE id = 3")
        one.commit()
    settle(jfk)
    assert_equal_to_master(jfk)


def test_a_parent_stays_as_long_as_children_ask_it(jfk):
    with pytest.raises(StillNeeded, match="condition of payment"):
        snapshots.drop(jfk, "rental", force=True)
    snapshots.drop(jfk, "payment")
    snapshots.drop(jfk, "rental")
    snapshots.drop(jfk, "customer")


def test_snapshots_are_shown_with_what_they_ask(jfk):
    run(jfk, "ANALYZE")
    (rental,) = snapshots.describe_snapshot(jfk, "payment").asks
    assert (rental.table, rental.columns, rental.rows_each) == (
        "rental",
        ("rental_id",),
        3.0,
    )
    assert [one.table for one in rental.asks] == ["customer"]


def test_doctor_demands_an_index_on_what_is_followed(hq, jfk):
    assert [f for f in doctor.examine(jfk) if "index" in f.what] == []
    run(hq, "DROP INDEX public.rental_customer_id_idx")
    run(jfk, 'DROP INDEX public."snap$_payment_rental_id_idx"')
    found = [f for f in doctor.examine(jfk) if "index" in f.what]
    assert {(f.site, f.todo.partition(": ")[2]) for f in found} == {
        (
            "hq",
            'CREATE INDEX CONCURRENTLY ON "public"."rental" ("customer_id")',
        ),
        (
            "jfk",
            'CREATE INDEX CONCURRENTLY ON "public"."snap$_payment" ("rental_id")',
        ),
    }


def test_a_view_is_refused_that_would_hide_rows_whose_parents_are_not_there(hq, jfk):
    def create(name: str, where: str) -> None:
        snapshots.create(
            jfk,
            name,
            master="hq",
            table="rental",
            where=f"customer_id IN (SELECT id FROM customer WHERE {where})",
            group="shop",
            updatable=True,
        )

    for where in ("store_id = 2", "store_id = 1 OR name = 'c2'", "name = 'c1'"):
        with pytest.raises(NeedsParent, match="store_id = 1"):
            create("odd", where)
    with pytest.raises(NeedsParent, match="store_id = 1"):
        snapshots.alter_condition(
            jfk,
            "rental",
            where="EXISTS (SELECT FROM customer c WHERE c.id = customer_id)",
        )
    create("some", "name <> 'c4' AND store_id = 1")
    refresh(jfk, "shop")
    assert run(jfk, "SELECT count(*) FROM public.some") == [(8,)]
    assert_equal_to_master(jfk)


def test_rows_below_rows_of_the_same_table(hq, jfk):
    """A store's staff, and whoever works for one of them: users may change both."""
    run(
        hq,
        "CREATE TABLE public.staff (id int PRIMARY KEY, store int,"
        " boss int REFERENCES public.staff)",
        "CREATE INDEX ON public.staff (boss)",
        "INSERT INTO public.staff VALUES (1, 1, NULL), (2, 2, 1), (3, 2, 2), (4, 3, 4)",
    )
    log(hq, "staff")
    snapshots.create(
        jfk,
        "staff",
        master="hq",
        where="store = 1 OR EXISTS (SELECT FROM staff b WHERE b.id = staff.boss"
        " AND b.store = 1)",
        updatable=True,
    )
    snapshots.refresh(jfk, "staff")
    assert run(jfk, "SELECT id FROM public.staff ORDER BY 1") == [(1,), (2,)]
    run(jfk, "INSERT INTO public.staff VALUES (5, 2, 1)")
    with user(jfk) as one, pytest.raises(Exception, match="check option"):
        one.execute("INSERT INTO public.staff VALUES (6, 2, 2)")
    run(hq, "UPDATE public.staff SET store = 1 WHERE id IN (2, 4)")
    settle(jfk)
    assert_equal_to_master(jfk)
    assert run(jfk, "SELECT count(*) FROM public.staff") == [(5,)]


def test_what_cannot_be_kept_up_to_date_is_refused(hq, jfk):
    run(hq, "CREATE TABLE public.plain (id int PRIMARY KEY, name text UNIQUE)")

    def create(**options):
        snapshots.create(
            jfk, "bad", **{"master": "hq", "table": "rental", "group": "x", **options}
        )

    with pytest.raises(NoSnapshotLog, match="plain"):
        create(where="EXISTS (SELECT FROM plain p WHERE p.id = customer_id)")
    with pytest.raises(NotByKey, match="name"):
        create(where="EXISTS (SELECT FROM customer c WHERE c.name = kind)")
    with pytest.raises(BadCondition, match="without a cast"):
        create(
            where="EXISTS (SELECT FROM customer c WHERE c.id::text = rental.id::text)"
        )
    with pytest.raises(BadCondition, match="NOT EXISTS"):
        create(where="customer_id NOT IN (SELECT id FROM customer)")
    with pytest.raises(NeedsParent, match="group x"):
        create(follow=["customer"])
    with pytest.raises(NeedsParent, match="customer"):
        create(where="customer_id IN (SELECT id FROM customer)", updatable=True)
    with pytest.raises(NoSuchReference, match="rental_customer_id_fkey"):
        create(follow=["store"])
    assert masters.show_snapshot_log(hq, "rental").snapshots == (
        "jfk:payment",
        "jfk:rental",
    )


def test_several_snapshots_of_a_parent(jfk):
    """The one that is called like the table is followed, unless there is none."""
    made: dict[str, Any] = {"master": "hq", "group": "shop"}
    snapshots.create(jfk, "also", table="customer", where="store_id = 2", **made)
    done = snapshots.create(jfk, "some", table="rental", follow=["customer"], **made)
    assert "store_id = 1" in str(done.condition)
    refresh(jfk, "shop")
    assert_equal_to_master(jfk)
    for name in ("some", "payment", "rental", "customer"):
        snapshots.drop(jfk, name)
    done = snapshots.create(jfk, "rental", follow=["customer"], **made)
    assert "store_id = 2" in str(done.condition)
    made["table"] = "customer"
    snapshots.create(jfk, "every", **made)
    # What follows one goes on, and a file names it by its condition.
    altered = snapshots.alter_condition(jfk, "also", where="store_id = 1")
    assert [one.name for one in altered] == ["also", "rental"]
    said = export(jfk).document["snapshots"]["rental"]
    assert ("follow" in said, "store_id = 1" in said["where"]) == (False, True)
    made["table"] = "rental"
    both = "also and every are snapshots of customer in refresh group shop"
    with pytest.raises(SeveralParents, match=both):
        snapshots.create(jfk, "some", follow=["customer"], **made)
    with pytest.raises(SeveralParents, match=both):
        snapshots.alter_condition(jfk, "rental", follow=["customer_id"])
    refresh(jfk, "shop")
    assert_equal_to_master(jfk)


def test_parents_of_one_name_in_two_schemas(hq, jfk):
    run(
        hq,
        "CREATE SCHEMA old",
        "CREATE TABLE old.customer (id int PRIMARY KEY, name text)",
        "ALTER TABLE rental ADD before int, ADD CONSTRAINT was FOREIGN KEY (before)"
        " REFERENCES old.customer",
    )
    with hq.session() as connection:
        rental = describe(connection, parse("rental"))
    for name in ("was", "before", "old.customer"):
        assert follow.reference(rental, name).parent == parse("old.customer")
    for name in ("customer_id", "public.customer", "rental_customer_id_fkey"):
        assert follow.reference(rental, name).parent == parse("customer")
    with pytest.raises(NoSuchReference, match="Name the constraint"):
        follow.reference(rental, "customer")


@pytest.mark.parametrize("how", ["by executors", "too many parents"])
def test_windows_that_are_too_large_bring_the_same_rows(hq, jfk, monkeypatch, how):
    if how == "by executors":
        monkeypatch.setattr(
            comparison, "small_windows", lambda _, all_: [None for _ in all_]
        )
    else:
        monkeypatch.setattr(keys, "ALWAYS_FEW", 0)
        monkeypatch.setattr(moved, "CHUNK", 0)
    run(
        hq,
        "UPDATE public.customer SET store_id = 1 WHERE id = 2",
        "UPDATE public.customer SET store_id = 2 WHERE id = 1",
        "UPDATE public.rental SET kind = 'x' WHERE id IN (3, 30)",
        "DELETE FROM public.payment WHERE id = 2",
    )
    done = refresh(jfk, "shop", allow_mass_delete=True)
    expected = "fast" if how == "by executors" else "complete"
    assert done["payment"].method == expected
    assert (done["payment"].inserted, done["payment"].deleted) == (12, 13)
    assert_equal_to_master(jfk)


def test_keys_of_several_columns_of_other_types_and_partitions(hq, jfk):
    run(
        hq,
        "CREATE TABLE public.shelf (room text, no numeric(6, 2), kind text,"
        " PRIMARY KEY (no, room)) PARTITION BY LIST (room)",
        "CREATE TABLE public.shelf_a PARTITION OF public.shelf FOR VALUES IN ('a')",
        "CREATE TABLE public.shelf_rest PARTITION OF public.shelf DEFAULT",
        "CREATE TABLE public.book (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),"
        " room varchar(9), shelf_no numeric, next_to uuid)",
        "INSERT INTO public.shelf SELECT r, n, 'k' || n"
        " FROM unnest(ARRAY['a', 'b \"{', 'c']) r, generate_series(1, 3) n",
        "INSERT INTO public.book (room, shelf_no) SELECT room, no FROM public.shelf",
        "INSERT INTO public.book (room, shelf_no) VALUES ('nowhere', 7), (NULL, NULL)",
    )
    log(hq, "shelf", "book")
    snapshots.create(
        jfk,
        "book",
        master="hq",
        where="(room, shelf_no) IN (SELECT room, no FROM shelf WHERE kind <> 'k2')"
        " OR EXISTS (SELECT FROM book b WHERE b.id = book.next_to AND b.room = 'a')",
    )
    snapshots.refresh(jfk, "book")
    assert run(jfk, "SELECT count(*) FROM public.book") == [(6,)]
    for statement in (
        "UPDATE public.shelf SET kind = 'k2' WHERE no = 1.00",
        "UPDATE public.shelf SET room = 'nowhere', no = 7 WHERE room = 'a' AND no = 3",
        (
            "UPDATE public.book SET next_to = (SELECT id FROM public.book WHERE"
            " room = 'a' LIMIT 1) WHERE room IS NULL"
        ),
        "UPDATE public.book SET room = 'c' WHERE room = 'a'",
        "DELETE FROM public.shelf WHERE kind = 'k3'",
    ):
        run(hq, statement)
        assert refresh(jfk, "book", allow_mass_delete=True)["book"].method == "fast"
        assert_equal_to_master(jfk)
    run(
        hq,
        "CREATE TABLE public.shelf_d (room text NOT NULL, no numeric(6, 2) NOT NULL,"
        " kind text)",
        "INSERT INTO public.shelf_d VALUES ('d', 1, 'k'), ('d', 2, 'k')",
        "INSERT INTO public.book (room, shelf_no) VALUES ('d', 2)",
        "ALTER TABLE public.shelf ATTACH PARTITION public.shelf_d FOR VALUES IN ('d')",
    )
    assert refresh(jfk, "book", allow_mass_delete=True)["book"].method == "complete"
    assert_equal_to_master(jfk)
