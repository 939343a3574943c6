"""The master is the oracle: whatever happens, when it is quiet all sites agree.

`SNAPTIDE_ORACLE_EXAMPLES` and `SNAPTIDE_ORACLE_STEPS` set the size of a run,
`SNAPTIDE_ORACLE_SEED` repeats one (with `SNAPTIDE_ORACLE_SHRINK=1` looking for the
shortest way to its failure), and `SNAPTIDE_ORACLE_SECONDS` makes runs with new seeds
until the time is over (`make soak HOURS=8`).
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from deferred.pushing import batch_by_batch
from sites import Directory
from sites.sessions import identity
from snaptide import migrate
from snaptide.embedded import PostgresServer
from tests import seeds
from tests.fix_db import TEST_SETTINGS
from tests.fix_proxy import Proxy
from tests.oracle.machine import Machine
from tests.oracle.stage import Stage, random_name
from tests.oracle.story import Story
from tests.oracle.world import MASTER, SITES

EXAMPLES = int(os.environ.get("SNAPTIDE_ORACLE_EXAMPLES", "2"))
STEPS = int(os.environ.get("SNAPTIDE_ORACLE_STEPS", "20"))
SECONDS = float(os.environ.get("SNAPTIDE_ORACLE_SECONDS", "0"))
SEED = seeds.seed("SNAPTIDE_ORACLE_SEED")

PHASES = (
    (Phase.generate, Phase.shrink)
    if os.environ.get("SNAPTIDE_ORACLE_SHRINK")
    else (Phase.generate,)
)

_DEADLINE = time.monotonic() + SECONDS


@pytest.fixture
def stage(
    pg_version: int,
    make_proxy: Callable[[str], Proxy],
    spark: object,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Stage]:
    """Two servers of the oracle's own, with proxies before them."""
    # The users who hold rows wait until the push is over: it need not be patient.
    monkeypatch.setattr(batch_by_batch, "PAUSES", (0.01, 0.02))
    with ExitStack() as stack:
        master, branch = (stack.enter_context(_Server(pg_version)) for _ in range(2))
        servers = {MASTER: master, **dict.fromkeys(SITES, branch)}
        proxies = {s: make_proxy(s.url()) for s in (master, branch)}
        for server in (master, branch):
            _upgrade(server.create_database(_TEMPLATE))
        yield Stage(
            servers=servers,
            proxies={name: proxies[server] for name, server in servers.items()},
            make_site=_make_site,
            story=Story(),
        )


class _Server(ExitStack):
    """A server that is gone at the end of the block."""

    def __init__(self, version: int) -> None:
        super().__init__()
        self._version = version

    def __enter__(self) -> PostgresServer:  # type: ignore[override]
        super().__enter__()
        folder = Path(tempfile.mkdtemp(prefix="snaptide-oracle-"))
        self.callback(shutil.rmtree, folder)
        server = PostgresServer(folder, self._version, settings=TEST_SETTINGS)
        self.callback(server.stop)
        server.start()
        return server


_TEMPLATE = "oracle"


def _upgrade(url: str) -> None:
    directory = Directory({"template": url})
    migrate.upgrade(directory["template"])
    with directory["template"].begin() as connection:
        connection.exec_driver_sql("DELETE FROM snaptide.site_identity")
    directory.close()


def _make_site(server: PostgresServer, name: str) -> str:
    url = server.create_database(random_name(name), template=_TEMPLATE)
    directory = Directory({name: url})
    with directory[name].transaction() as connection:
        identity.record(connection, name)
    directory.close()
    return url


@pytest.mark.timeout(max(900, SECONDS + 900))
def test_all_agree_when_it_is_quiet(stage: Stage) -> None:
    for number in itertools.count(SEED):
        _say(f"SNAPTIDE_ORACLE_SEED={number} SNAPTIDE_ORACLE_STEPS={STEPS}")
        _run(stage, number)
        if time.monotonic() > _DEADLINE:
            break
    for what, times in sorted(stage.story.counts.items()):
        _say(f"{times:8} {what}")


def _run(stage: Stage, number: int) -> None:
    @seed(number)
    class Seeded(Machine):
        def __init__(self) -> None:
            super().__init__(stage)

    try:
        run_state_machine_as_test(
            Seeded,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                database=None,
                phases=PHASES,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
                print_blob=False,
            ),
        )
    except BaseException:
        _say(f"the last run, seed {number}:\n{stage.story}")
        raise


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
