"""DDL at the master: what no trigger on rows sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from psycopg import errors
from sqlalchemy.exc import DBAPIError

from sites import Site
from tests.linked_table import run
from tests.oracle.conditions.schema import Schema
from tests.oracle.story import Story

NAMES = ("truncate", "type using", "attach", "detach", "column added")


@dataclass(frozen=True, slots=True)
class Alteration:
    """A statement, and the tables that no fast refresh can follow after it."""

    name: str
    statement: str
    touches: set[str]

    def done(self, master: Site, story: Story) -> bool:
        """Whether it was done: rows may refer to a partition, or to none."""
        story.tell(f"hq: {self.statement}")
        try:
            run(master, self.statement)
        except _REFUSED as error:
            story.tell(f"  {str(error).splitlines()[0]}")
            return False
        return True


_REFUSED = (errors.IntegrityError, errors.ProgrammingError, DBAPIError)


def alterations(schema: Schema, chance: Random) -> Iterator[Alteration]:
    """What is altered before a round; most often nothing."""
    drawn, table = chance.random(), chance.choice(schema.tables)
    name = table.name
    if drawn < 0.03:
        emptied = schema.emptied_with(name)
        yield Alteration("truncate", f"TRUNCATE {name} CASCADE", emptied)
    elif drawn < 0.1:
        change = f"ALTER TABLE {name} ALTER v TYPE int USING 3 - v"
        yield Alteration("type using", change, {name})
    elif drawn < 0.13:
        change = f"ALTER TABLE {name} ADD IF NOT EXISTS added int DEFAULT 7"
        yield Alteration("column added", change, {name})
    for one in schema.tables:
        drawn = chance.random()
        if one.partitioned and drawn < 0.2:
            yield Alteration("attach", one.attach(), {one.name})
        elif one.partitioned and drawn < 0.35:
            yield Alteration("detach", one.detach(), {one.name})
