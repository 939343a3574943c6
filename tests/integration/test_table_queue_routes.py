"""The queues of a group's tables have as many routes as its paths make of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from groups import table_queue
from groups.shape import carried
from sites import Directory
from sites.names import QualifiedName
from sites.tables.table import describe
from tests.linked_table import run, scalar


def test_more_routes_than_a_statement_takes_values(
    make_sites: Callable[..., Directory],
) -> None:
    """As the middle of a star has: each change of each master to each other."""
    [hub] = make_sites("hub").values()
    run(hub, "CREATE TABLE t (id int PRIMARY KEY)")
    masters = [f"m{n}" for n in range(150)]
    routes = {to: ["", *({*masters} - {to})] for to in masters}
    group = uuid.uuid4()
    with hub.transaction() as connection:
        table = describe(connection, QualifiedName("public", "t"))
        wanted = [(table, carried(table))]
        table_queue.arrange(connection, group, wanted, routes, "queue")
    assert scalar(hub, "SELECT count(*) FROM snaptide.route") == 150 * 150

    *kept, gone = masters
    fewer = {to: [one for one in routes[to] if one != gone] for to in kept}
    with hub.transaction() as connection:
        table_queue.arrange(connection, group, wanted, fewer, "queue")
    assert scalar(hub, "SELECT count(*) FROM snaptide.route") == 149 * 149
