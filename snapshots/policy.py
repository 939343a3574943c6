"""What becomes of rows that leave the condition of a snapshot."""

from __future__ import annotations

from enum import StrEnum

from snapshots.errors import UnknownPolicy


class Leaving(StrEnum):
    """What becomes of a row that leaves a snapshot's condition."""

    #: It goes; one with changes that the master has not answered goes after that.
    DRAIN = "drain"

    @classmethod
    def named(cls, name: Leaving | str) -> Leaving:
        """The policy of that name.

        Raises:
            UnknownPolicy: there is none.
        """
        if name not in {*cls}:
            raise UnknownPolicy(
                f"{name!r} is not a policy for rows that leave; there are: "
                f"{', '.join(cls)}."
            )
        return cls(name)
