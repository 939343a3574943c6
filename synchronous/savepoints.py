"""Follows the savepoints of a coordinated transaction, so that its masters keep step.

They are read off the statements: those of SQLAlchemy and those that an application
writes come the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from deferred.control import BACK, RELEASE, SET
from synchronous.errors import TransactionControl


@dataclass(slots=True)
class Savepoints:
    """The savepoints that are set at the site, the oldest first."""

    names: list[str] = field(default_factory=list)

    @property
    def depth(self) -> int:
        """How many are set."""
        return len(self.names)

    def follow(self, statement: str) -> tuple[str, int] | None:
        """Note the effect of a statement that the site has executed.

        Returns:
            `set`, `release` or `back`, and the place of the savepoint, from 1;
            None if the statement is about no savepoint.

        Raises:
            TransactionControl: the savepoint was set past the coordinator.
        """
        if found := SET.match(statement):
            self.names.append(_folded(found["name"]))
            return "set", self.depth
        if found := BACK.match(statement):
            place = self._place(found["name"])
            del self.names[place:]
            return "back", place
        if found := RELEASE.match(statement):
            place = self._place(found["name"])
            del self.names[place - 1 :]
            return "release", place
        return None

    def _place(self, name: str) -> int:
        wanted = _folded(name)
        known = (n for n in range(self.depth, 0, -1) if self.names[n - 1] == wanted)
        place = next(known, None)
        if place is None:
            raise TransactionControl(
                f"Savepoint {name} was not set in a statement of its own."
            )
        return place


def _folded(name: str) -> str:
    if name.startswith('"'):
        return name[1:-1].replace('""', '"')
    return name.lower()
