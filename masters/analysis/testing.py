"""Testing whether a resolution method, for example your own, keeps masters equal.

Needs Hypothesis (``pip install hypothesis``), which looks for a history in which the
masters end with different rows, and shows the shortest that it finds::

    from hypothesis import strategies as st
    from masters.analysis import testing

    def test_my_routine_converges():
        testing.check(
            my_routine,
            start=st.just({"price": 10}),
            change=testing.any_values(price=st.integers(0, 50)),
        )

Three sites are masters of one row. They change it and receive each other's changes in
every order that a network allows: changes of one sender in the order of its commits. A
change whose old values equal the current row is applied; any other is a conflict of
one column group, the whole row, and goes to the methods. Four properties are tried,
the simplest first, so that a failure names the property that is missing:

- idempotent: all sites make the same change, and their rows stay equal;
- commutative: two sites make a change at once, and each receives the other's;
- associative: three sites do, and receive the others' in different orders;
- convergent: any number of changes, made and delivered in any order.

A conflict that stays undecided waits for a person; such a history proves nothing,
unless its rows end equal. No change is delivered twice, because a push is exactly once.
Inserts, deletes and uniqueness conflicts are not tried.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, Any

from masters.resolution.conflict import (
    Conflict,
    Decision,
    Kind,
    Resolution,
    Row,
    rubbish,
)

if TYPE_CHECKING:
    from hypothesis import settings
    from hypothesis.strategies import DataObject, SearchStrategy

#: A built method, or a custom routine.
Decide = Callable[[Conflict], Resolution]
#: Draws a value from a strategy.
Draw = Callable[..., Any]
#: Draws the row into which a site changes its row.
Change = Callable[[Draw, Row, str], Row]

#: The three sites.
SITES = ("hq", "jfk", "ewr")

#: The most changes and deliveries of a history before all other changes are delivered.
STEPS = 10


class Diverged(AssertionError):
    """The masters ended with different rows; the text tells how."""


def check(
    *methods: Decide,
    start: SearchStrategy[Row],
    change: Change,
    sites: Sequence[str] = SITES,
    settings: settings | None = None,
) -> None:
    """Look for a history that leaves the masters different.

    Parameters:
        methods: asked in this order until one decides, like rules in sequence.
        start: strategy for the row that all sites begin with.
        change: draws the row into which a site changes its row; see `any_values`. A
            function of yours must keep the promises of the application: a stamp that
            never goes back, the name of the site that wrote last.
        sites: two or three names.
        settings: Hypothesis's, for example `settings(max_examples=1000)`.

    Raises:
        Diverged: there is such a history, or no conflict was ever decided.
        ImportError: Hypothesis is not installed.
    """
    decided = 0
    for play, share in PLAYS.items():
        tried = partial(play, methods, start, change, tuple(sites))
        decided += _search(tried, settings, share)
    if not decided:
        raise Diverged("No conflict was ever decided, so the methods were not tested.")


def any_values(**columns: SearchStrategy[Any]) -> Change:
    """A change that sets columns to any value of a strategy; other columns stay."""

    def change(draw: Draw, row: Row, site: str) -> Row:
        return {**row, **{name: draw(values) for name, values in columns.items()}}

    return change


def idempotent(
    methods: Sequence[Decide],
    start: SearchStrategy[Row],
    change: Change,
    sites: Sequence[str],
    data: DataObject,
) -> int:
    """All sites make the same change, and stay equal."""
    masters = _Masters(methods, data.draw(start), sites)
    row = change(data.draw, masters.rows[sites[0]], sites[0])
    for site in sites:
        masters.change(site, row)
    return _deliver_and_compare(masters, data, "idempotent")


def commutative(
    methods: Sequence[Decide],
    start: SearchStrategy[Row],
    change: Change,
    sites: Sequence[str],
    data: DataObject,
) -> int:
    """Two sites make a change at once, and end equal."""
    pair = data.draw(_sampled(list(permutations(sites, 2))))
    masters = _Masters(methods, data.draw(start), pair)
    for site in pair:
        masters.change(site, change(data.draw, masters.rows[site], site))
    return _deliver_and_compare(masters, data, "commutative")


def associative(
    methods: Sequence[Decide],
    start: SearchStrategy[Row],
    change: Change,
    sites: Sequence[str],
    data: DataObject,
) -> int:
    """All sites make a change at once, and end equal whichever change comes first."""
    masters = _Masters(methods, data.draw(start), sites)
    for site in sites:
        masters.change(site, change(data.draw, masters.rows[site], site))
    return _deliver_and_compare(masters, data, "associative")


def convergent(
    methods: Sequence[Decide],
    start: SearchStrategy[Row],
    change: Change,
    sites: Sequence[str],
    data: DataObject,
) -> int:
    """Sites make changes while others are being delivered, and end equal."""
    masters = _Masters(methods, data.draw(start), sites)
    for _ in range(data.draw(_integers(2, STEPS))):
        step = data.draw(_sampled([*sites, *masters.waiting()]))
        if isinstance(step, str):
            masters.change(step, change(data.draw, masters.rows[step], step))
        else:
            masters.deliver(*step)
    return _deliver_and_compare(masters, data, "convergent")


#: The properties in the order in which they are tried, with the share of examples that
#: each needs: the fewer changes are made, the fewer ways there are to make them.
PLAYS = {idempotent: 0.1, commutative: 0.3, associative: 0.5, convergent: 1.0}


@dataclass(slots=True)
class _Masters:
    """The row of each site, and the changes not yet delivered between them."""

    methods: Sequence[Decide]
    start: Row
    sites: Sequence[str]
    rows: dict[str, Row] = field(init=False)
    channels: dict[tuple[str, str], deque[tuple[Row, Row]]] = field(init=False)
    story: list[str] = field(init=False)
    decided: int = 0
    undecided: int = 0

    def __post_init__(self) -> None:
        self.rows = {site: dict(self.start) for site in self.sites}
        self.channels = {pair: deque() for pair in permutations(self.sites, 2)}
        self.story = [f"all start with {dict(self.start)}"]

    def waiting(self) -> list[tuple[str, str]]:
        return [pair for pair, messages in self.channels.items() if messages]

    def change(self, site: str, new: Row) -> None:
        old, new = self.rows[site], dict(new)
        if new == old:
            return
        self.story.append(f"{site} changes its row to {new}")
        for other in self.sites:
            if other != site:
                self.channels[site, other].append((old, new))
        self.rows[site] = new

    def deliver(self, origin: str, master: str) -> None:
        old, new = self.channels[origin, master].popleft()
        current = self.rows[master]
        if old == current:
            self.rows[master] = new
            self.story.append(f"{master} applies {new} from {origin}")
            return
        answer = self._ask(origin, master, old, new)
        row = current
        if answer.decision.site_wins:
            row = {**new, **answer.values}
        self.story.append(
            f"{master} has {current}, gets {old} -> {new} from {origin}: "
            f"{answer.decision.name.lower()}, {row} ({answer.reason})"
        )
        self.rows[master] = row

    def _ask(self, origin: str, master: str, old: Row, new: Row) -> Resolution:
        conflict = Conflict(
            kind=Kind.UPDATE,
            table=("public", "checked"),
            column_group="checked",
            columns=tuple(self.start),
            old=dict(old),
            new=dict(new),
            current=dict(self.rows[master]),
            origin=origin,
            master=master,
        )
        answer = Resolution(decision=Decision.UNDECIDED, reason="no method")
        for method in self.methods:
            answer = method(conflict)
            if reason := rubbish(answer, conflict) or _fickle(method, conflict, answer):
                raise Diverged(self.told(f"A method {reason}."))
            if answer.decision is not Decision.UNDECIDED:
                self.decided += 1
                return answer
        self.undecided += 1
        return answer

    def told(self, end: str) -> str:
        return "\n  ".join([end, *self.story[:40]])


def _deliver_and_compare(masters: _Masters, data: DataObject, play: str) -> int:
    """Deliver all remaining changes; return how many conflicts were decided.

    Raises:
        Diverged: the rows differ, and no conflict waits for a person.
    """
    while pairs := masters.waiting():
        pair = data.draw(_sampled(pairs)) if len(pairs) > 1 else pairs[0]
        masters.deliver(*pair)
    first = masters.rows[masters.sites[0]]
    if any(row != first for row in masters.rows.values()) and not masters.undecided:
        ends = "; ".join(f"{site} {row}" for site, row in masters.rows.items())
        raise Diverged(
            masters.told(
                f"The methods are not {play}, the masters end up different: {ends}."
            )
        )
    return masters.decided


def _fickle(method: Decide, conflict: Conflict, answer: Resolution) -> str | None:
    again = method(conflict)
    if (again.decision, again.values) == (answer.decision, answer.values):
        return None
    return "gave two answers to the same conflict"


def _search(
    play: Callable[[DataObject], int], settings: settings | None, share: float
) -> int:
    """Let Hypothesis look for a history that fails; count the decided conflicts."""
    hypothesis, strategies = _hypothesis()
    decided = 0

    def history(data: DataObject) -> None:
        nonlocal decided
        decided += play(data)

    chosen = settings or hypothesis.settings(
        max_examples=200,
        deadline=None,
        database=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    examples = max(1, int(chosen.max_examples * share))
    chosen = hypothesis.settings(chosen, max_examples=examples)
    chosen(hypothesis.given(strategies.data())(history))()
    return decided


def _sampled(values: Sequence[Any]) -> SearchStrategy[Any]:
    strategy: SearchStrategy[Any] = _hypothesis()[1].sampled_from(values)
    return strategy


def _integers(least: int, most: int) -> SearchStrategy[int]:
    strategy: SearchStrategy[int] = _hypothesis()[1].integers(least, most)
    return strategy


def _hypothesis() -> tuple[Any, Any]:
    try:
        import hypothesis
        from hypothesis import strategies
    except ImportError as error:
        raise ImportError(
            "masters.analysis.testing needs Hypothesis: pip install hypothesis"
        ) from error
    return hypothesis, strategies
