"""A refresh group: one moment, one refresh at a time, errors that are named."""

import threading
from dataclasses import replace

import pytest

import snapshots
from benchmarks import walk
from sites import Directory
from snapshots.definitions import refresh_group
from snapshots.errors import (
    CannotMerge,
    ErrorsAtMaster,
    MasterChanged,
    RefreshRunning,
)
from snapshots.merging import search
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run

pytestmark = pytest.mark.usefixtures("spark")


@prepared_once("hq", "jfk")
def sites(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    for name in ("a", "b"):
        run(
            hq,
            f"CREATE TABLE public.{name} (id int PRIMARY KEY, money int DEFAULT 100)",
        )
    run(
        hq,
        "INSERT INTO public.a SELECT generate_series(1, 5)",
        "INSERT INTO public.b SELECT id FROM public.a",
    )
    log(hq, "a", "b")
    for name in ("a", "b"):
        snapshots.create(jfk, name, master="hq", group="bank", updatable=True)
    snapshots.refresh(jfk, "bank")


def test_one_moment(hq, jfk):
    over = threading.Event()

    def move():
        with hq.connect() as connection:
            while not over.is_set():
                for statement in (
                    "UPDATE public.a SET money = money - 1 WHERE id = 1",
                    "UPDATE public.b SET money = money + 1 WHERE id = 1",
                ):
                    connection.exec_driver_sql(statement)
                connection.commit()

    mover = threading.Thread(target=move)
    mover.start()
    try:
        for _ in range(4):
            snapshots.refresh(jfk, "bank", push_deferred_rpc=False)
            found = run(
                jfk,
                "SELECT (SELECT sum(money) FROM public.a)"
                " + (SELECT sum(money) FROM public.b)",
            )
            assert found == [(1000,)]
    finally:
        over.set()
        mover.join()


def test_second_table_adds_few_statements(hq, jfk):
    """A refresh of one key of one table sends 47 (`test_walk`)."""
    for _ in range(2):  # the first warms up
        for name in ("a", "b"):
            run(hq, f"UPDATE public.{name} SET money = money + 1 WHERE id = 1")
        with walk.walked() as walked:
            report = snapshots.refresh(jfk, "bank")
    assert [one.updated for one in report.snapshots] == [1, 1]
    assert len(walked.statements) == 47 + 10


def test_unchanged_table_costs_its_description_alone(hq, jfk):
    """No work table is made for it, and neither log nor rows are read."""
    for _ in range(2):  # the first warms up
        run(hq, "UPDATE public.a SET money = money + 1 WHERE id = 1")
        with walk.walked() as walked:
            report = snapshots.refresh(jfk, "bank")
    assert [one.updated for one in report.snapshots] == [1, 0]
    assert len(walked.statements) == 47 + 3


def test_one_refresh_at_a_time(jfk):
    with refresh_group.exclusively(jfk, "bank"), pytest.raises(RefreshRunning):
        snapshots.refresh(jfk, "bank")
    snapshots.refresh(jfk, "bank")


def test_position_that_moved_starts_over(hq, jfk, monkeypatch):
    run(hq, "UPDATE public.a SET money = 7 WHERE id = 1")
    advance = refresh_group.lock_at
    moved: list[bool] = []

    def once(connection, group):
        if not moved:
            moved.append(True)
            group = replace(group, position="1:1:")
        advance(connection, group)

    monkeypatch.setattr(refresh_group, "lock_at", once)
    snapshots.refresh(jfk, "bank")
    assert moved
    assert run(jfk, "SELECT money FROM public.a WHERE id = 1") == [(7,)]


def test_errors_at_the_master(hq, jfk):
    run(jfk, "UPDATE public.a SET money = 1 WHERE id = 1")
    run(hq, "UPDATE public.a SET money = 2 WHERE id = 1")
    with pytest.raises(ErrorsAtMaster):
        snapshots.refresh(jfk, "bank", refresh_after_errors=False)
    assert run(jfk, "SELECT money FROM public.a WHERE id = 1") == [(1,)]
    errors = run(jfk, "SELECT last_error FROM snaptide.refresh_group")
    assert "SNP-208" in str(errors)
    snapshots.refresh(jfk, "bank")
    assert run(jfk, "SELECT money FROM public.a WHERE id = 1") == [(2,)]


def test_row_that_the_site_refuses_is_held_back(hq, jfk):
    """The others go on; what the trigger says stands where people look."""
    refuse(jfk, "UPDATE", "NEW.id = 3")
    run(jfk, 'ALTER TABLE public."snap$_a" ADD CHECK (money <> 70 OR id <> 4)')
    run(hq, "UPDATE public.a SET money = 70", "UPDATE public.b SET money = 7")
    report = {s.name: s for s in snapshots.refresh(jfk, "bank").snapshots}
    assert (report["a"].updated, report["a"].held_back) == (3, 2)
    assert report["b"].updated == 5
    assert report["a"].refused["not here"] == 1
    assert len(report["a"].refused) == 2
    assert run(jfk, "SELECT money FROM public.a WHERE id IN (3, 4)") == [(100,)] * 2
    sources = run(jfk, 'SELECT k1, source FROM snaptide."uslog$_a" WHERE k1 = 3')
    assert sources == [(3, "refused: not here")]
    [(noted,)] = run(jfk, "SELECT last_error FROM snaptide.refresh_group")
    assert "1 of a: not here" in str(noted)

    run(jfk, 'DROP TRIGGER no ON public."snap$_a"')
    run(hq, "UPDATE public.a SET money = 8 WHERE id = 4")
    report = {s.name: s for s in snapshots.refresh(jfk, "bank").snapshots}
    assert report["a"].refused == {}
    assert run(jfk, "SELECT money FROM public.a WHERE id IN (3, 4) ORDER BY id") == [
        (70,),
        (8,),
    ]
    assert run(jfk, "SELECT last_error FROM snaptide.refresh_group") == [(None,)]


def test_refused_parent_keeps_its_children_back(hq, jfk):
    """What depends on a refused row waits with it; deletes are refused as well."""
    refuse(jfk, "DELETE", "OLD.id = 2")
    run(hq, "DELETE FROM public.a WHERE id < 4", "INSERT INTO public.a VALUES (9)")
    report = {s.name: s for s in snapshots.refresh(jfk, "bank").snapshots}
    assert (report["a"].inserted, report["a"].deleted) == (1, 2)
    assert report["a"].refused == {"not here": 1}
    assert run(jfk, "SELECT id FROM public.a ORDER BY id") == [(2,), (4,), (5,), (9,)]


def test_trigger_that_swallows_rows(hq, jfk):
    refuse(jfk, "UPDATE", "NEW.id = 3", how="RETURN NULL")
    run(hq, "UPDATE public.a SET money = 7")
    report = {s.name: s for s in snapshots.refresh(jfk, "bank").snapshots}
    assert (report["a"].updated, report["a"].held_back) == (4, 1)
    assert "suppresses" in str(report["a"].refused)


def test_site_that_refuses_everything(hq, jfk, monkeypatch):
    """Looking for each row would take for ever: the refresh stops."""
    monkeypatch.setattr(search, "MOST_REFUSED", 3)
    refuse(jfk, "UPDATE", "true")
    run(hq, "UPDATE public.a SET money = 7", "UPDATE public.b SET money = 7")
    with pytest.raises(CannotMerge, match="not here"):
        snapshots.refresh(jfk, "bank")
    assert run(jfk, "SELECT sum(money) FROM public.b") == [(500,)]


def refuse(jfk, event, when, *, how="RAISE EXCEPTION ''not here''"):
    """Have a trigger of the site's own refuse rows of one kind."""
    run(
        jfk,
        "CREATE FUNCTION public.no() RETURNS trigger LANGUAGE plpgsql AS"
        f" 'BEGIN {how}; END'",
        f'CREATE TRIGGER no BEFORE {event} ON public."snap$_a"'
        f" FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION public.no()",
    )


def test_master_that_forgot_us(hq, jfk):
    run(hq, "DELETE FROM snaptide.registered_snapshot")
    run(hq, "UPDATE public.a SET money = 7")
    report = snapshots.refresh(jfk, "bank")
    assert {s.method for s in report.snapshots} == {"complete"}
    report = snapshots.refresh(jfk, "bank")
    assert {s.method for s in report.snapshots} == {"fast"}
    known = (
        "SELECT count(*) FROM snaptide.registered_snapshot WHERE position IS NOT NULL"
    )
    assert run(hq, known) == [(2,)]


def test_master_that_went_back(hq, jfk):
    run(jfk, "UPDATE snaptide.refresh_group SET position = '900000:900000:'")
    with pytest.raises(MasterChanged):
        snapshots.refresh(jfk, "bank")
    snapshots.refresh(jfk, "a,b", method="cc")
    report = snapshots.refresh(jfk, "bank")
    assert {s.method for s in report.snapshots} == {"fast"}
