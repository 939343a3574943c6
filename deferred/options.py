"""The options of a push: Oracle's arguments, and how transactions are grouped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum, StrEnum


class ErrorAction(StrEnum):
    """What a push does with a transaction that fails (HVAR: error action)."""

    #: it is parked in the error queue, and the rest goes on
    QUEUE = "queue"
    #: it stays queued at the origin, and the push ends with an error
    STOP = "stop"
    #: its rows in conflict are parked in the error queue, the others are applied
    SKIP_ROW = "skip_row"
    #: it is parked, and its replication groups become quiet at the destination:
    #: transactions that touch them are held back there, and the rest goes on
    QUIET_GROUP = "quiet_group"
    #: as stop, and the destination is paused at this origin
    QUIET_DATABASE = "quiet_database"
    #: as stop, and all destinations of this origin are paused
    QUIET_SERVER = "quiet_server"


#: After these nothing more is pushed until an operator lets pushes go on.
QUIET = (ErrorAction.QUIET_DATABASE, ErrorAction.QUIET_SERVER)


#: Each stream takes a session at both ends.
MOST_STREAMS = 16

#: Streams take no group with more calls, because its shared rows are not looked up.
STREAM_CALLS = 10_000


class ValueKind(Enum):
    """The kind of an option's value; the texts are those of error messages."""

    YES_OR_NO = "true or false"
    WHOLE_NUMBER = "a whole number"
    NUMBER = "a number that is not negative"
    TEXT = "a text"
    NAMES = "a list of names"

    def holds(self, value: object) -> bool:
        """Whether a value is of this kind."""
        if self is ValueKind.YES_OR_NO or isinstance(value, bool):
            return self is ValueKind.YES_OR_NO and isinstance(value, bool)
        if self is ValueKind.NAMES:
            return isinstance(value, list | tuple) and all(
                isinstance(one, str) for one in value
            )
        if self is ValueKind.TEXT:
            return isinstance(value, str)
        if self is ValueKind.NUMBER:
            return isinstance(value, int | float) and value >= 0
        return isinstance(value, int)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The arguments of Oracle's DBMS_DEFER_SYS.EXECUTE and of HVAR's groups.

    Raises (on construction):
        ValueError: a number is negative or too large, or there is no such error action.
    """

    #: end the run at the first transaction that had to be parked
    stop_on_error: bool = False
    #: end after this many transactions; 0 is no limit
    transaction_count: int = 0
    #: end after this many seconds, between two commits; 0 is no limit
    execution_seconds: float = 0
    #: wait this long for new work before returning, when nothing is queued
    delay_seconds: float = 0
    #: apply transactions one by one, and commit at the destination only once more
    #: than this many calls have run; 0 leaves that to the groups
    batch_size: int = 0
    #: at most this many calls in a group (HVAR: dsi_compile_max_cmds); a transaction
    #: with more is applied alone; 0 and 1 apply each transaction by itself. Where
    #: several streams divide a batch, no more than `STREAM_CALLS`
    group_max_calls: int = 50_000
    #: at most this many bytes of images in a group (HVAR: dsi_cdb_max_size, there in
    #: megabytes); a transaction with more is applied alone; 0 is no limit
    group_max_bytes: int = 1024**3
    #: from this many net changes of one table on, they are shipped by COPY; fewer are
    #: sent as values of a statement (HVAR: dsi_bulk_threshold)
    bulk_threshold: int = 20
    #: a group that fails with fewer calls is not compiled again, but applied one
    #: transaction after the other (HVAR: dsi_compile_retry_threshold)
    retry_threshold: int = 100
    #: what to do with a transaction that cannot be applied
    error_action: ErrorAction = ErrorAction.QUEUE
    #: when so many of the site's transactions stand in the destination's error queue,
    #: all destinations of the site are paused (Ingres: EMX); 0 is no limit
    error_limit: int = 0
    #: master tables whose transactions are each applied alone, in order, by name
    #: (HVAR: dsi_compile_enable off for a table)
    one_by_one: tuple[str, ...] = ()
    #: so many streams apply independent groups, or transactions, in parallel, each
    #: over connections of its own; 0 and 1 are strictly serial, as is any `batch_size`
    parallelism: int = 0

    def __post_init__(self) -> None:
        for name in (
            "transaction_count",
            "execution_seconds",
            "delay_seconds",
            "batch_size",
            "group_max_calls",
            "group_max_bytes",
            "bulk_threshold",
            "retry_threshold",
            "parallelism",
            "error_limit",
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")
        if self.parallelism > MOST_STREAMS:
            raise ValueError(f"parallelism must not be above {MOST_STREAMS}")
        if not ValueKind.NAMES.holds(self.one_by_one):
            raise ValueError(
                f"one_by_one must be {ValueKind.NAMES.value}, not {self.one_by_one!r}"
            )
        # Schedules and tasks carry them as plain JSON.
        object.__setattr__(self, "error_action", ErrorAction(self.error_action))
        object.__setattr__(self, "one_by_one", tuple(self.one_by_one))

    @property
    def grouping(self) -> bool:
        """Whether transactions are put into groups at all."""
        return self.group_max_calls > 1 and not self.batch_size

    @property
    def calls_together(self) -> int:
        """The most calls in a group."""
        most = self.group_max_calls
        return min(most, STREAM_CALLS) if self.parallel else most

    @property
    def parallel(self) -> bool:
        """Whether the push uses several streams."""
        return self.parallelism > 1 and not self.batch_size


_KIND_OF = {
    "bool": ValueKind.YES_OR_NO,
    "int": ValueKind.WHOLE_NUMBER,
    "float": ValueKind.NUMBER,
    "ErrorAction": ValueKind.TEXT,
    "tuple[str, ...]": ValueKind.NAMES,
}

#: The kind of each option's value, by the option's name.
KINDS: Mapping[str, ValueKind] = {
    option.name: _KIND_OF[str(option.type)] for option in fields(Options)
}
