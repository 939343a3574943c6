"""Notes of refreshes: how long their steps took, and what they did.

They are kept with the position that each refresh brings, and ride on the statements
that note how it ended: no statement more is sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import CTE, Delete, Text, Update, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY, Insert, insert

from snapshots import catalog

_group, _run, _step = catalog.refresh_group, catalog.refresh_run, catalog.refresh_step

#: The steps of a refresh, in their order; most refreshes lack some of them. What is
#: done after the merge has committed is in none.
PUSH, ASK, START, WINDOW, COMPARE, LOAD, MERGE = STEPS = (
    "push",
    "ask",
    "start",
    "window",
    "compare",
    "load",
    "merge",
)

#: So many are kept of a group; in a row, those that found nothing new, or failed in the
#: same way, are one.
KEPT = 100

#: An error is cut after so many characters.
LONGEST = 1_000

#: Outcomes, as the table names them.
REFRESHED, NOTHING_NEW, FAILED = "refreshed", "nothing new", "failed"

#: In so many seconds at most; all longer ones are together.
LIMITS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, float("inf"))


@dataclass(slots=True, kw_only=True)
class Steps:
    """The seconds of each step of a refresh so far; of several turns, their sum.

    Parameters:
        clock: tells seconds.
    """

    clock: Callable[[], float] = time.monotonic
    #: the step that runs; None before the first
    now: str | None = None
    _since: float = 0.0
    _seconds: dict[str, float] = field(default_factory=dict)

    def begin(self, step: str) -> None:
        """End the step that runs, and begin another, or the same again."""
        at = self.clock()
        if self.now is not None:
            self._seconds[self.now] = self._so_far(at)
        self.now, self._since = step, at

    @property
    def seconds(self) -> Mapping[str, float]:
        """By step, in the order of `STEPS`; the one that runs counts until now."""
        found = dict(self._seconds)
        if self.now is not None:
            found[self.now] = self._so_far(self.clock())
        return {name: found[name] for name in STEPS if name in found}

    def _so_far(self, at: float) -> float:
        assert self.now is not None
        return self._seconds.get(self.now, 0.0) + at - self._since


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a refresh did, for its note."""

    #: seconds by step
    steps: Mapping[str, float]
    methods: Sequence[str] = ()
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    #: by snapshot, the way by which it was compared (`snapshots.reports.WayTaken`)
    ways: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    #: rows that it left alone, by what holds them back
    held: Mapping[str, int] = field(default_factory=dict)
    #: why it failed, or what of it the site refused
    error: str | None = None

    @property
    def rows(self) -> dict[str, int]:
        """How many rows it wrote and left alone, by column of the note."""
        return {
            "inserted": self.inserted,
            "updated": self.updated,
            "deleted": self.deleted,
            "held_back": sum(self.held.values()),
        }


def counted(done: Done) -> dict[str, Any]:
    """The new values of the columns of a group that count rows."""
    totals = {
        f"rows_{kind}": _group.c[f"rows_{kind}"] + rows
        for kind, rows in done.rows.items()
    }
    return {**totals, "held_back": dict(done.held)}


def refreshed(name: str, noting: Update, done: Done) -> Insert:
    """Note a refresh that moved its group; writes one row if the group's is written.

    Parameters:
        noting: writes the group's row, with a new time of its refresh.
    """
    group = _written(noting)
    values = _values(group, REFRESHED, group.c.refreshed_at, _before(name), done)
    return _inserted(values).add_cte(_older(name).cte("older"), _timed(group, done))


def failed(name: str, noting: Update, done: Done) -> Insert:
    """Note a refresh that failed; the group's time stays.

    If the one before it failed with the same error, they share a row.
    """
    group, now = _written(noting), func.statement_timestamp()
    again = _again(group, FAILED, now, done, _taken(done.steps))
    values = _values(group, FAILED, now, group.c.refreshed_at, done)
    return _inserted(values, _is_none(again)).add_cte(
        _older(name).where(_is_none(again)).cte("older")
    )


def nothing_new(name: str, noting: Update, methods: Sequence[str]) -> Sequence[CTE]:
    """The parts of a statement that note a refresh which found nothing new.

    If the one before it found nothing new either, they share a row. The statement's
    parameters are those that `took` gives.

    Parameters:
        noting: writes the group's row, with a new time of its refresh.
    """
    group, done = _written(noting), Done(steps={}, methods=methods)
    at = group.c.refreshed_at
    again = _again(group, NOTHING_NEW, at, done, _TOOK)
    values = {**_values(group, NOTHING_NEW, at, _before(name), done), **_TOOK}
    new = _inserted(values, _is_none(again)).returning(_run.c.id).cte("new")
    return group, new, _older(name).where(_is_none(again)).cte("older")


def took(steps: Mapping[str, float]) -> dict[str, object]:
    """The parameters of a statement with `nothing_new`, by the seconds of the steps."""
    return {f"its_{name}": value for name, value in _taken(steps).items()}


_TOOK = {
    name: sa.bindparam(f"its_{name}", type_=_run.c[name].type)
    for name in ("steps", "seconds")
}


def _again(
    group: CTE,
    outcome: str,
    at: sa.ColumnElement[Any],
    done: Done,
    taken: Mapping[str, Any],
) -> CTE:
    """Adds a refresh to the row of the one before it, if the two are alike."""
    last = _run.alias("last")
    latest = (
        select(last.c.id, last.c.outcome, last.c.error)
        .where(last.c.refresh_group == group.c.name)
        .order_by(last.c.id.desc())
        .limit(1)
        .cte("latest")
    )
    return (
        sa.update(_run)
        .where(
            _run.c.refresh_group == group.c.name,
            _run.c.id == latest.c.id,
            latest.c.outcome == outcome,
            latest.c.error.is_not_distinct_from(_error(done)),
        )
        .values(
            ended_at=at,
            refreshes=_run.c.refreshes + 1,
            longest=func.greatest(_run.c.longest, at - _run.c.ended_at),
            **taken,
        )
        .returning(_run.c.id)
        .cte("again")
    )


def _is_none(again: CTE) -> sa.ColumnElement[bool]:
    """Whether the refresh is to have a row of its own."""
    return sa.not_(select(again.c.id).exists())


def _error(done: Done) -> sa.ColumnElement[str | None]:
    error = done.error[:LONGEST] if done.error else None
    return literal(error, _run.c.error.type)


def _written(noting: Update) -> CTE:
    return noting.returning(_group.c.name, _group.c.refreshed_at).cte("written")


def _before(name: str) -> sa.ScalarSelect[Any]:
    """When the last refresh ended well before the statement."""
    before = _group.alias("before")
    return select(before.c.refreshed_at).where(before.c.name == name).scalar_subquery()


def _values(
    group: CTE,
    outcome: str,
    at: sa.ColumnElement[Any],
    before: sa.ColumnElement[Any],
    done: Done,
) -> dict[str, Any]:
    """The row of a refresh, without its number."""
    given = {
        "outcome": outcome,
        "methods": sorted(set(done.methods)),
        "ways": dict(done.ways),
        **done.rows,
        **_taken(done.steps),
    }
    values = {name: literal(one, _run.c[name].type) for name, one in given.items()}
    times = {"first_at": at, "ended_at": at, "previous_at": before}
    return {"refresh_group": group.c.name, **times, **values, "error": _error(done)}


def _taken(steps: Mapping[str, float]) -> dict[str, Any]:
    rounded = {name: round(seconds, 6) for name, seconds in steps.items()}
    return {"steps": rounded, "seconds": sum(rounded.values())}


def _inserted(values: Mapping[str, Any], *where: sa.ColumnElement[bool]) -> Insert:
    return insert(_run).from_select(
        list(values), select(*values.values()).where(*where)
    )


def _older(name: str) -> Delete:
    """Deletes so many that there is room for one."""
    last = _run.alias("kept")
    oldest = (
        select(last.c.id)
        .where(last.c.refresh_group == name)
        .order_by(last.c.id.desc())
        .offset(KEPT - 1)
        .limit(1)
        .scalar_subquery()
    )
    return sa.delete(_run).where(_run.c.refresh_group == name, _run.c.id <= oldest)


def _timed(group: CTE, done: Done) -> CTE:
    """Counts how long each step took."""
    seconds = done.steps
    limits = [next(one for one in LIMITS if took <= one) for took in seconds.values()]
    columns = [
        sa.column("step", Text),
        sa.column("seconds", sa.Double),
        sa.column("at_most", sa.Double),
    ]
    lists = ([*seconds], [*seconds.values()], limits)
    arrays = [
        literal(some, ARRAY(column.type))
        for some, column in zip(lists, columns, strict=True)
    ]
    took = func.unnest(*arrays).table_valued(*columns, name="took").render_derived()
    new = insert(_step).from_select(
        ["refresh_group", "step", "at_most", "refreshes", "seconds"],
        select(
            group.c.name, took.c.step, took.c.at_most, 1, took.c.seconds
        ).select_from(group.join(took, sa.true())),
    )
    return new.on_conflict_do_update(
        index_elements=["refresh_group", "step", "at_most"],
        set_={
            "refreshes": _step.c.refreshes + 1,
            "seconds": _step.c.seconds + new.excluded.seconds,
        },
    ).cte("timed")
