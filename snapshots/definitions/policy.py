"""What becomes of rows that leave the condition of a snapshot."""

from __future__ import annotations

from enum import StrEnum

from snapshots.definitions.errors import NothingToHold, UnknownPolicy


class Leaving(StrEnum):
    """What becomes of a row that leaves a snapshot's condition."""

    #: It goes; one with changes that the master has not answered goes after that.
    DRAIN = "drain"
    #: As drain; when it goes, its values are kept aside until someone removes them.
    KEEP = "keep"
    #: As drain; until it goes, it can be read and not be changed.
    FREEZE = "freeze"
    #: It goes at once; changes of it that no master has are withdrawn from the queue.
    PARK = "park"

    @classmethod
    def named(cls, name: Leaving | str, *, updatable: bool) -> Leaving:
        """The policy of that name, for a snapshot that users may or may not change.

        Raises:
            UnknownPolicy: there is none.
            NothingToHold: it is about changes that users of the site make.
        """
        if name not in {*cls}:
            raise UnknownPolicy(
                f"{name!r} is not a policy for rows that leave; there are: "
                f"{', '.join(cls)}."
            )
        if name in _OF_CHANGES and not updatable:
            raise NothingToHold(
                f"{name} is about changes of the site, and the snapshot is read-only."
            )
        return cls(name)


#: Policies that make no difference where nobody changes rows.
_OF_CHANGES = {Leaving.FREEZE, Leaving.PARK}
