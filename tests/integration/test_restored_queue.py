"""What a repair and the agreement after it do to a queue, where a restore goes deep."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

import pytest

import deferred
from deferred.errors import CannotTell, PastRetention
from sites import Directory
from sites.errors import SiteChanged
from snaptide import doctor
from snaptide.repair import repair
from tests.fix_homes import Home, new_site
from tests.fix_moments import Moments
from tests.fix_worker import eventually
from tests.let_go import WAITS
from tests.linked_table import as_refresh, link, parked, queued, rows, run

NOW = timedelta(0)


class Pair:
    """hq and jfk with one order, each in a database that can be dumped and loaded."""

    def __init__(self, make_home: Callable[[str], Home]) -> None:
        self.home, self.other = make_home("jfk"), make_home("spare")
        mark = secrets.token_hex(4)
        self.names = {name: f"{name}_{mark}" for name in ("hq", "jfk")}
        self.urls = {
            name: new_site(self.home, name, database)
            for name, database in self.names.items()
        }
        self.sites = Directory(self.urls)
        link(self.sites)
        for site in self.sites.values():
            as_refresh(site, "INSERT INTO orders VALUES (1, 'a', 0)")

    def dump(self, name: str) -> Callable[[Home], None]:
        """A backup of a site, to be loaded into a database of some server."""
        backup = self.home.dump(self.names[name])

        def restore(into: Home) -> None:
            self.sites.close()
            self.urls[name] = into.load(backup, f"{self.names[name]}_restored")
            self.sites = Directory(self.urls)

        return restore

    def add(self, amount: int) -> None:
        run(self.sites["jfk"], f"UPDATE orders SET qty = qty + {amount}")

    def sum(self) -> int:
        found: int = rows(self.sites["hq"])[0][2]
        return found


@pytest.fixture
def pair(make_home: Callable[[str], Home]) -> Iterator[Pair]:
    made = Pair(make_home)
    yield made
    made.sites.close()


def test_id_that_is_given_a_second_time(pair: Pair) -> None:
    """In the new cluster a user gets the id of a transaction that is still queued."""
    pair.home.burn(20000)
    pair.add(1)
    restore = pair.dump("jfk")
    deferred.push(pair.sites["jfk"])
    restore(pair.other)
    jfk = pair.sites["jfk"]
    [(queued_id,)] = run(
        jfk, "SELECT xid::text::int FROM snaptide.deferred_transaction"
    )
    [(now,)] = run(jfk, "SELECT pg_current_xact_id()::text::int")
    pair.other.burn(queued_id - now - 10)
    for _ in range(20):
        pair.add(16)
    twice = 'SELECT count(*) FROM snaptide."def$_orders" WHERE xid::text::int = '
    assert run(jfk, f"{twice} {queued_id}") == [(2,)]
    assert repair(jfk).transactions == 20
    assert deferred.push(jfk).transactions == 20
    assert parked(pair.sites["hq"]) == []
    assert pair.sum() == 1 + 20 * 16
    # The id that comes next is free again.
    pair.add(1000)
    assert deferred.push(jfk).transactions == 1
    assert pair.sum() == 1 + 20 * 16 + 1000


def test_nothing_is_purged_before_the_repair(pair: Pair) -> None:
    """In the new cluster a user gets the id of a transaction whose calls can go."""
    pair.home.burn(20000)
    pair.add(1)
    deferred.push(pair.sites["jfk"])
    run(pair.sites["jfk"], "UPDATE snaptide.queue SET covered_batch = 99")
    pair.dump("jfk")(pair.other)
    jfk = pair.sites["jfk"]
    [(old_id,)] = run(jfk, "SELECT xid::text::int FROM snaptide.deferred_transaction")
    [(now,)] = run(jfk, "SELECT pg_current_xact_id()::text::int")
    pair.other.burn(old_id - now - 10)
    for _ in range(20):
        pair.add(16)
    with pytest.raises(SiteChanged):
        deferred.purge(jfk, retention=NOW)
    repair(jfk)
    deferred.push(jfk)
    assert pair.sum() == 1 + 20 * 16


def test_purge_beside_the_agreement_with_a_restored_master(
    pair: Pair, moments: Moments
) -> None:
    """What they agree to send again is not purged meanwhile."""
    restore = pair.dump("hq")
    pair.add(1)
    deferred.push(pair.sites["jfk"])
    run(pair.sites["jfk"], "UPDATE snaptide.queue SET covered_batch = 99")
    restore(pair.home)
    hq, jfk = pair.sites["hq"], pair.sites["jfk"]
    repair(hq)
    with ThreadPoolExecutor(1) as pool:
        purged = list[Future[object]]()

        def purge() -> None:
            purged.append(pool.submit(deferred.purge, jfk, retention=NOW))
            eventually(
                lambda: run(jfk, WAITS) != [] or purged[0].done(),
                what="the purge: to wait, or to be done",
            )

        moments.at("agreement.before_commit", purge)
        assert deferred.push(jfk).transactions == 1
        purged[0].result(timeout=60)
    assert pair.sum() == 1
    assert rows(hq) == rows(jfk)


def test_calls_that_are_purged_are_said_to_be_lost(pair: Pair) -> None:
    """The master goes back to before what the site still has; then it goes on."""
    restore = pair.dump("hq")
    pair.add(1)
    deferred.push(pair.sites["jfk"])
    _purge(pair)
    as_refresh(pair.sites["jfk"], "UPDATE orders SET qty = 0")
    pair.add(2)
    deferred.push(pair.sites["jfk"])
    restore(pair.home)
    pair.add(4)
    hq, jfk = pair.sites["hq"], pair.sites["jfk"]
    repair(hq)
    with pytest.raises(PastRetention, match="batch 0 of this site"):
        deferred.push(jfk)
    assert queued(jfk) == 1
    [found] = [f for f in doctor.check_site(jfk) if f.subject == "queue"]
    assert "jfk" in found.todo
    assert "--repair" in found.todo
    assert len(repair(jfk).reasons) == 1
    assert deferred.push(jfk).transactions == 2
    assert pair.sum() == 2 + 4


def test_what_nobody_can_tell_stays_in_the_queue(pair: Pair) -> None:
    """The backup of the site is older than the master's ledger."""
    pair.add(1)
    restore = pair.dump("jfk")
    for amount in (2, 4):
        deferred.push(pair.sites["jfk"])
        pair.add(amount)
    deferred.push(pair.sites["jfk"])
    hq = pair.sites["hq"]
    run(hq, "UPDATE snaptide.push_batch SET shipped_at = now() - interval '31 days'")
    deferred.purge(hq)
    assert run(hq, "SELECT count(*) FROM snaptide.push_batch") == [(1,)]
    restore(pair.home)
    jfk = pair.sites["jfk"]
    repair(jfk)
    for _ in range(2):
        with pytest.raises(CannotTell):
            deferred.push(jfk)
        # Nothing that a repair could settle.
        assert not repair(jfk).repaired
    assert queued(jfk) == 1
    assert pair.sum() == 1 + 2 + 4


def test_procedures_come_again_with_the_queue(pair: Pair) -> None:
    """First the master goes back and gets them again, then the site, and gives none."""
    for site in pair.sites.values():
        run(
            site,
            "CREATE PROCEDURE public.add(n int) LANGUAGE sql AS"
            " 'UPDATE public.orders SET qty = qty + n'",
        )
    deferred.allow_procedure(pair.sites["hq"], "add")
    older_hq = pair.dump("hq")
    _call(pair, 1)
    deferred.push(pair.sites["jfk"])
    _call(pair, 16)
    older_jfk = pair.dump("jfk")
    deferred.push(pair.sites["jfk"])
    assert pair.sum() == 1 + 16
    older_hq(pair.home)
    repair(pair.sites["hq"])
    assert pair.sum() == 0
    assert deferred.push(pair.sites["jfk"]).transactions == 2
    assert pair.sum() == 1 + 16
    older_jfk(pair.other)
    repair(pair.sites["jfk"])
    assert deferred.push(pair.sites["jfk"]).transactions == 0
    _call(pair, 256)
    assert deferred.push(pair.sites["jfk"]).errors == 0
    assert pair.sum() == 1 + 16 + 256


def _call(pair: Pair, amount: int) -> None:
    with pair.sites["jfk"].begin() as connection:
        deferred.call(connection, "add", [amount], here=True)


def test_restored_twice(pair: Pair) -> None:
    """Numbers of two former lives stand in the queue together."""
    pair.add(1)
    deferred.push(pair.sites["jfk"])
    for amount in (2, 4):
        pair.add(amount)
        restore = pair.dump("jfk")
        deferred.push(pair.sites["jfk"])
        restore(pair.other if amount == 2 else pair.home)
        pair.home, pair.other = pair.other, pair.home
        pair.names["jfk"] += "_restored"
        pair.add(amount * 100)
        repair(pair.sites["jfk"])
        deferred.push(pair.sites["jfk"])
    assert parked(pair.sites["hq"]) == []
    assert pair.sum() == 1 + 2 + 4 + 200 + 400


def _purge(pair: Pair) -> None:
    """As after a refresh, and when retention is over."""
    run(pair.sites["jfk"], "UPDATE snaptide.queue SET covered_batch = 99")
    assert deferred.purge(pair.sites["jfk"], retention=NOW).calls == 1
