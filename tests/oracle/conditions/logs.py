"""Partition columns of the master's logs: some have them, and they change meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import masters
from sites import Site
from tests.oracle.conditions.schema import Schema
from tests.oracle.story import Story

NAMES = ("partition columns", "partition columns altered")

#: What conditions compare with constants, and what they do not.
_ASKED, _OTHERS = ("v", "w", "t"), ("h", "note")


@dataclass
class Logs:
    """Declares partition columns.

    It has a chance of its own, so that the histories stay what they are.
    """

    hq: Site
    schema: Schema
    story: Story
    chance: Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = Random(repr(self.schema))

    def create(self) -> set[str]:
        """Create the log of each table."""
        met: set[str] = set()
        for table in self.schema.names:
            columns = self._drawn()
            self.story.tell(f"hq: log of {table}, partition columns {columns}")
            masters.create_snapshot_log(self.hq, table, partition_columns=columns)
            met |= {NAMES[0]} if columns else set()
        return met

    def alter(self) -> set[str]:
        """Declare others for a table, now and then."""
        if self.chance.random() > 0.2:
            return set()
        table, columns = self.chance.choice(self.schema.names), self._drawn()
        self.story.tell(f"hq: {table} has the partition columns {columns}")
        masters.alter_snapshot_log(self.hq, table, partition_columns=columns)
        return {NAMES[1]}

    def _drawn(self) -> list[str]:
        few = self.chance.random() < 0.2
        drawn = self.chance.sample(_OTHERS if few else _ASKED, k=2)
        more = self.chance.choice(("v", "w", "t", "h"))
        drawn += [more] if more not in drawn else []
        return drawn[: self.chance.choice((0, 1, 2, 3, 3, 3))]
