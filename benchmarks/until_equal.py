"""Changes on both sides, some of them in conflict, until both sides are equal."""

from __future__ import annotations

from sqlalchemy import text

import masters
import snapshots
from benchmarks.by_hand import pipe
from benchmarks.conflicts import BOOK
from benchmarks.pairs import Against, Result, Side, alternate
from benchmarks.setting import COLUMNS, NAMES, create_orders, directory, tidy, warm
from masters.rules import rulebook
from sites import Directory

#: Of the rows that each side changes, those that both do; the later change wins.
BOTH = 0.1

_IMAGES = (
    "COPY (SELECT b.* FROM changed c JOIN bare b USING (id)) TO STDOUT (FORMAT binary)"
)
_WRITE = (
    "UPDATE bare b SET {} FROM stage s"
    " WHERE b.id = s.id AND s.updated_at > b.updated_at"
).format(", ".join(f"{name} = s.{name}" for name in NAMES[1:]))


def run(changed: int) -> list[Result]:
    """A push and a refresh, against rows that go each way by hand."""
    with directory("hq", "jfk") as sites:
        _prepare(sites, rows=10 * changed)
        return alternate(
            f"{changed:,} rows changed on each side, {int(changed * BOTH):,} by both",
            Side(
                label="push and refresh",
                run=lambda: snapshots.refresh(sites["jfk"], "orders"),
                before=lambda: _change(sites, changed, "orders"),
            ),
            Against(
                side=Side(
                    label="by hand, there and back",
                    run=lambda: _by_hand(sites),
                    before=lambda: _change(sites, changed, "bare"),
                ),
                bar=2.5,
            ),
        )


def _prepare(sites: Directory, rows: int) -> None:
    plain = COLUMNS.replace(" PRIMARY KEY", "")
    with sites["hq"].begin() as connection:
        create_orders(connection, rows)
    for site in sites.values():
        with site.begin() as connection:
            create_orders(connection, rows, "bare")
            connection.execute(text("CREATE TABLE public.changed (id int)"))
            connection.execute(text(f"CREATE UNLOGGED TABLE public.stage ({plain})"))
    for table in ("orders", "bare"):
        masters.create_snapshot_log(sites["hq"], table)
    rulebook.apply(sites["hq"], BOOK)
    snapshots.create(sites["jfk"], "orders", master="hq", updatable=True)
    snapshots.refresh(sites["jfk"], "orders")
    warm()


def _change(sites: Directory, changed: int, table: str) -> None:
    """The site changes the first rows, the master those from where both do."""
    _equal(sites, table)
    first = changed - int(changed * BOTH)
    change = (
        f"WITH touched AS (UPDATE public.{table} SET qty = qty + 1,"
        " updated_at = now() + id % 2 * interval '1 hour'"
        " WHERE id > :after AND id <= :after + :changed RETURNING id)"
        " INSERT INTO public.changed SELECT id FROM touched"
    )
    for name, after in (("jfk", 0), ("hq", first)):
        with sites[name].begin() as connection:
            connection.execute(text("TRUNCATE public.changed"))
            rows = {"after": after, "changed": changed}
            connection.execute(text(change), rows)
    masters.purge_snapshot_logs(sites["hq"])
    for site in sites.values():
        own = '"snap$_orders"' if (table, site.name) == ("orders", "jfk") else table
        tidy(site, f"public.{own}")


def _by_hand(sites: Directory) -> None:
    """The site's rows there, those of the master back; both know which."""
    pipe(sites["jfk"], sites["hq"], _IMAGES, [_WRITE])
    pipe(sites["hq"], sites["jfk"], _IMAGES, [_WRITE])


def _equal(sites: Directory, table: str) -> None:
    """What was measured has done its work."""
    whole = f"SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM public.{table} t"
    found = set()
    for site in sites.values():
        with site.begin() as connection:
            found.add(connection.scalar(text(whole)))
    assert len(found) == 1
