"""A master tells how old what its sites show is, and lets go of one that is away."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import pytest

import masters
import snapshots
from groups import tasks
from masters import ContractState, OnBreach
from masters.contracts import contract, even_time
from masters.contracts.contract import Terms
from masters.log import registration
from sites import Directory, Site, configured, faults
from sites.capture import position
from sites.configured import Configuration
from sites.names import QualifiedName
from snaptide import migrate
from snaptide.doctor import registrations
from snaptide.doctor.finding import Finding
from snaptide.embedded import PostgresServer
from snaptide.news import seen as news
from snaptide.status import status_of
from tests.coordinated import is_recovery_wanted
from tests.fix_clock import Clock, Machine
from tests.fix_commands import Snaptide
from tests.linked_table import ORDERS, application, run, scalar
from tests.seeds import seed

NEAR, FAR = uuid.uuid4(), uuid.uuid4()
MINUTE = 60.0
KEPT, LATE, BROKEN, RELEASED = ContractState
DAYS = [timedelta(0), timedelta(days=3), timedelta(days=-3)]


@pytest.fixture
def hq(sites: Directory, machine: Machine) -> Site:
    """A master table with a log, and two sites that show all of it."""
    prepare(sites["hq"])
    return sites["hq"]


@pytest.fixture
def hq_with_clock(
    server_with_clock: PostgresServer, clock: Clock, machine: Machine
) -> Iterator[Site]:
    """The same, with a clock that can be set."""
    with Directory({"hq": server_with_clock.create_database("hq")}) as directory:
        migrate.upgrade(directory["hq"])
        prepare(directory["hq"])
        yield directory["hq"]
    server_with_clock.drop_database("hq")


def prepare(hq: Site) -> None:
    run(hq, f"CREATE TABLE orders ({ORDERS})")
    masters.create_snapshot_log(hq, "orders")
    with hq.transaction() as connection:
        for site_id, name in ((NEAR, "near"), (FAR, "far")):
            registration.register(
                connection,
                site_id=site_id,
                site_name=name,
                snapshot="orders",
                table=QualifiedName("public", "orders"),
                parents=(),
                updatable=True,
            )
    refreshed(hq, NEAR, FAR)


def refreshed(hq: Site, *site_ids: uuid.UUID) -> None:
    with hq.transaction() as connection:
        for one in site_ids:
            here = position.current(connection)
            registration.advance(connection, one, ["orders"], here)


def promise(hq: Site, site_id: uuid.UUID = FAR, **terms: object) -> None:
    given = Terms(**terms)  # type: ignore[arg-type]
    name = "far" if site_id == FAR else "near"
    with hq.transaction() as connection:
        contract.put(connection, site_id, name, "g", ["orders"], given)


def seen(hq: Site) -> masters.Contract:
    """The contract of the far site, after a look."""
    masters.look_at_contracts(hq)
    [found] = [one for one in masters.list_contracts(hq) if one.site == "far"]
    return found


def stopped_at(hq: Site) -> tuple[Finding, ...]:
    return status_of(hq, alone=True).findings


def age(hq: Site) -> float:
    found = seen(hq).age
    assert found is not None
    return found


def logged(hq: Site) -> int:
    return int(scalar(hq, 'SELECT count(*) FROM snaptide."mlog$_orders"'))


@pytest.mark.parametrize("ahead", DAYS)
def test_age_is_right_within_a_minute_if_the_clock_jumps(
    hq_with_clock: Site, clock: Clock, machine: Machine, ahead: timedelta
) -> None:
    hq = hq_with_clock
    promise(hq, visible_within=timedelta(minutes=15))
    assert seen(hq).state is KEPT
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    clock.set(ahead)
    for minutes in range(1, 4):
        machine.passes(MINUTE)
        run(hq, f"INSERT INTO orders (id) VALUES ({minutes + 1})")
        assert abs(age(hq) - minutes * MINUTE) <= MINUTE
    machine.passes(10 * MINUTE)
    assert seen(hq).state is KEPT
    clock.set(-ahead)
    machine.passes(4 * MINUTE)
    found = seen(hq)
    assert found.state is LATE
    assert found.reason is not None
    assert "the limit is 0:15:00" in found.reason
    refreshed(hq, FAR)
    found = seen(hq)
    assert (found.state, found.reason, found.age) == (KEPT, None, 0)


def test_site_that_shows_everything_is_never_old(hq: Site, machine: Machine) -> None:
    promise(hq, visible_within=timedelta(minutes=15))
    machine.passes(1000 * MINUTE)
    assert age(hq) == 0


def test_age_counts_from_the_oldest_change_that_is_not_shown(
    hq: Site, machine: Machine
) -> None:
    promise(hq, visible_within=timedelta(minutes=15))
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    machine.passes(MINUTE)
    masters.look_at_contracts(hq)
    machine.passes(60 * MINUTE)
    masters.look_at_contracts(hq)
    refreshed(hq, FAR)
    run(hq, "INSERT INTO orders (id) VALUES (2)")
    machine.passes(MINUTE)
    assert age(hq) <= MINUTE
    machine.passes(5 * MINUTE)
    assert 5 * MINUTE <= age(hq) <= 6 * MINUTE


def test_transaction_that_ends_late_makes_nothing_younger(
    hq: Site, machine: Machine
) -> None:
    """Its id is smaller than that of the change that has waited for longer."""
    promise(hq, visible_within=timedelta(minutes=15))
    writer = application(hq)
    writer.execute("INSERT INTO orders (id) VALUES (1)")
    run(hq, "INSERT INTO orders (id) VALUES (2)")
    machine.passes(MINUTE)
    masters.look_at_contracts(hq)
    machine.passes(20 * MINUTE)
    assert seen(hq).state is LATE
    writer.commit()
    writer.close()
    machine.passes(MINUTE)
    assert age(hq) >= 21 * MINUTE


def test_workers_that_were_away_tell_no_breach_that_was_none(
    hq: Site, machine: Machine
) -> None:
    """The site refreshed all the time, and nobody noted it."""
    promise(hq, visible_within=timedelta(minutes=15))
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    machine.passes(180 * MINUTE)
    refreshed(hq, FAR)
    run(hq, "INSERT INTO orders (id) VALUES (2)")
    found = seen(hq)
    assert found.state is KEPT
    assert found.age is not None
    assert found.age <= MINUTE


def test_another_machine_goes_on_by_the_clock(
    hq: Site, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    promise(hq, visible_within=timedelta(minutes=15))
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    machine.passes(MINUTE)
    masters.look_at_contracts(hq)
    machine.passes(20 * MINUTE)
    assert seen(hq).state is LATE
    monkeypatch.setattr(even_time, "reading", lambda: ("another", 5.0))
    assert age(hq) >= 20 * MINUTE
    monkeypatch.setattr(even_time, "reading", machine.reading)
    assert age(hq) >= 20 * MINUTE


def test_released_site_holds_no_purge_back(hq: Site, machine: Machine) -> None:
    promise(
        hq,
        visible_within=timedelta(minutes=15),
        may_be_away=timedelta(days=30),
        on_breach=OnBreach.RELEASE,
    )
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    machine.passes(MINUTE)
    tasks.keep_contracts(hq)
    refreshed(hq, NEAR)
    machine.passes(29 * 1440 * MINUTE)
    tasks.keep_contracts(hq)
    masters.purge_snapshot_logs(hq)
    assert (seen(hq).state, logged(hq)) == (LATE, 1)
    machine.passes(1440 * MINUTE)
    tasks.keep_contracts(hq)
    assert logged(hq) == 0
    found = seen(hq)
    assert (found.state, found.age) == (RELEASED, None)
    assert scalar(hq, "SELECT count(*) FROM snaptide.registered_snapshot") == 2
    machine.passes(MINUTE)
    refreshed(hq, FAR)
    assert seen(hq).state is KEPT
    changes = masters.contract_changes(hq, "far", "g")
    assert [one.state for one in changes] == [KEPT, RELEASED, LATE]
    assert changes[1].reason == found.reason


def test_only_what_breaks_the_contract_is_released(hq: Site, machine: Machine) -> None:
    """The log of a table that hardly changes costs nothing, and is kept."""
    run(hq, "CREATE TABLE codes (id int PRIMARY KEY)")
    masters.create_snapshot_log(hq, "codes")
    codes = QualifiedName("public", "codes")
    given = {"may_be_away": timedelta(days=30), "on_breach": OnBreach.RELEASE}
    with hq.transaction() as connection:
        registration.register(
            connection,
            site_id=FAR,
            site_name="far",
            snapshot="codes",
            table=codes,
            parents=(),
            updatable=False,
        )
        here = position.current(connection)
        registration.advance(connection, FAR, ["codes"], here)
        terms = Terms(**given)  # type: ignore[arg-type]
        contract.put(connection, FAR, "far", "g", ["codes", "orders"], terms)

    def kept_for() -> list[str]:
        kept = "SELECT snapshot FROM snaptide.registered_snapshot WHERE {} ORDER BY 1"
        mine = kept.format("site_name = 'far' AND position IS NOT NULL")
        return [name for (name,) in run(hq, mine)]

    run(hq, "INSERT INTO orders (id) VALUES (1)")
    machine.passes(MINUTE)
    tasks.keep_contracts(hq)
    refreshed(hq, NEAR)
    machine.passes(30 * 1440 * MINUTE)
    run(hq, "INSERT INTO codes VALUES (1)")
    tasks.keep_contracts(hq)
    assert (kept_for(), logged(hq)) == (["codes"], 0)
    found = seen(hq)
    assert (found.state, found.age) == (RELEASED, None)
    assert str(found.reason).endswith("Released: orders.")
    machine.passes(29 * 1440 * MINUTE)
    tasks.keep_contracts(hq)
    assert kept_for() == ["codes"]
    machine.passes(2 * 1440 * MINUTE)
    tasks.keep_contracts(hq)
    assert kept_for() == []
    assert not scalar(hq, 'SELECT count(*) FROM snaptide."mlog$_codes"')
    assert str(seen(hq).reason).endswith("Released: codes.")
    changes = masters.contract_changes(hq, "far", "g")
    assert [one.state for one in changes] == [RELEASED, RELEASED]


def test_share_of_the_logs_counts_for_the_site_that_they_are_kept_for(
    hq: Site, machine: Machine
) -> None:
    for site_id in (NEAR, FAR):
        promise(hq, site_id, log_share=1000, on_breach=OnBreach.RELEASE)
    run(hq, "INSERT INTO orders (id) SELECT generate_series(1, 1000)")
    refreshed(hq, NEAR)
    tasks.keep_contracts(hq)
    states = {one.site: one.state for one in masters.list_contracts(hq)}
    assert states == {"far": RELEASED, "near": KEPT}
    assert logged(hq) == 0


def test_release_of_one_site_is_enough_if_the_others_have_seen_the_logs(
    hq: Site, machine: Machine
) -> None:
    """The site that the logs are kept for is looked at first."""
    for site_id in (FAR, NEAR):
        promise(hq, site_id, log_share=1000, on_breach=OnBreach.RELEASE)
    run(hq, "INSERT INTO orders (id) SELECT generate_series(1, 1000)")
    refreshed(hq, NEAR)
    masters.look_at_contracts(hq)
    states = {one.site: one.state for one in masters.list_contracts(hq)}
    assert states == {"far": RELEASED, "near": KEPT}


def test_logs_that_only_a_purge_has_to_empty_are_kept_for_no_site(
    hq: Site, machine: Machine
) -> None:
    promise(hq, log_share=1000, on_breach=OnBreach.RELEASE)
    run(hq, "INSERT INTO orders (id) SELECT generate_series(1, 1000)")
    refreshed(hq, NEAR, FAR)
    found = seen(hq)
    assert (found.state, found.log_bytes) == (KEPT, 0)
    assert logged(hq) == 1000


def test_released_site_is_as_old_as_before_until_its_refresh_ends(
    hq: Site, machine: Machine
) -> None:
    """The purge has removed the changes that the site does not show."""
    promise(hq, may_be_away=timedelta(days=1), on_breach=OnBreach.RELEASE)
    shown = str(
        scalar(
            hq,
            "SELECT position::text FROM snaptide.registered_snapshot"
            " WHERE site_name = 'far'",
        )
    )
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    machine.passes(MINUTE)
    masters.look_at_contracts(hq)
    refreshed(hq, NEAR)
    machine.passes(2 * 1440 * MINUTE)
    tasks.keep_contracts(hq)
    assert (seen(hq).state, logged(hq)) == (RELEASED, 0)
    # A refresh of the site has begun, and breaks off.
    with hq.transaction() as connection:
        registration.take_back(connection, FAR, {"orders": shown})
    assert seen(hq).state is RELEASED
    refreshed(hq, FAR)
    assert (seen(hq).state, seen(hq).age) == (KEPT, 0)


def test_breach_is_told_if_nothing_else_is_wanted(hq: Site, machine: Machine) -> None:
    promise(hq, may_be_away=timedelta(days=1))
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    machine.passes(MINUTE)
    masters.look_at_contracts(hq)
    machine.passes(2 * 1440 * MINUTE)
    assert seen(hq).state is BROKEN
    masters.purge_snapshot_logs(hq)
    assert logged(hq) == 1


def test_breach_that_begins_and_ends_between_two_looks_is_told(
    hq: Site, machine: Machine
) -> None:
    promise(hq, visible_within=timedelta(minutes=15), may_be_away=timedelta(days=1))
    assert seen(hq).state is KEPT
    for late_by, state in (("20 min", LATE), ("14 min", KEPT), ("2 days", BROKEN)):
        run(hq, "INSERT INTO orders (id) SELECT count(*) + 1 FROM orders")
        made_before(hq, late_by, machine)
        refreshed(hq, FAR)
        found = seen(hq)
        assert (found.state, found.age) == (state, 0)
        machine.passes(MINUTE)
        assert seen(hq).state is KEPT
    changes = masters.contract_changes(hq, "far", "g")
    assert [one.state for one in reversed(changes)] == [LATE, KEPT, BROKEN, KEPT]
    assert changes[-1].reason == (
        "A refresh came late: the oldest change that it brought was made 0:20:00 "
        "before; the limit is 0:15:00."
    )


def test_breach_that_was_told_is_not_told_again_when_it_ends(
    hq: Site, machine: Machine
) -> None:
    promise(hq, visible_within=timedelta(minutes=15))
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    made_before(hq, "20 min", machine)
    assert seen(hq).state is LATE
    refreshed(hq, FAR)
    assert seen(hq).state is KEPT
    assert len(masters.contract_changes(hq, "far", "g")) == 2


def made_before(hq: Site, ago: str, machine: Machine) -> None:
    """Have a time pass since all that is logged was made and all looks were taken."""
    seconds = float(scalar(hq, f"SELECT extract(epoch FROM interval '{ago}')"))
    machine.passes(seconds)
    for table in ('"mlog$_orders"', "position_time"):
        run(hq, f"UPDATE snaptide.{table} SET at = at - interval '{ago}'")


@pytest.mark.parametrize("point", ["contract.before_commit", "contract.after_commit"])
def test_look_that_breaks_off_is_repeated(
    hq: Site, machine: Machine, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    promise(hq, may_be_away=timedelta(days=1), on_breach=OnBreach.RELEASE)
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    machine.passes(MINUTE)
    masters.look_at_contracts(hq)
    refreshed(hq, NEAR)
    machine.passes(2 * 1440 * MINUTE)
    monkeypatch.setenv("SNAPTIDE_FAULT", f"{point}:error")
    with pytest.raises(faults.InjectedFault):
        tasks.keep_contracts(hq)
    tasks.keep_contracts(hq)
    masters.purge_snapshot_logs(hq)
    assert (seen(hq).state, logged(hq)) == (RELEASED, 0)
    assert len(masters.contract_changes(hq, "far", "g")) == 1


def test_contract_that_is_not_kept_is_told_once(hq: Site, machine: Machine) -> None:
    promise(hq, visible_within=timedelta(minutes=15))
    assert seen(hq).state is KEPT
    assert news.seen(hq) == {}
    assert [*stopped_at(hq)] == []
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    for minutes in (1, 20):
        machine.passes(minutes * MINUTE)
        masters.look_at_contracts(hq)
    first = news.seen(hq)
    [told] = first.values()
    assert (told.kind, told.subject) == ("contract", "far:g")
    assert told.what.startswith("It is late: The oldest change that it does not show")
    assert told.todo == "snaptide contract show hq far g"
    [found] = stopped_at(hq)
    assert "It has been late since" in found.what
    machine.passes(MINUTE)
    masters.look_at_contracts(hq)
    assert news.seen(hq) == first
    run(hq, "UPDATE snaptide.contract SET looked_at = now() - interval '6 minutes'")
    assert "No worker has looked at it since" in stopped_at(hq)[1].what


def test_contract_of_snapshots_that_are_gone_is_found(
    hq: Site, machine: Machine
) -> None:
    promise(hq, visible_within=timedelta(minutes=15))
    with hq.transaction() as connection:
        registration.unregister(connection, FAR, ["orders"])
    assert seen(hq).state is KEPT
    [found] = stopped_at(hq)
    assert found.what == "None of its snapshots is registered here any more."
    assert found.todo == "snaptide contract drop hq far g"


def test_recovery_of_a_worker_looks(
    hq: Site, machine: Machine, sites: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Configuration(directory=sites)
    monkeypatch.setattr(configured, "_current", ours)
    assert not is_recovery_wanted(hq)
    promise(hq, may_be_away=timedelta(days=1), on_breach=OnBreach.RELEASE)
    assert is_recovery_wanted(hq)
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    tasks.recover("hq")
    refreshed(hq, NEAR)
    machine.passes(MINUTE)
    tasks.recover("hq")
    machine.passes(2 * 1440 * MINUTE)
    tasks.recover("hq")
    [found] = masters.list_contracts(hq)
    assert (found.state, logged(hq)) == (RELEASED, 0)


def test_random_work_of_sites_while_workers_are_killed(
    hq: Site, machine: Machine
) -> None:
    """No contract is called late that was none, and none that a worker saw is untold.

    A change that was made while no worker looked counts from the next look, at most.
    """
    begun = seed("SNAPTIDE_CONTRACTS_SEED")
    chance, limit = random.Random(begun), 5 * MINUTE
    for site_id in (NEAR, FAR):
        promise(hq, site_id, visible_within=timedelta(seconds=limit))
    # When the changes were made that a site does not show, and the next look was.
    made: dict[str, list[float]] = {"near": [], "far": []}
    seen_at: dict[float, float] = {}
    killed, told = 0, Counter[ContractState]()
    for step in range(250):
        machine.passes(chance.uniform(1, MINUTE / 2))
        if chance.random() < 0.3:
            run(hq, f"INSERT INTO orders (id) VALUES ({step})")
            for waits in made.values():
                waits.append(machine.seconds)
        for name, site_id in (("near", NEAR), ("far", FAR)):
            if chance.random() < 0.05:
                refreshed(hq, site_id)
                made[name].clear()
        killed = chance.randrange(30) if chance.random() < 0.03 else max(killed - 1, 0)
        if killed:
            continue
        masters.look_at_contracts(hq)
        for one in masters.list_contracts(hq):
            waits = made[one.site]
            for moment in waits:
                seen_at.setdefault(moment, machine.seconds)
            most = machine.seconds - min(waits, default=machine.seconds)
            least = machine.seconds - min(
                (seen_at[moment] for moment in waits), default=machine.seconds
            )
            assert one.age is not None
            assert least - 1 <= one.age <= most + 1, begun
            assert (one.state is LATE) == (one.age > limit), begun
            told[one.state] += 1
    assert told.keys() == {KEPT, LATE}, begun


def test_upgrade_keeps_since_when_a_site_waits(hq: Site, machine: Machine) -> None:
    promise(hq, visible_within=timedelta(minutes=15))
    run(hq, "INSERT INTO orders (id) VALUES (1)")
    machine.passes(MINUTE)
    seen(hq)
    before = scalar(hq, "SELECT seen FROM snaptide.contract")
    [(_, since)] = before.values()
    migrate.downgrade(hq, "0079")
    assert scalar(hq, "SELECT waits_since FROM snaptide.contract") == since
    migrate.upgrade(hq)
    assert scalar(hq, "SELECT seen FROM snaptide.contract") == before
    machine.passes(20 * MINUTE)
    assert seen(hq).state is LATE


@pytest.fixture
def snapshot(sites: Directory) -> Directory:
    """A snapshot at jfk, registered and not filled."""
    run(sites["hq"], "CREATE TABLE public.t (id int PRIMARY KEY)")
    masters.create_snapshot_log(sites["hq"], "t")
    snapshots.create(sites["jfk"], "t", master="hq", group="g")
    return sites


def test_contract_by_commands(snapshot: Directory, snaptide: Snaptide) -> None:
    limits = ["--visible-within", "15m", "--may-be-away", "30d", "--log-share", "1GB"]
    made = snaptide.report("contract", "set", "jfk", "g", *limits)
    assert made["snapshots"] == ["t"]
    assert (made["visible_within"], made["log_share"]) == (900, 2**30)
    [found] = snaptide.report("contract", "list", "hq")
    assert (found["site"], found["group"], found["state"]) == ("jfk", "g", "kept")
    assert "visible 15m, away 30d, logs 0 B of 1GB" in snaptide.said(
        "contract", "list", "hq"
    )
    snaptide.said("contract", "set", "jfk", "g", "--may-be-away", "1d")
    shown = snaptide.report("contract", "show", "hq", "jfk", "g")
    assert shown["contract"]["visible_within"] is None
    assert shown["changes"] == []
    snaptide.said("contract", "drop", "hq", "jfk", "g")
    assert snaptide.report("contract", "list", "hq") == []


def test_snapshot_that_came_later_is_found(snapshot: Directory) -> None:
    hq, jfk = snapshot["hq"], snapshot["jfk"]

    def found() -> list[str]:
        with jfk.session() as connection:
            return [one.subject for one in registrations.check(connection, jfk)]

    limit = timedelta(days=1)
    snapshots.set_contract(jfk, "g", may_be_away=limit)
    run(hq, "CREATE TABLE public.other (id int PRIMARY KEY)")
    masters.create_snapshot_log(hq, "other")
    snapshots.create(jfk, "other", master="hq", group="g")
    assert found() == ["other"]
    snapshots.set_contract(jfk, "g", may_be_away=limit)
    assert found() == []


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (("set", "jfk", "g"), "SNP-441"),
        (("set", "jfk", "g", "--visible-within", "0s"), "SNP-340"),
        (("set", "jfk", "g", "--log-share", "0"), "SNP-442"),
        (
            ("set", "jfk", "g", "--visible-within", "2d", "--may-be-away", "1d"),
            "SNP-442",
        ),
        (
            ("set", "jfk", "g", "--visible-within", "2d", "--on-breach", "release"),
            "SNP-442",
        ),
        (("set", "jfk", "other", "--visible-within", "2d"), "SNP-221"),
        (("show", "hq", "jfk", "g"), "SNP-440"),
        (("drop", "hq", "jfk", "g"), "SNP-440"),
    ],
)
def test_wrong_input(
    snapshot: Directory, snaptide: Snaptide, given: tuple[str, ...], error: str
) -> None:
    result = snaptide("contract", *given)
    assert result.exit_code in (1, 2)
    assert error in result.stderr
    assert snaptide.report("contract", "list", "hq") == []
