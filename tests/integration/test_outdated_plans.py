"""Triggers of users whose plans are of before a table was altered."""

import pytest
from sqlalchemy import text

import deferred
import snapshots
import synchronous
from deferred.errors import PushInterrupted
from sites import Directory, Site
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import as_refresh, link, parked, queued, rows, run

#: A session that has planned it with a text refuses it with another type.
LOOKS = (
    "CREATE TABLE public.mine (v text)",
    "INSERT INTO public.mine VALUES ('a')",
    """
    CREATE FUNCTION public.look() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        found record;
    BEGIN
        SELECT * INTO found FROM public.mine;
        IF found.v > 'b' THEN
            RAISE EXCEPTION 'not that';
        END IF;
        RETURN NEW;
    END $$
    """,
)
ON = (
    "CREATE TRIGGER looks BEFORE INSERT OR UPDATE ON {}"
    " FOR EACH ROW EXECUTE FUNCTION public.look()"
)
ALTERED = "ALTER TABLE public.mine ALTER v TYPE varchar(9)"
INSERT = "INSERT INTO orders (id, qty) VALUES ({}, 1)"


@prepared_once("hq", "jfk")
def linked(sites: Directory) -> None:
    """The table `orders` at both sites; users of the master have a trigger on it."""
    link(sites)
    looking(sites["hq"], "orders")


@prepared_once("hq", "jfk")
def coordinated(sites: Directory) -> None:
    """The same, propagated synchronously."""
    link(sites, synchronous=True)
    looking(sites["hq"], "orders")


def looking(site: Site, table: str) -> None:
    """Give a table the trigger."""
    for statement in (*LOOKS, ON.format(table)):
        run(site, statement)


def ids(site: Site) -> list[int]:
    """The keys of all orders."""
    return [row[0] for row in rows(site)]


def test_push(linked: Directory) -> None:
    hq, jfk = linked["hq"], linked["jfk"]
    for number, altered in ((1, ALTERED), (2, ALTERED.replace("9", "8")), (3, "")):
        run(jfk, INSERT.format(number))
        report = deferred.push(jfk)
        assert (report.transactions, report.errors) == (1, 0)
        if altered:
            run(hq, altered)
    assert ids(hq) == [1, 2, 3]


def test_push_that_fails_in_new_sessions_too(linked: Directory) -> None:
    hq, jfk = linked["hq"], linked["jfk"]
    body = "RAISE EXCEPTION 'never' USING ERRCODE = '42804'; RETURN NEW;"
    run(
        hq,
        "CREATE OR REPLACE FUNCTION public.look() RETURNS trigger LANGUAGE plpgsql"
        f" AS $$ BEGIN {body} END $$",
    )
    run(jfk, INSERT.format(1))
    with pytest.raises(PushInterrupted, match="never"):
        deferred.push(jfk)
    assert queued(jfk) == 1


def test_retry(linked: Directory) -> None:
    hq, jfk = linked["hq"], linked["jfk"]
    run(jfk, INSERT.format(1))
    deferred.push(jfk)
    as_refresh(hq, INSERT.format(2))
    run(jfk, INSERT.format(2))
    deferred.push(jfk)
    assert len(parked(hq)) == 1
    assert not deferred.retry_errors(hq)[0].applied
    as_refresh(hq, "DELETE FROM orders WHERE id = 2")
    run(hq, ALTERED)
    [report] = deferred.retry_errors(hq)
    assert report.applied, report.reason
    assert ids(hq) == [1, 2]


@pytest.mark.usefixtures("spark")
def test_refresh(sites: Directory) -> None:
    hq, jfk = sites["hq"], sites["jfk"]
    run(hq, "CREATE TABLE public.orders (id int PRIMARY KEY, qty int)")
    log(hq, "orders")
    snapshots.create(jfk, "orders", master="hq", group="g")
    snapshots.refresh(jfk, "g")
    run(jfk, *LOOKS, ON.format('public."snap$_orders"'))
    for number in range(5):
        run(hq, f"INSERT INTO public.orders VALUES ({number}, 1)")
        [done] = snapshots.refresh(jfk, "g").snapshots
        assert (done.inserted, done.held_back) == (1, 0)
        if number == 3:
            run(jfk, ALTERED)


def test_synchronous_change(coordinated: Directory) -> None:
    hq, jfk = coordinated["hq"], coordinated["jfk"]
    for numbers in ((1,), (2, 3)):
        with synchronous.begin(jfk) as connection:
            values = ", ".join(f"({number}, 1)" for number in numbers)
            connection.execute(text(f"INSERT INTO orders (id, qty) VALUES {values}"))
        run(hq, ALTERED)
    assert ids(hq) == ids(jfk) == [1, 2, 3]
