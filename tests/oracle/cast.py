"""Everybody in the oracle's world, and what each of them can do."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

import deferred
import masters
import snapshots
from deferred.errors import PushInterrupted
from snapshots.definitions.errors import UnknownSnapshot
from snapshots.errors import RefreshRunning
from tests.let_go import END_LOCKS, WRITING
from tests.oracle.drafts import Draft
from tests.oracle.stage import Stage
from tests.oracle.users import Statement, User
from tests.oracle.world import MASTER, SITES, World

#: How often everything is pushed and refreshed before "nothing waits" must be true.
ROUNDS = 5


class Cast:
    """Users with open sessions, pushers, refreshers, and those who clean up.

    Parameters:
        stage: the servers.
        world: the sites on them.
    """

    def __init__(self, stage: Stage, world: World) -> None:
        self.stage, self.world, self.story = stage, world, stage.story
        self.users: dict[tuple[str, int], User] = {}
        #: by site, receipts of transactions that users have prepared, and the counter
        #: that each adds to
        self.prepared: dict[str, dict[str, int | None]] = defaultdict(dict)
        #: How many transactions users have begun to commit, in all and when it was
        #: quiet the last time.
        self.transactions = self.settled = 0
        #: Something is wrong: what follows would only hide it.
        self.broken = False

    def transaction(
        self, site: str, drafts: Sequence[Draft], counter: int | None = None
    ) -> None:
        """A user makes a whole transaction."""
        user = User(self.world.urls[site], site, "read committed", self.story)
        self.run(user, site, drafts)
        self._commit(user, site, counter)

    def user(self, site: str, slot: int, isolation: str) -> User:
        """The user of an open session, who comes if he is not there."""
        if (site, slot) not in self.users:
            self.users[site, slot] = User(
                self.world.urls[site], f"{site}.{slot}", isolation, self.story
            )
        return self.users[site, slot]

    def run(self, user: User, site: str, drafts: Sequence[Draft]) -> None:
        """A user makes statements."""
        known = self.world.shapes_at(site)
        for draft in drafts:
            done = user.run(draft.statements(known))
            self.story.count("statements" if done else "statements refused")

    def commit(
        self,
        site: str,
        slot: int,
        counter: int | None = None,
        *,
        prepares: bool = False,
    ) -> None:
        """A user commits, or prepares it for somebody else, and goes."""
        user = self.users.pop((site, slot), None)
        if user is not None:
            self._commit(user, site, counter, prepares=prepares)

    def commit_prepared(self, site: str) -> None:
        """Commit what users have prepared at a site."""
        for receipt, counter in self.prepared.pop(site, {}).items():
            statement = f"COMMIT PREPARED '{receipt}'"
            self.story.tell(f"{site}: {statement}")
            with psycopg.connect(self.world.urls[site], autocommit=True) as session:
                session.execute(statement.encode())
            self._committed(site, receipt, counter)
            self.story.count("prepared transactions")

    def commit_all(self, site: str) -> None:
        """All users of a site commit."""
        for one, slot in list(self.users):
            if one == site:
                self.commit(one, slot)
        self.commit_prepared(site)

    def truncate(self, table: int) -> None:
        """A user of the master empties a table."""
        name = sql.Identifier(self.world.shapes[table % len(self.world.shapes)].name)
        user = User(self.world.urls[MASTER], MASTER, "read committed", self.story)
        user.run([sql.SQL("TRUNCATE {} CASCADE").format(name)])
        user.commit()

    def push(self, site: str, **options: Any) -> None:
        """Push a site."""
        report = deferred.push(self.world.sites[site], **options)
        self.story.tell(f"  {report}")
        self.story.count("pushed", report.transactions)
        self.story.count("parked", report.errors)
        self.story.count("conflicts resolved", report.conflicts_resolved)

    def refresh(self, site: str, group: str, **options: Any) -> None:
        """Refresh a group of a site."""
        report = snapshots.refresh(
            self.world.sites[site], group, allow_mass_delete=True, **options
        )
        for one in report.snapshots:
            self.story.tell(f"  {one}")
            self.story.count(f"refreshed {one.method}")
            self.story.count("rows held back", one.held_back)

    def purge(self, site: str, *, fold: bool = False) -> None:
        """Purge the queue of a site, and the logs of the master."""
        self.story.tell(f"purge {site} {fold=}")
        now = timedelta(0)
        deferred.purge(
            self.world.sites[site],
            retention=now,
            fold_after=now if fold else timedelta(days=1),
        )
        for report in masters.purge_snapshot_logs(self.world.master):
            self.story.count("log partitions emptied", report.emptied)

    def drop(self, site: str, table: int) -> None:
        """Drop a snapshot once the users of the site have let go of it."""
        self.commit_all(site)
        name = self.world.shapes[table % len(self.world.shapes)].name
        # It may be gone: an accident has kept it from being made again.
        with suppress(UnknownSnapshot):
            snapshots.drop(self.world.sites[site], name)
            self.story.count("snapshots dropped")

    def create_missing(self, site: str) -> None:
        """Create the snapshots that were dropped, and fill them."""
        made = self.world.create_missing(site)
        self.story.count("snapshots made again", len(made))
        if made:
            self.refresh(site, "all")

    def retry(self, site: str | None, *, dependants: bool) -> None:
        """Try parked transactions again."""
        self.story.tell(f"retry {site} {dependants=}")
        done = deferred.retry_errors(
            self.world.master, origin=site, with_dependants=dependants
        )
        self.story.count("retried", len(done))
        self.story.count("retried and applied", sum(one.applied for one in done))

    def delete_error(self, nth: int) -> None:
        """Give a parked transaction up for good."""
        errors = deferred.list_errors(self.world.master)
        if errors:
            chosen = errors[nth % len(errors)].id
            receipts = self.world.parked_receipts([chosen])
            self.story.tell(f"delete error {chosen}: {receipts}")
            deferred.delete_errors(self.world.master, [chosen])
            self.world.ledger.deleted.update(receipts)
            self.story.count("errors deleted")

    def kill(self, site: str) -> None:
        """Kill a server: the sessions of all who were there are gone."""
        there = self.stage.servers[site]
        gone = [one for one in self.users if self.stage.servers[one[0]] is there]
        self.stage.kill(site)
        for one in gone:
            self.users.pop(one).rollback()
        self.stage.start(site)
        self.story.count("servers killed")

    def overtaking(self, site: str) -> Iterator[Callable[[], None]]:
        """End the sessions that keep others from the same work, and let these begin.

        Whoever has been kept from nothing so far goes on, and does not know. If he has
        written and not committed, nobody comes: he would be waited for, and one thread
        plays everybody.
        """
        with psycopg.connect(self.world.urls[site], autocommit=True) as administrator:
            ended = administrator.execute(END_LOCKS).fetchall()
        self.story.count("locks lost", len(ended))
        if any(self._writing(one) for one in (MASTER, site)):
            return
        yield partial(self.push, site)
        yield partial(self.refresh, site, "all")

    def _writing(self, site: str) -> bool:
        """Whether a session of Snaptide's is in the middle of a write."""
        with psycopg.connect(self.world.urls[site]) as connection:
            return connection.execute(WRITING).fetchone() is not None

    def settle(self) -> None:
        """Commit, push and refresh until nothing waits; then check everything."""
        self.story.tell("quiet")
        self.broken = True
        self.end_users()
        for site in SITES:
            self._surely(partial(self.create_missing, site))
        waiting = ["everything"]
        for _ in range(ROUNDS):
            # All of them push before the first one refreshes: he sees the last word.
            for site in SITES:
                self._surely(partial(self.push, site))
            for site in SITES:
                for group in ("all", "ours"):
                    self._surely(partial(self.refresh, site, group))
            waiting = [line for site in SITES for line in self.world.waiting(site)]
            if not waiting:
                break
        assert waiting == [], f"still waiting: {waiting}"
        self.world.check()
        for site in SITES:
            self.purge(site)
        self.world.check_purged()
        self.settled, self.broken = self.transactions, False
        self.story.count("quiet")

    def end_users(self) -> None:
        """Everybody commits."""
        for site in (MASTER, *SITES):
            self.commit_all(site)

    def _commit(
        self, user: User, site: str, counter: int | None, *, prepares: bool = False
    ) -> None:
        if counter is not None and not user.run([_bump(counter)]):
            counter = None
        self.transactions += 1
        receipt = f"{site}-{self.transactions}"
        # In a serializable transaction even a receipt may be refused.
        if site != MASTER and not user.run([_receipt(receipt, site)]):
            user.rollback()
        elif not (user.prepare(receipt) if prepares else user.commit()):
            self.story.count("commits refused")
        elif prepares:
            self.prepared[site][receipt] = counter
        else:
            self._committed(site, receipt, counter)

    def _committed(self, site: str, receipt: str, counter: int | None) -> None:
        """Remember what a user knows to be committed."""
        ledger = self.world.ledger
        if site != MASTER:
            ledger.committed[receipt] = counter
            self.story.count("transactions")
        elif counter is not None:
            ledger.at_master[counter] += 1

    def _surely(self, what: Callable[[], object]) -> None:
        """Do it as soon as the server has noticed that an old line is cut."""
        deadline = time.monotonic() + 120
        while True:
            try:
                what()
            except (RefreshRunning, PushInterrupted):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return


def _bump(counter: int) -> Statement:
    statement = sql.SQL("UPDATE counter SET n = n + 1 WHERE id = {}")
    return statement.format(sql.Literal(counter))


def _receipt(receipt: str, site: str) -> Statement:
    statement = sql.SQL("INSERT INTO receipt VALUES ({}, {})")
    return statement.format(sql.Literal(receipt), sql.Literal(site))
