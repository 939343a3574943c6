"""The shapes that histories of conditions draw from."""

import snapshots
from tests.oracle.conditions import alter, logs, plans, schema
from tests.oracle.conditions.acts import ACTS

ALL = frozenset(
    {
        *plans.SHAPES,
        *alter.NAMES,
        *logs.NAMES,
        *schema.ACTIONS,
        *(f"{kind} key" for kind in schema.KINDS),
        *(f"{name} at {where}" for name in ACTS for where in ("hq", "a site")),
        *("no foreign key", "no index on a reference", "partitioned"),
        *("kill in a push", "kill in a refresh", "writes during a refresh"),
        *("held back", "held by a user", "parked", "resolved", "needs a parent"),
        *("refused by the check option at a site", "refused by a constraint at a site"),
        *("rows of a child came or left", "refreshed complete", "condition altered"),
        "condition altered with another",
        *("only a parent", "only a parent elsewhere", "put back"),
        *(f"leaving: {policy}" for policy in snapshots.Leaving),
    }
)
