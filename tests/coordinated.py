"""What tests of synchronous propagation share."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sites import Site
from tests.linked_table import run

ROOT = Path(__file__).resolve().parents[1]
_COORDINATOR = """
import json, sys
from sqlalchemy import text
import deferred
from sites import Directory
sites = Directory(json.loads(sys.argv[1]))
with deferred.synchronous(sites["jfk"]) as connection:
    connection.execute(text("UPDATE orders SET qty = qty - 1 WHERE id = 1"))
    connection.execute(text("UPDATE orders SET qty = qty + 1 WHERE id = 2"))
"""


def coordinate(sites: Mapping[str, Site], fault: str = "") -> int:
    """Move one from an order to another in a process of its own; how that ended."""
    urls = {n: s.url.render_as_string(hide_password=False) for n, s in sites.items()}
    return subprocess.run(
        [sys.executable, "-c", _COORDINATOR, json.dumps(urls)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "SNAPTIDE_FAULT": fault},
        check=False,
    ).returncode


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


def quantities(site: Site, table: str = "orders") -> dict[int, Any]:
    """Key and quantity of each row."""
    return dict(run(site, f"SELECT id, qty FROM {table} ORDER BY id"))


def _count(site: Site, query: str) -> int:
    return int(run(site, query)[0][0])
