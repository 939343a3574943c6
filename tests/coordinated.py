"""What tests of synchronous propagation share."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import text

import synchronous
from groups import unfinished
from sites import Directory, Site
from tests.let_go import wait_until_let_go
from tests.linked_table import run
from tests.processes import Elsewhere


def coordinate(sites: Mapping[str, Site], fault: str = "") -> int:
    """Move one from an order to another in a process of its own; how that ended."""
    urls = {n: s.url.render_as_string(hide_password=False) for n, s in sites.items()}
    status, _ = Elsewhere(_move_one, urls, fault=fault).end()
    wait_until_let_go(sites.values())
    return status


def left_over(sites: Mapping[str, Site]) -> dict[str, int]:
    """What a finished transaction must not leave: calls, prepared transactions."""
    found: dict[str, int] = {}
    for name, site in sites.items():
        found[f"transactions at {name}"] = _count(
            site, "SELECT count(*) FROM snaptide.deferred_transaction"
        )
        found[f"calls at {name}"] = _count(
            site, "SELECT count(*) FROM snaptide.defcall"
        )
        found[f"prepared at {name}"] = len(prepared(site))
    return {what: count for what, count in found.items() if count}


def prepared(site: Site) -> list[str]:
    """What is prepared in a site's database, ours or not."""
    rows = run(
        site,
        "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
        " ORDER BY prepared",
    )
    return [row[0] for row in rows]


def is_recovery_wanted(site: Site) -> bool:
    """Whether beat would ask for a recovery of a site."""
    with site.transaction() as connection:
        return unfinished.may_have_work(connection)


def quantities(site: Site, table: str = "orders") -> dict[int, Any]:
    """Key and quantity of each row."""
    return dict(run(site, f"SELECT id, qty FROM {table} ORDER BY id"))


def _move_one(urls: Mapping[str, str]) -> None:
    sites = Directory(urls)
    with synchronous.begin(sites["jfk"]) as connection:
        connection.execute(text("UPDATE orders SET qty = qty - 1 WHERE id = 1"))
        connection.execute(text("UPDATE orders SET qty = qty + 1 WHERE id = 2"))


def _count(site: Site, query: str) -> int:
    return int(run(site, query)[0][0])
