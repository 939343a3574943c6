"""A refresh beside users: what they changed, hold or want is left alone."""

import pytest

import snapshots
from sites import Directory
from snapshots.errors import MassDelete
from tests.fix_moments import Moments
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run

pytestmark = pytest.mark.usefixtures("spark")

ALL = "SELECT * FROM public.t ORDER BY id"
#: Rows 1 and 2 take each other's value, and 3 and 4.
SWAPS = (
    "UPDATE public.t SET u = -u WHERE id < 5",
    "UPDATE public.t SET u = 2 WHERE id = 1",
    "UPDATE public.t SET u = 1 WHERE id = 2",
    "UPDATE public.t SET u = 4 WHERE id = 3",
    "UPDATE public.t SET u = 3 WHERE id = 4",
)


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, v text, u int UNIQUE)",
        "INSERT INTO public.t SELECT i, 'hq', i FROM generate_series(1, 9) i",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    snapshots.refresh(jfk, "t")


def pull(site, **options):
    report = snapshots.refresh(site, "t", push_deferred_rpc=False, **options)
    return report.snapshots[0]


def value(site, number):
    found = run(site, "SELECT id, v FROM public.t")
    return {row[0]: row[1] for row in found}.get(number)


def test_pending_rows_are_kept(hq, jfk):
    run(jfk, "UPDATE public.t SET v = 'mine' WHERE id = 1")
    run(jfk, "DELETE FROM public.t WHERE id = 2")
    run(jfk, "INSERT INTO public.t VALUES (10, 'mine', 10)")
    run(hq, "UPDATE public.t SET v = 'theirs' WHERE id IN (1, 2, 3)")
    report = pull(jfk)
    assert report.held_back == 3
    assert [value(jfk, n) for n in (1, 2, 3, 10)] == ["mine", None, "theirs", "mine"]
    assert snapshots.describe_snapshot(jfk, "t").undelivered_calls == 3


def test_what_users_have_added_is_no_mass_delete(hq, jfk):
    """The master lacks all these rows, and none of them would be deleted."""
    run(jfk, "INSERT INTO public.t SELECT i, 'mine', i FROM generate_series(10, 99) i")
    run(hq, "DELETE FROM public.t WHERE id = 1")
    report = pull(jfk)
    assert (report.deleted, report.held_back) == (1, 90)
    with pytest.raises(MassDelete):
        pull(jfk, keep_pending=False)


def test_oracles_way_shows_the_masters_values(hq, jfk):
    run(jfk, "UPDATE public.t SET v = 'mine' WHERE id = 1")
    assert pull(jfk, keep_pending=False).held_back == 0
    assert value(jfk, 1) == "hq"
    assert snapshots.describe_snapshot(jfk, "t").undelivered_calls == 1
    snapshots.refresh(jfk, "t")
    assert value(hq, 1) == value(jfk, 1) == "mine"


def test_push_and_refresh_settle_everything(hq, jfk):
    run(jfk, "UPDATE public.t SET v = 'mine' WHERE id = 1")
    run(jfk, "DELETE FROM public.t WHERE id = 2")
    run(jfk, "INSERT INTO public.t VALUES (10, 'mine', 10)")
    pull(jfk)
    report = snapshots.refresh(jfk, "t")
    assert report.pushed is not None
    assert report.pushed.transactions == 3
    assert run(jfk, ALL) == run(hq, ALL)
    assert run(jfk, 'SELECT * FROM snaptide."uslog$_t"') == []
    assert pull(jfk).window_keys == 0


def test_open_edit_is_not_waited_for(hq, jfk):
    run(hq, "UPDATE public.t SET v = 'theirs' WHERE id IN (1, 2, 3)")
    run(hq, "DELETE FROM public.t WHERE id = 4")
    with jfk.begin() as user:
        user.exec_driver_sql("UPDATE public.t SET v = 'mine' WHERE id IN (1, 4)")
        report = pull(jfk)
        assert report.held_back == 2
    assert [value(jfk, n) for n in (1, 2, 4)] == ["mine", "theirs", "mine"]
    snapshots.refresh(jfk, "t")
    assert run(jfk, ALL) == run(hq, ALL)


def test_locked_row_that_is_not_changed_comes_with_the_next_refresh(hq, jfk):
    run(hq, "UPDATE public.t SET v = 'theirs' WHERE id IN (1, 2)")
    with jfk.begin() as user:
        user.exec_driver_sql("SELECT 1 FROM public.t WHERE id = 1 FOR UPDATE")
        assert pull(jfk).held_back == 1
    assert [value(jfk, n) for n in (1, 2)] == ["hq", "theirs"]
    assert pull(jfk).updated == 1
    assert run(jfk, ALL) == run(hq, ALL)


def test_key_that_a_user_is_about_to_insert(hq, jfk):
    run(hq, "INSERT INTO public.t SELECT i, 'theirs', i FROM generate_series(10, 30) i")
    with jfk.begin() as user:
        user.exec_driver_sql("INSERT INTO public.t VALUES (17, 'mine', 1000)")
        report = pull(jfk)
        assert (report.inserted, report.held_back) == (20, 1)
    run(jfk, "DELETE FROM public.t WHERE id = 17")
    snapshots.refresh(jfk, "t")
    snapshots.refresh(jfk, "t")
    assert [r[0] for r in run(jfk, ALL)] == [r[0] for r in run(hq, ALL)]


def test_unique_value_that_a_user_is_about_to_take(hq, jfk):
    run(hq, "UPDATE public.t SET u = u + 100")
    with jfk.begin() as user:
        user.exec_driver_sql("INSERT INTO public.t VALUES (50, 'mine', 103)")
        report = pull(jfk)
        assert (report.updated, report.held_back) == (8, 1)
    # Now it is taken for good, and pending.
    assert pull(jfk).held_back == 2
    assert value(jfk, 50) == "mine"


def test_rows_that_want_the_value_of_a_row_held_back(hq, jfk):
    run(jfk, "UPDATE public.t SET v = 'mine' WHERE id = 1")
    # 1 gives its value to 2, which gives its own to 3.
    run(
        hq,
        "UPDATE public.t SET u = NULL WHERE id = 1",
        "UPDATE public.t SET u = 900 WHERE id = 3",
        "UPDATE public.t SET u = 1 WHERE id = 2",
        "UPDATE public.t SET u = 2 WHERE id = 3",
    )
    report = pull(jfk)
    assert (report.updated, report.held_back) == (0, 3)
    snapshots.refresh(jfk, "t")
    snapshots.refresh(jfk, "t")
    assert [r[2] for r in run(jfk, ALL)][:3] == [None, 1, 2]


def test_swap_and_chain_of_unique_values(hq, jfk):
    run(
        hq,
        "UPDATE public.t SET u = NULL WHERE id = 1",
        "UPDATE public.t SET u = 1 WHERE id = 2",
        "UPDATE public.t SET u = 2 WHERE id = 1",
        "UPDATE public.t SET u = -u WHERE id > 4",
        "UPDATE public.t SET u = -u + 1 WHERE id > 4",
        "DELETE FROM public.t WHERE id = 3",
        "INSERT INTO public.t VALUES (11, 'new', 3)",
    )
    assert pull(jfk).held_back == 0
    assert run(jfk, ALL) == run(hq, ALL)


def test_swap_of_values_while_a_user_refers_to_a_row(hq, jfk):
    run(jfk, 'CREATE TABLE public.notes (t int REFERENCES public."snap$_t")')
    run(hq, *SWAPS, "UPDATE public.t SET v = 'new' WHERE id IN (1, 2, 5)")
    with jfk.begin() as user:
        user.exec_driver_sql("INSERT INTO public.notes VALUES (2), (5)")
        done = pull(jfk)
        # 2 is referred to, and 1 wants its value; 5 keeps its value.
        assert (done.updated, done.held_back) == (3, 2)
        assert done.refused == {}
    assert pull(jfk).updated == 2
    assert run(jfk, ALL) == run(hq, ALL)


def test_row_that_must_not_be_parked(hq, jfk):
    run(
        jfk,
        "CREATE FUNCTION public.keep() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN RAISE check_violation USING MESSAGE = ''must not be empty''; END'",
        'CREATE TRIGGER keep BEFORE UPDATE ON public."snap$_t" FOR EACH ROW'
        " WHEN (NEW.id = 2 AND NEW.u IS NULL) EXECUTE FUNCTION public.keep()",
    )
    run(hq, *SWAPS)
    done = pull(jfk)
    assert (done.updated, done.held_back) == (2, 2)
    assert done.refused == {"must not be empty": 1}
    run(jfk, 'DROP TRIGGER keep ON public."snap$_t"')
    assert pull(jfk).updated == 2
    assert run(jfk, ALL) == run(hq, ALL)


def test_rows_that_are_taken_only_one_by_one(hq, jfk):
    run(
        jfk,
        "CREATE FUNCTION public.single() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN IF (SELECT count(*) FROM rows) > 1 THEN"
        " RAISE check_violation USING MESSAGE = ''one by one''; END IF;"
        " RETURN NULL; END'",
        'CREATE TRIGGER single AFTER UPDATE ON public."snap$_t"'
        " REFERENCING NEW TABLE AS rows EXECUTE FUNCTION public.single()",
    )
    run(hq, "UPDATE public.t SET v = 'new' WHERE id < 4")
    done = pull(jfk)
    assert (done.updated, done.held_back) == (3, 0)
    assert run(jfk, ALL) == run(hq, ALL)


def test_swap_of_keys(hq, jfk):
    run(
        hq,
        "UPDATE public.t SET id = id + 100 WHERE id IN (1, 2)",
        "UPDATE public.t SET id = CASE id WHEN 101 THEN 2 ELSE 1 END WHERE id > 100",
        "UPDATE public.t SET id = id + 100, u = u + 100 WHERE id > 6",
    )
    pull(jfk)
    assert run(jfk, ALL) == run(hq, ALL)


def test_what_the_master_refused_is_undone(hq, jfk):
    run(
        hq,
        "CREATE FUNCTION public.no() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN RAISE EXCEPTION USING MESSAGE = ''no'', ERRCODE = ''P0001''; END'",
        "CREATE TRIGGER no BEFORE INSERT OR UPDATE OR DELETE ON public.t"
        " FOR EACH ROW EXECUTE FUNCTION public.no()",
    )
    run(jfk, "INSERT INTO public.t VALUES (10, 'mine', 10)")
    run(jfk, "UPDATE public.t SET v = 'mine' WHERE id = 1")
    run(jfk, "DELETE FROM public.t WHERE id = 2")
    report = snapshots.refresh(jfk, "t")
    assert report.pushed is not None
    assert report.pushed.errors == 3
    done = report.snapshots[0]
    assert (done.inserted, done.updated, done.deleted) == (1, 1, 1)
    assert run(jfk, ALL) == run(hq, ALL)


def test_trigger_of_a_user_during_the_merge(hq, jfk):
    run(
        jfk,
        "CREATE FUNCTION public.more() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN UPDATE public.\"snap$_t\" SET v = ''touched'' WHERE id = 9;"
        " RETURN NULL; END'",
        'CREATE TRIGGER more AFTER INSERT ON public."snap$_t"'
        " EXECUTE FUNCTION public.more()",
    )
    run(hq, "INSERT INTO public.t VALUES (10, 'hq', 10)")
    pull(jfk)
    assert value(jfk, 9) == "touched"
    assert run(jfk, 'SELECT k1 FROM snaptide."uslog$_t"') == [(9,)]
    assert pull(jfk).updated == 0
    snapshots.refresh(jfk, "t")
    assert value(hq, 9) == "touched"
    assert run(jfk, ALL) == run(hq, ALL)


def test_unique_key_of_the_sites_own_that_cannot_be_parked(hq, jfk):
    """A value is free when the row that had it is gone: with the next refresh."""
    run(hq, "CREATE TABLE public.d (id int PRIMARY KEY, day date NOT NULL)")
    run(hq, "INSERT INTO public.d VALUES (1, '2026-01-01'), (2, '2026-01-02')")
    log(hq, "d")
    snapshots.create(jfk, "d", master="hq")
    snapshots.refresh(jfk, "d")
    run(jfk, 'CREATE UNIQUE INDEX ON public."snap$_d" (day)')
    run(hq, "DELETE FROM public.d WHERE id = 1")
    run(hq, "INSERT INTO public.d VALUES (3, '2026-01-01'), (4, '2026-01-04')")
    [first] = snapshots.refresh(jfk, "d").snapshots
    assert (first.deleted, first.inserted, first.held_back) == (1, 1, 1)
    assert snapshots.refresh(jfk, "d").snapshots[0].inserted == 1
    every = "SELECT * FROM public.d ORDER BY id"
    assert run(jfk, every) == run(hq, every)


def test_a_table_that_a_user_locks_while_a_refresh_begins(hq, jfk, moments: Moments):
    """The refresh begins again; it is not told that the site refuses the row."""
    run(hq, "UPDATE public.t SET v = 'theirs' WHERE id = 1")
    with jfk.begin() as user:

        def lock() -> None:
            user.exec_driver_sql('LOCK TABLE public."snap$_t"')
            moments.at("refresh.after_register", user.rollback)

        moments.at("refresh.after_stage", lock)
        assert pull(jfk).updated == 1
    assert value(jfk, 1) == "theirs"
    assert moments.reached.count("refresh.after_stage") == 2
