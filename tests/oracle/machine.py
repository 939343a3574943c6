"""The state machine: users, pushes, refreshes, purges and accidents, in any order."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.oracle.accidents import ALONE, Accident, accidents, do
from tests.oracle.cast import Cast
from tests.oracle.drafts import Draft, drafts
from tests.oracle.shapes import Shape, shapes
from tests.oracle.stage import Stage
from tests.oracle.world import COUNTERS, MASTER, SITES

_site = st.sampled_from(SITES)
_anyone = st.sampled_from((MASTER, *SITES))
_slot = st.integers(0, 1)
_drafts = st.lists(drafts(), min_size=1, max_size=4)
_counter = st.sampled_from([None, None, *range(1, COUNTERS + 1)])
_isolation = st.sampled_from(
    ["read committed", "read committed", "repeatable read", "serializable"]
)
_push_options = st.fixed_dictionaries(
    {},
    optional={
        "stop_on_error": st.booleans(),
        "transaction_count": st.integers(0, 2),
        "batch_size": st.integers(0, 6),
        "group_max_calls": st.sampled_from([0, 4, 10_000]),
        "bulk_threshold": st.sampled_from([1, 20]),
        "retry_threshold": st.integers(0, 4),
    },
)


class Machine(RuleBasedStateMachine):
    """A world, and all that is done in it."""

    cast: Cast

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage
        self.stage.story.begin()

    @initialize(shapes=shapes())
    def build(self, shapes: tuple[Shape, ...]) -> None:
        """Make the world."""
        for shape in shapes:
            self.stage.story.tell(f"{shape.ddl().as_string()}  -- {shape}")
        self.cast = Cast(self.stage, self.stage.world(shapes))

    # --- users --------------------------------------------------------------------

    @rule(site=_anyone, drafts=_drafts, counter=_counter)
    def transaction(self, site: str, drafts: list[Draft], counter: int | None) -> None:
        """A whole transaction of a user."""
        self.cast.transaction(site, drafts, counter)

    @rule(site=_anyone, slot=_slot, isolation=_isolation, drafts=_drafts)
    def write(self, site: str, slot: int, isolation: str, drafts: list[Draft]) -> None:
        """More of a transaction that stays open."""
        self.cast.run(self.cast.user(site, slot, isolation), site, drafts)

    @rule(site=_anyone, slot=_slot, before=_drafts, after=_drafts)
    def undo(
        self, site: str, slot: int, before: list[Draft], after: list[Draft]
    ) -> None:
        """Part of an open transaction is rolled back to a savepoint."""
        user = self.cast.user(site, slot, "read committed")
        user.savepoint("s")
        self.cast.run(user, site, before)
        user.back_to("s")
        self.cast.run(user, site, after)

    @rule(
        site=_anyone,
        slot=_slot,
        counter=_counter,
        prepares=st.sampled_from([False, False, True]),
    )
    def commit(self, site: str, slot: int, counter: int | None, prepares: bool) -> None:
        """An open transaction ends, or is prepared; what was prepared is committed."""
        self.cast.commit_prepared(site)
        self.cast.commit(site, slot, counter, prepares=prepares)

    @rule(site=_anyone, slot=_slot)
    def rollback(self, site: str, slot: int) -> None:
        """An open transaction is given up."""
        user = self.cast.users.pop((site, slot), None)
        if user is not None:
            user.rollback()

    @rule(table=st.integers(0, 2))
    def truncate(self, table: int) -> None:
        """A user of the master empties a table."""
        self.cast.truncate(table)

    # --- Snaptide -----------------------------------------------------------------

    @rule(site=_site, options=_push_options, accident=accidents())
    def push(
        self, site: str, options: dict[str, Any], accident: Accident | None
    ) -> None:
        """A push, and what happens meanwhile."""
        self.stage.story.tell(f"push {site} {options} {accident or ''}")
        do(self.cast, "push", partial(self.cast.push, site, **options), accident)

    @rule(
        site=_site,
        group=st.sampled_from(["all", "all", "ours"]),
        method=st.sampled_from(["?", "?", "f", "c"]),
        pushes=st.booleans(),
        keep=st.sampled_from([True, True, False]),
        accident=accidents(),
    )
    def refresh(
        self,
        site: str,
        group: str,
        method: str,
        pushes: bool,
        keep: bool,
        accident: Accident | None,
    ) -> None:
        """A refresh, and what happens meanwhile."""
        options = {
            "method": method,
            "push_deferred_rpc": pushes,
            "keep_pending": keep,
        }
        self.stage.story.tell(f"refresh {site} {group} {options} {accident or ''}")
        what = partial(self.cast.refresh, site, group, **options)
        do(self.cast, "refresh", what, accident)

    @rule(
        site=_site,
        table=st.integers(0, 2),
        on_drop=accidents(ALONE),
        on_create=accidents(ALONE),
    )
    def make_again(
        self,
        site: str,
        table: int,
        on_drop: Accident | None,
        on_create: Accident | None,
    ) -> None:
        """A snapshot is dropped, if nothing waits in its queue, and made anew."""
        self.stage.story.tell(f"drop {site} {table} {on_drop or ''}")
        do(self.cast, "drop", partial(self.cast.drop, site, table), on_drop)
        self.stage.story.tell(f"create {site} {on_create or ''}")
        create = partial(self.cast.create_missing, site)
        do(self.cast, "create", create, on_create)

    @rule(site=_site, fold=st.booleans())
    def purge(self, site: str, fold: bool) -> None:
        """Logs and queue are purged of what nobody needs."""
        self.cast.purge(site, fold=fold)

    @rule(site=st.none() | _site, dependants=st.booleans())
    def retry(self, site: str | None, dependants: bool) -> None:
        """Parked transactions are tried again."""
        self.cast.retry(site, dependants=dependants)

    @rule(nth=st.integers(0, 5))
    def delete_error(self, nth: int) -> None:
        """A parked transaction is given up for good."""
        self.cast.delete_error(nth)

    @rule(site=_anyone)
    def kill(self, site: str) -> None:
        """A server dies between two things."""
        self.cast.kill(site)

    @precondition(lambda self: self.cast.transactions > self.cast.settled)
    @rule()
    def quiet(self) -> None:
        """Everybody ends what he began; then all must agree."""
        self.cast.settle()

    def teardown(self) -> None:
        """Settle and check once more."""
        if not hasattr(self, "cast"):
            return
        try:
            if not self.cast.broken:
                self.cast.settle()
        finally:
            with suppress(psycopg.Error):
                self.cast.end_users()
            self.stage.clear(self.cast.world)
