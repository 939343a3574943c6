"""A master is told to watch for transactions that may come by two ways."""

import threading
import time
import uuid
from collections.abc import Callable

from deferred.batches import marker
from groups.relay import duplicate_watch
from groups.relay.duplicate_watch import DuplicateWatch
from sites import Directory, Site
from tests.linked_table import run

LOCKED = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND wait_event_type = 'Lock'"
)


def test_sender_that_comes_for_the_first_time_is_watched_too(
    make_sites: Callable[..., Directory],
) -> None:
    """Its marker is made, and not committed, while the master is told."""
    master, sender = make_sites("hq")["hq"], uuid.uuid4()
    watch = DuplicateWatch(
        group_id=uuid.uuid4(),
        origin="jfk",
        first_no=800,
        end_no=900,
        alone=True,
        whole=True,
    )

    def add_watch() -> None:
        with master.session() as connection:
            duplicate_watch.watch_for(connection, [watch])

    with master.session() as first:
        assert marker.lock(first, sender, "lax")().watch_version == 0
        watching = threading.Thread(target=add_watch)
        watching.start()
        _wait_until_over_or_blocked(master, watching)
        first.commit()
        watching.join()
        assert marker.read(first, sender).watch_version == 1


def _wait_until_over_or_blocked(master: Site, running: threading.Thread) -> None:
    until = time.monotonic() + 90
    while time.monotonic() < until:
        if not running.is_alive() or run(master, LOCKED)[0][0]:
            return
        time.sleep(0.01)
    raise AssertionError("it neither ended nor waited for anybody")
