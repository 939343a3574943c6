"""A first load beside the server, and beside a process that was believed dead."""

import threading

import pytest

import snapshots
from sites import Directory
from snapshots.definitions import snapshot
from snapshots.refreshing import first_load
from snapshots.spark import claims
from tests.fix_moments import Moments
from tests.fix_sites import log
from tests.fix_worlds import prepared_once
from tests.linked_table import run
from tests.stories import refresh, user

pytestmark = pytest.mark.usefixtures("spark")

WAITS = (
    "SELECT FROM pg_locks WHERE NOT granted"
    " AND relation = 'public.\"snap$_t\"'::regclass"
    # Longer than a merge waits for users.
    " AND waitstart < clock_timestamp() - interval '300 ms'"
)


@prepared_once("hq", "jfk")
def waiting(sites: Directory) -> None:
    """A snapshot of nine rows that waits for its first load."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY)",
        "INSERT INTO public.t SELECT generate_series(1, 9)",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq")


def test_autovacuum_at_the_loaded_table_is_waited_for(
    waiting: Directory, moments: Moments
) -> None:
    jfk = waiting["jfk"]
    locked, ended = threading.Event(), threading.Event()

    def count_rows() -> None:
        with user(jfk) as session:
            # As VACUUM and ANALYZE hold it.
            table = 'public."snap$_t"'
            session.execute(f"LOCK TABLE {table} IN SHARE UPDATE EXCLUSIVE MODE")
            locked.set()
            while not run(jfk, WAITS) and not ended.wait(0.01):
                pass

    server = threading.Thread(target=count_rows)

    def begin() -> None:
        server.start()
        assert locked.wait(90)

    moments.at("refresh.after_stage", begin)
    try:
        assert refresh(jfk, "t")["t"].inserted == 9
    finally:
        ended.set()
        server.join()


def test_a_table_that_another_process_empties_is_not_taken_for_loaded(
    waiting: Directory, moments: Moments
) -> None:
    """The lock of a refresh goes with its session, and the next one begins anew."""
    jfk = waiting["jfk"]

    def another_begins() -> None:
        with jfk.transaction() as connection:
            found = snapshot.read(connection, "t")
            first_load.begin(connection, found, claims.load_of(found.base, "later"))

    moments.at("refresh.after_stage", another_begins)
    assert refresh(jfk, "t")["t"].inserted == 9
    assert run(jfk, "SELECT count(*) FROM public.t") == [(9,)]
    assert moments.reached.count("refresh.after_stage") == 2  # it has begun again
    assert run(jfk, "SELECT 1 FROM snaptide.load_range") == []


def test_a_snapshot_that_is_dropped_ends_its_load(waiting: Directory) -> None:
    jfk = waiting["jfk"]
    with jfk.transaction() as connection:
        found = snapshot.read(connection, "t")
        first_load.begin(connection, found, claims.load_of(found.base, "dead"))
    snapshots.drop(jfk, "t")
    assert run(jfk, "SELECT 1 FROM snaptide.load_range") == []
