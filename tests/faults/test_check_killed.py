"""A site, a master or Spark dies in the middle of a check."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

import snapshots
from sites import Directory, Site
from sites.errors import SiteUnreachable
from snapshots.check.reader import Reader
from snapshots.differences import difference
from snaptide import migrate
from snaptide.cli import app
from snaptide.embedded import PostgresServer
from tests.fix_sites import log
from tests.fix_worker import WriteSettings
from tests.linked_table import as_refresh, run
from tests.processes import ended
from tests.stories import refresh

pytestmark = pytest.mark.usefixtures("spark")

Make = Callable[..., Directory]


def fill(sites: Directory) -> Directory:
    """A snapshot, with one row that differs without a reason."""
    hq, jfk = sites["hq"], sites["jfk"]
    run(
        hq,
        "CREATE TABLE public.t (id int PRIMARY KEY, note text)",
        "INSERT INTO public.t SELECT g, 'n' || g FROM generate_series(1, 99) g",
    )
    log(hq, "t")
    snapshots.create(jfk, "t", master="hq", updatable=True)
    refresh(jfk, "t")
    as_refresh(jfk, "UPDATE public.\"snap$_t\" SET note = 'x' WHERE id = 7")
    return sites


def with_own(make_sites: Make, server: PostgresServer, name: str) -> Directory:
    """Both sites; one of them is on a server that the test may kill."""
    other = {"hq": "jfk", "jfk": "hq"}[name]
    return fill(beside(make_sites(other), server, name))


def beside(others: Directory, server: PostgresServer, name: str) -> Directory:
    """These sites and one on a server that the test may kill."""
    urls = {one: url(site) for one, site in others.items()}
    sites = Directory({**urls, name: server.create_database(name)})
    migrate.upgrade(sites[name])
    return sites


def url(site: Site) -> str:
    found = site.url.set(drivername="postgresql")
    return found.render_as_string(hide_password=False)


@contextmanager
def killed_at(server: PostgresServer, module: Any, name: str) -> Iterator[None]:
    """Within the block, the server dies before each call of a function."""
    honest = getattr(module, name)

    def killing(*arguments: Any, **options: Any) -> Any:
        server.kill()
        return honest(*arguments, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, name, killing)
        yield


#: What would hold back a vacuum, or another's lock.
IDLE = """
SELECT query FROM pg_stat_activity WHERE datname = current_database()
AND pid <> pg_backend_pid() AND (xact_start IS NOT NULL OR backend_xmin IS NOT NULL)
AND backend_type = 'client backend'
"""


def assert_nothing_open(sites: Directory) -> None:
    for site in sites.values():
        assert run(site, IDLE) == []


@pytest.mark.parametrize("dies", ["hq", "jfk"])
@pytest.mark.parametrize(
    ("module", "name", "large"),
    [
        (Reader, "differing", False),
        (difference, "rows", False),
        (difference, "many_rows", True),
    ],
)
def test_a_server_dies(
    make_sites: Make,
    own_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    write_settings: WriteSettings,
    dies: str,
    module: Any,
    name: str,
    large: bool,
) -> None:
    sites = with_own(make_sites, own_server, dies)
    config = str(write_settings(sites))
    if large:
        monkeypatch.setattr("snapshots.differences.comparison.SMALL_WINDOW", 0)
        monkeypatch.setattr("snapshots.differences.comparison.ALWAYS_FEW", 0)
    with killed_at(own_server, module, name):
        with pytest.raises(SiteUnreachable, match=f"Site {dies} stopped answering"):
            snapshots.check(sites["jfk"])
        own_server.start()
        done = CliRunner().invoke(app, ["--config", config, "check", "jfk"])
    assert (done.exit_code, "SNP-" in done.stderr) == (4, True)
    own_server.start()
    assert_nothing_open(sites)
    assert snapshots.check(sites["jfk"]).unexplained == 1
    sites.close()


_PROGRAM = """
import signal
from pyspark import SparkContext
import snapshots
from snapshots.spark import diff
from snapshots.spark.errors import SparkError

honest = diff.small_rows
def killed(*arguments):
    jvm = SparkContext._gateway.proc
    os.kill(jvm.pid, signal.SIGKILL)
    jvm.wait()
    return honest(*arguments)
diff.small_rows = killed
try:
    snapshots.check(sites["jfk"])
except SparkError as error:
    print(error.code)
diff.small_rows = honest
print(snapshots.check(sites["jfk"]).unexplained)
sites.close()
"""


def test_spark_dies(sites: Directory) -> None:
    """In a process of its own: others of this run use this one's session."""
    fill(sites)
    done = ended(_PROGRAM, sites)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["SNP-280", "1"]
    assert_nothing_open(sites)
