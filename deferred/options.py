"""The options of pushes, refreshes, purges and checks: each is declared once.

Python, `snaptide.toml`, the environment, the command line, schedules and Celery tasks
take names, defaults, limits and texts from these models. The first sentence above a
field is its help at the command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Self, TypedDict

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from deferred.errors import BadOption
from deferred.interval import duration_of
from sites.mistakes import mistakes


class ErrorAction(StrEnum):
    """What a push does with a transaction that cannot be applied: `error_action`."""

    QUEUE = "queue"
    STOP = "stop"
    SKIP_ROW = "skip_row"
    QUIET_GROUP = "quiet_group"
    QUIET_DATABASE = "quiet_database"
    QUIET_SERVER = "quiet_server"


#: After these nothing more is pushed until an operator lets pushes go on.
QUIET = (ErrorAction.QUIET_DATABASE, ErrorAction.QUIET_SERVER)

#: Streams take no group with more calls, because its shared rows are not looked up.
STREAM_CALLS = 10_000


def _not_a_truth(value: Any) -> Any:
    """Refuse `true` where a number is meant: pydantic would take it for 1."""
    if isinstance(value, bool):
        raise ValueError("Input should be a number, not true or false")
    return value


def _duration(value: str) -> str:
    """Refuse what is no duration, or none at all."""
    if not duration_of(value):
        raise ValueError("Input should be a duration like 2h")
    return value


Count = Annotated[int, Field(ge=0), BeforeValidator(_not_a_truth)]
Number = Annotated[float, Field(ge=0), BeforeValidator(_not_a_truth)]
Duration = Annotated[str, AfterValidator(_duration)]


class Options(BaseModel):
    """The options of one kind of work."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False
    )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """The options that are given, and the defaults of all others.

        Raises:
            BadOption: an option is unknown, or its value is not allowed.
        """
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            problems = mistakes(cls, error, "option")
            raise BadOption(" ".join(problems), problems=problems) from None

    @property
    def given(self) -> dict[str, Any]:
        """Those that were given, as plain JSON."""
        return self.model_dump(mode="json", exclude_unset=True)


class PushSettings(Options):
    """`[push]`: how a push works, where its own options do not say otherwise."""

    #: The most calls in a group; 0 or 1: apply each transaction by itself. A
    #: transaction with more calls is applied alone. If several streams divide a batch,
    #: a group has at most 10,000. HVAR: `dsi_compile_max_cmds`.
    group_max_calls: Count = 50_000
    #: The most bytes of old and new values in a group, as stored; 0: no limit. A
    #: transaction with more is applied alone. HVAR: `dsi_cdb_max_size`, in megabytes.
    group_max_bytes: Count = 1024**3
    #: Ship this many or more net changes of one table by COPY. Fewer go as values of a
    #: statement. HVAR: `dsi_bulk_threshold`.
    bulk_threshold: Count = 20
    #: If a group with fewer calls fails, apply its transactions one by one. A larger
    #: one is divided and compiled again. HVAR: `dsi_compile_retry_threshold`.
    retry_threshold: Count = 100
    #: What to do with a transaction that cannot be applied. `queue` parks it in the
    #: error queue and goes on, `stop` leaves it queued at its site and ends the push.
    #: `skip_row` parks its rows in conflict and applies the others; `quiet_group` parks
    #: it, and makes its replication groups quiet at the destination; `quiet_database`
    #: and `quiet_server` stop the push, and pause the destination, or all destinations.
    #: HVAR: error action.
    error_action: ErrorAction = ErrorAction.QUEUE
    #: Pause all pushes of a site when the error queue of a destination holds so many of
    #: its transactions; 0: no limit. Ingres: `-EMX`.
    error_limit: Count = 0
    #: Master tables whose transactions are each applied alone, in order. So triggers
    #: there see every step. HVAR: `dsi_compile_enable` off for a table.
    one_by_one: list[str] = []
    #: Streams to each destination; 0 or 1: strictly serial. They apply independent
    #: transactions side by side, and commit in order; each takes a session at both
    #: ends, if there is one at once. With `batch_size` a push is serial.
    parallelism: Annotated[Count, Field(le=16)] = 0


class PushOptions(PushSettings):
    """The options of a push (Oracle: DBMS_DEFER_SYS.EXECUTE; HVAR: compiled groups).

    Those that `[push]` in `snaptide.toml` has too take their defaults from there.
    """

    #: Stop at the first transaction that had to be parked. Oracle: `stop_on_error`.
    stop_on_error: bool = False
    #: Stop after this many transactions; 0: no limit. Oracle: `transaction_count`.
    transaction_count: Count = 0
    #: Stop after this many seconds, between two commits; 0: no limit. Oracle:
    #: `execution_seconds`.
    execution_seconds: Number = 0
    #: When nothing is queued, wait this many seconds for work. Oracle: `delay_seconds`.
    delay_seconds: Number = 0
    #: Commit at the destination once more than this many calls have run; 0: by groups.
    #: Transactions are then applied one by one. Oracle: `batch_size`.
    batch_size: Count = 0

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


class RefreshOptions(Options):
    """The options of a refresh (Oracle: DBMS_SNAPSHOT.REFRESH)."""

    #: One character per snapshot: f for fast, c for complete, ? for fast if possible.
    #: The last ones may be left out. A snapshot that was never loaded is loaded,
    #: whatever the method.
    method: str = "?"
    #: Push this site's changes first.
    push_deferred_rpc: bool = True
    #: Refresh even if the error queue holds transactions of this site. Only those count
    #: that touch the group.
    refresh_after_errors: bool = True
    #: Keep changes that the master has not seen (Oracle does not). Without it, the
    #: snapshot shows the master's values until a push brings them there.
    keep_pending: bool = True
    #: Allow the refresh to delete any share of the rows.
    allow_mass_delete: bool = False
    #: The share of a snapshot's rows that a refresh may delete; 1: all of them.
    mass_delete_share: Annotated[Number, Field(gt=0, le=1)] = 0.3
    #: Refresh all snapshots of the group or none. Without it, one that cannot be
    #: refreshed stays at the moment that it shows, with those that depend on it.
    strict: bool = False


class PurgeOptions(Options):
    """The options of a purge by schedule."""

    #: Days for which a master keeps records of settled conflicts.
    record_days: Number = 90


class CheckOptions(Options):
    """The options of a check by schedule (Informix: `cdr check replicate`)."""

    #: Only rows for which this SQL expression holds at either side.
    where: str | None = None
    #: Compare only these columns and the key; none: all.
    columns: list[str] = []
    #: Only rows that were inserted or updated within this time at either side, as `2h`.
    since: Duration | None = None
    #: List so many rows of each snapshot; counts are exact.
    most: Count = 1000
    #: Read in statements of less than a second, and rest in between, longer while the
    #: databases are busy.
    gently: bool = True

    @property
    def written_within(self) -> timedelta | None:
        """`since` as a time."""
        return None if self.since is None else duration_of(self.since)


#: The options of each kind of work that a schedule can run.
OF_WORK: Mapping[str, type[Options]] = {
    "push": PushOptions,
    "refresh": RefreshOptions,
    "purge": PurgeOptions,
    "check": CheckOptions,
}


class PushArguments(TypedDict, total=False):
    """Keyword arguments of a push; `PushOptions` says what each of them does."""

    # Type checkers read no model here. A test compares the two.
    group_max_calls: int
    group_max_bytes: int
    bulk_threshold: int
    retry_threshold: int
    error_action: ErrorAction | str
    error_limit: int
    one_by_one: Sequence[str]
    parallelism: int
    stop_on_error: bool
    transaction_count: int
    execution_seconds: float
    delay_seconds: float
    batch_size: int


class RefreshArguments(TypedDict, total=False):
    """Keyword arguments of a refresh; `RefreshOptions` says what each of them does."""

    method: str
    push_deferred_rpc: bool
    refresh_after_errors: bool
    keep_pending: bool
    allow_mass_delete: bool
    mass_delete_share: float
    strict: bool
