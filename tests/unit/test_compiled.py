"""Compiled statements are kept for all sites, as many as were used last."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Compiled

from sites.sessions.prepared import Dialect, LastUsed

MOST = 2


def _compiled(number: int) -> Compiled:
    return sa.select(sa.literal(number)).compile()


def _dialect(*version: int) -> Dialect:
    made = Dialect()
    made.server_version_info = version
    return made


def test_what_was_not_used_for_longest_goes() -> None:
    cache, some = LastUsed[Compiled](MOST), [_compiled(number) for number in range(3)]
    cache["first"], cache["second"] = some[:2]
    assert cache["first"] is some[0]
    cache["third"] = some[2]
    assert sorted(cache) == ["first", "third"]
    assert cache.get("second") is None
    del cache["first"]
    assert dict(cache) == {"third": some[2]}


def test_threads_share_it() -> None:
    cache, one = LastUsed[Compiled](MOST), _compiled(1)

    def use(number: int) -> bool:
        cache[number] = one
        return cache.get(number) in (one, None) and len(cache) <= MOST

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(use, range(10_000)))
    assert len(cache) == MOST


class _Slow:
    """A key that is being looked up until it is let go."""

    def __init__(self) -> None:
        self.begun, self.ends = threading.Event(), threading.Event()

    def __hash__(self) -> int:
        self.begun.set()
        self.ends.wait(60)
        return 0


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_waits_for_a_thread_that_uses_it() -> None:
    cache, key = LastUsed[Compiled](MOST), _Slow()
    thread = threading.Thread(target=cache.get, args=[key])
    thread.start()
    assert key.begun.wait(60)
    threading.Timer(0.2, key.ends.set).start()
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        cache.get("nothing")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    thread.join()


def test_servers_of_two_versions_share_nothing() -> None:
    kept = {_dialect(18, 1): "of 18"}
    assert kept[_dialect(18, 1)] == "of 18"
    assert _dialect(16, 4) not in kept
    assert sa.dialects.postgresql.dialect() not in kept
