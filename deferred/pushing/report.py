"""What a push reports, with the token that other sites wait for.

Programs that only read reports import nothing that pushes.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Self

from sites.errors import SnaptideError

#: A position (`sites.capture.position`).
_POSITION = re.compile(r"\d+:\d+:(\d+(,\d+)*)?", re.ASCII)


class NotAToken(SnaptideError):
    """This is no token of a push."""

    code = "SNP-456"
    hint = (
        "Take the token that a push reports: PushReport.token in Python, or token in "
        "snaptide push SITE --json. A push that found another push running has none."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What `snapshots.wait_for` waits for; its text is handed from site to site."""

    master: str
    #: of the master: a position means nothing in another state of it
    incarnation: uuid.UUID
    #: the master's, after the push
    position: str

    @classmethod
    def parse(cls, given: str) -> Self:
        """The token of a text.

        Raises:
            NotAToken: the text is none.
        """
        master, *rest = given.strip().rsplit("@", 2)
        if not master or len(rest) != 2 or not _POSITION.fullmatch(rest[1]):
            raise NotAToken(f"{given!r} is no token of a push.", given=given)
        try:
            incarnation = uuid.UUID(rest[0])
        except ValueError:
            raise NotAToken(f"{given!r} is no token of a push.", given=given) from None
        return cls(master=master, incarnation=incarnation, position=rest[1])

    def __str__(self) -> str:
        return f"{self.master}@{self.incarnation}@{self.position}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PushReport:
    """The result of a push."""

    site: str
    destination: str
    #: transactions the destination answered, applied and parked
    transactions: int = 0
    calls: int = 0
    #: transactions parked in the destination's error queue
    errors: int = 0
    error_ids: tuple[int, ...] = ()
    #: parked there only because a group of theirs is quiet; not among the errors
    held_back: int = 0
    conflicts_resolved: int = 0
    seconds: float = 0.0
    #: another pusher was at work, so this one did nothing
    another_pusher: bool = False
    #: it ended before the queue was empty, as it was told to
    unfinished: bool = False
    #: `snapshots.wait_for` waits with it until other sites show what this push, and
    #: those before it, have brought; None if another pusher was at work, or if a
    #: refresh found nothing to push
    token: str | None = None
