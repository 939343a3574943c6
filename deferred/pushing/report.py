"""What a push reports; programs that only read reports import nothing that pushes."""

from __future__ import annotations

from dataclasses import dataclass


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
