"""Sites by the hundred of one master, each with the rows of a branch.

Nothing is copied over the network: all of them are copies of a database that has an
empty snapshot, get the rows that their master has of a branch, and are registered there
by one statement. Their server neither waits for its disk nor cleans up beside the work:
in life each of them has a machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import text

import masters
import snapshots
from benchmarks.setting import directory
from sites import Directory, Site
from sites.configured import Configuration, configure
from sites.sessions import identity

_TABLE = (
    "CREATE TABLE public.orders (id int PRIMARY KEY, branch int, qty int, note text)",
    "INSERT INTO public.orders SELECT {row} FROM generate_series(1, {rows}) g",
    "CREATE INDEX ON public.orders (branch)",
    "VACUUM ANALYZE public.orders",
)
_ROW = "g, g % {branches}, g % 50, md5(g::text)"

_AS_BRANCH = (
    # As a refresh says that it writes.
    (
        "SELECT set_config('snaptide.origin', 'hq', false),"
        " set_config('snaptide.writing', CAST(CAST(CAST('public.\"snap$_orders\"'"
        " AS regclass) AS oid) AS text), false)"
    ),
    "UPDATE snaptide.snapshot SET condition = '(branch = {number})'",
    "DELETE FROM snaptide.peer",
    (
        'INSERT INTO public."snap$_orders" SELECT {row} FROM generate_series('
        "CASE {number} WHEN 0 THEN {branches} ELSE {number} END, {rows}, {branches}) g"
    ),
    'ANALYZE public."snap$_orders"',
)

_REGISTER = (
    "INSERT INTO snaptide.registered_snapshot SELECT (json_populate_record(r,"
    " json_build_object('site_id', s.id, 'site_name', s.name))).*"
    " FROM snaptide.registered_snapshot r,"
    " unnest(CAST(:ids AS uuid[]), CAST(:names AS text[])) s(id, name)"
)

#: Of the server of all sites.
_LIGHT = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}


@contextmanager
def cloned(count: int, rows: int) -> Iterator[tuple[Site, list[Site]]]:
    """A master with this many rows, and its sites."""
    names = [f"site{number:04}" for number in range(count)]
    row = _ROW.format(branches=count)
    with directory("hq") as there:
        hq = there["hq"]
        _run(hq, *(one.format(rows=rows, row=row) for one in _TABLE))
        masters.create_snapshot_log(hq, "orders", partition_columns=["branch"])

        def prepare(first: Directory) -> None:
            with Directory({"hq": hq.url, names[0]: first[names[0]].url}) as both:
                configure(Configuration(directory=both))
                where = f"branch = {count}"
                snapshots.create(both[names[0]], "orders", master="hq", where=where)
                snapshots.refresh(both[names[0]], "orders")

        most = str(4 * count + 100)
        with directory(*names, prepare=prepare, max_connections=most, **_LIGHT) as here:
            for number, site in enumerate(here.values()):
                given = {"number": number, "branches": count, "rows": rows, "row": row}
                _run(site, *(one.format(**given) for one in _AS_BRANCH))
            _register(hq, [*here.values()])
            urls = {one.name: one.url for one in (hq, *here.values())}
            with Directory(urls) as both:
                configure(Configuration(directory=both))
                yield both["hq"], [both[name] for name in names]


def _run(site: Site, *statements: str) -> None:
    with site.connect() as connection:
        alone = connection.execution_options(isolation_level="AUTOCOMMIT")
        for statement in statements:
            alone.execute(text(statement))
    site.close()


def _register(hq: Site, sites: Sequence[Site]) -> None:
    """Register all sites as the first one is, and forget whom the master has met."""
    ids = []
    for site in sites:
        with site.session() as connection:
            ids.append(str(identity.read(connection).site_id))
        site.close()
    given = {"ids": ids[1:], "names": [site.name for site in sites[1:]]}
    with hq.begin() as connection:
        connection.execute(text(_REGISTER), given)
        connection.execute(text("DELETE FROM snaptide.peer"))
