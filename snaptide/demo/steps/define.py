"""Step: defines snapshot logs, resolution rules and snapshots."""

from __future__ import annotations

import masters
import snapshots
from masters import rules
from sites import Site
from snaptide.demo.data import TABLES
from snaptide.demo.servers import MASTER
from snaptide.demo.world import World

#: The refresh group of each airport.
GROUP = "airport"

UPDATABLE = ("flights", "weather")

#: Column group -> columns, method, parameters. A column in no group (such as `tailnum`)
#: has no rule, so that a person must settle its conflicts.
RULES: dict[str, tuple[list[str], str, dict[str, object]]] = {
    "times": (
        ["dep_time", "dep_delay", "updated_at"],
        "latest_timestamp",
        {"column": "updated_at"},
    ),
    "gate": (
        ["gate"],
        "site_priority",
        {"priorities": {"jfk": 3, "lga": 3, "ewr": 3, MASTER: 1}},
    ),
    "seats": (["seats_sold"], "additive", {}),
}


def tell(world: World) -> None:
    """Define everything through the Python API; no rows are copied yet."""
    for table in TABLES:
        masters.create_snapshot_log(world.hq, table)
    _set_rules(world.hq)
    for site in world.airports:
        _create_snapshots(site)
    world.screen.table(
        ["column group of flights", "columns", "conflicts are settled by"],
        [(name, columns, method) for name, (columns, method, _) in RULES.items()],
    )
    world.screen.say("")
    world.screen.table(
        ["at each airport", "rows", "users may change it"],
        [
            (table, f"WHERE {_where('jfk')}", True)
            if table in UPDATABLE
            else (table, "all", False)
            for table in TABLES
        ],
    )


def _set_rules(master: Site) -> None:
    for group, (columns, method, parameters) in RULES.items():
        rules.set_column_group(master, "flights", group, columns)
        rules.add_update_resolution(
            master, "flights", group, method, parameters=parameters
        )


def _create_snapshots(site: Site) -> None:
    for table in TABLES:
        updatable = table in UPDATABLE
        snapshots.create(
            site,
            table,
            master=MASTER,
            group=GROUP,
            where=_where(site.name) if updatable else None,
            updatable=updatable,
        )


def _where(site: str) -> str:
    return f"origin = '{site.upper()}'"
