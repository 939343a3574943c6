"""Checking the rules of a master, with the topology that its catalog knows."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import select

from masters.analysis import convergence, stamps
from masters.analysis.convergence import Finding, Topology
from masters.catalog import registered_snapshot
from masters.rules import list_rules
from sites import QualifiedName, Site
from sites.sessions import identity


def check_site(
    site: Site, masters: int | Mapping[QualifiedName, int] = 1
) -> list[Finding]:
    """Find tables that may stay different for ever by the rules of a master, and why.

    Also finds rules that decide by stamps that nothing sets, or that a trigger sets
    anew.

    Parameters:
        masters: how many masters all tables have, or each table has; a table that is
            not named has one. The catalog knows the snapshots.
    """
    snapshot = registered_snapshot.c
    with identity.initialised(site) as connection:
        rows = connection.execute(
            select(snapshot.table_schema, snapshot.table_name, sa.func.count())
            .where(snapshot.updatable)
            .group_by(snapshot.table_schema, snapshot.table_name)
        )
        updatable = {QualifiedName(schema, name): count for schema, name, count in rows}
    rules = list_rules(site)
    return stamps.check(site, rules) + convergence.check(
        rules,
        {
            one.table: Topology(
                masters=(
                    masters if isinstance(masters, int) else masters.get(one.table, 1)
                ),
                snapshots=updatable.get(one.table, 0),
            )
            for one in rules
        },
    )
