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
    names = [f"t{n}" for n in range(3)]
    run(hub, *(f"CREATE TABLE {name} (id int PRIMARY KEY)" for name in names))
    masters = [f"m{n}" for n in range(90)]
    routes = {to: ["", *({*masters} - {to})] for to in masters}
    with hub.transaction() as connection:
        tables = [describe(connection, QualifiedName("public", name)) for name in names]
        wanted = [(table, carried(table)) for table in tables]
        table_queue.arrange(connection, uuid.uuid4(), wanted, routes, "queue")
    assert scalar(hub, "SELECT count(*) FROM snaptide.route") == 3 * 90 * 90
