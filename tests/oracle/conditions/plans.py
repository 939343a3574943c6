"""Which snapshots a site has: of every table one, and some more of conditions alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tests.oracle.conditions.schema import Reference, Schema, same
from tests.oracle.conditions.trees import SHAPES as TREES
from tests.oracle.conditions.trees import Writer


@dataclass(frozen=True, slots=True)
class Plan:
    """A snapshot to be made, and the rows that it has to have.

    Parameters:
        defined: its whole condition, with what it follows; None for all rows.
        where, follow: as it is created.
    """

    name: str
    table: str
    defined: str | None
    where: str | None
    follow: tuple[str, ...]
    asks: frozenset[str]
    updatable: bool
    met: frozenset[str] = field(repr=False)


def draw(schema: Schema, chance: Random) -> list[Plan]:
    """Draw the snapshots of a site, parents first."""
    found: list[Plan] = []
    for table in schema.names:
        # Children may ask a table that the site has nothing of.
        if chance.random() < 0.85:
            found.append(drawn(schema, chance, table, found))
    for number in range(chance.choice((0, 1, 1, 2))):
        table = chance.choice(schema.names[1:])
        made = drawn(schema, chance, table, found)
        found.append(replace(made, name=f"x{number}", updatable=False))
    return found


def drawn(schema: Schema, chance: Random, table: str, others: Sequence[Plan]) -> Plan:
    """Draw a snapshot.

    Parameters:
        others: that the site has already.
    """
    parents = {one.table: one for one in others if one.name == one.table}
    writer = Writer(
        schema,
        chance,
        {name: one.defined for name, one in parents.items() if one.defined},
        {name: one.asks for name, one in parents.items()},
    )
    share, updatable = chance.random(), chance.random() < 0.85
    followed = _followed(schema, chance, table, parents) if share < 0.35 else ()
    where = None
    alone = chance.random() < 0.3 or not schema[table].references
    if share < 0.8 if not followed else share < 0.1:
        where = writer.leaf(table) if alone else writer.tree(table)
    parts = [_parent(one, parents[one.target]) for one in followed]
    parts += [f"({where})"] if where else []
    asks = {name for one in followed for name in _asked(parents[one.target])}
    several = {"two parents"} if len(asks | writer.asks) > 1 else set()
    return Plan(
        name=table,
        table=table,
        defined=" AND ".join(parts) or None,
        where=where,
        follow=tuple(_named(schema, chance, one) for one in followed),
        asks=frozenset(asks | writer.asks),
        updatable=updatable,
        met=frozenset({*writer.met, *several, *FOLLOWS[: len(followed)]}),
    )


FOLLOWS = ("follow", "follow two")


def _followed(
    schema: Schema, chance: Random, table: str, parents: dict[str, Plan]
) -> tuple[Reference, ...]:
    known = [
        one
        for one in schema[table].references
        if one.actions is not None and not one.to_itself and one.target in parents
    ]
    chance.shuffle(known)
    return tuple(known[: 1 if chance.random() < 0.7 else 2])


def _named(schema: Schema, chance: Random, one: Reference) -> str:
    """What `follow` may call a reference."""
    others = [r.target for r in schema[one.table].references if r.actions is not None]
    names = [one.constraint, *one.columns]
    # A column may be called like a table.
    if others.count(one.target) == 1:
        names.append(one.target)
    return chance.choice(names)


def _parent(one: Reference, plan: Plan) -> str:
    pair = same(one.target, one.keyed, one.table, one.columns)
    asked = f" AND ({plan.defined})" if plan.defined else ""
    return f"EXISTS (SELECT FROM {one.target} WHERE {pair}{asked})"


def _asked(plan: Plan) -> set[str]:
    return {plan.table, *plan.asks}


SHAPES = TREES | {"two parents", *FOLLOWS, "read-only", "updatable"}


def shapes(plans: Sequence[Plan]) -> set[str]:
    """What is worth counting about the snapshots of a site."""
    return {shape for plan in plans for shape in plan.met}
