"""Step: kills workers in mid-push; checks that a new one loses or doubles nothing."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from snaptide.demo.cast import THIS, cast, value_of
from snaptide.demo.errors import require
from snaptide.demo.queue import all_delivered, queued
from snaptide.demo.servers import MASTER
from snaptide.demo.world import World

#: So many transactions, each sells one seat of the same flight.
SEATS = 40

_SELL = sql.SQL("UPDATE flights SET seats_sold = seats_sold + 1 WHERE {}").format(THIS)

#: Airport -> the fault point at which its worker dies, and the same in words.
_FAULTS = {
    "jfk": (
        "push.after_apply:kill",
        f"{SEATS} transactions applied as a group, not committed",
    ),
    "lga": ("push.before_mark:kill", "all committed at hq, but the site not told"),
}


@dataclass(frozen=True, slots=True)
class Count:
    """Seats sold on an airport's flight at both sites, and transactions queued."""

    site: int
    master: int
    queued: int


def tell(world: World) -> None:
    """Sell seats, kill the workers that push them, start another, count the seats.

    Additive resolution hides no mistake: a sale that is applied twice counts twice.
    """
    world.processes.worker.stop()
    before = {name: _count(world, name) for name in _FAULTS}
    for name in _FAULTS:
        _sell(world, name)
    sold = {name: _count(world, name) for name in _FAULTS}
    _kill_workers(world)
    killed = {name: _count(world, name) for name in _FAULTS}
    _check_half_way(before, killed)
    worker = world.processes.start(world.processes.worker)
    world.processes.wait(
        "a new worker has pushed the rest", lambda: all_delivered(world), seconds=60
    )
    after = {name: _count(world, name) for name in _FAULTS}
    _show(world, sold, killed, after)
    world.screen.say(f"The new worker is process {worker}.")
    for name in _FAULTS:
        arrived = after[name].master - before[name].master
        require(arrived == SEATS, f"{SEATS} seats sold at {name}, {arrived} at hq.")


def _sell(world: World, site: str) -> None:
    flight = cast(world, site).sold
    with world.application(site) as session:
        for _ in range(SEATS):
            session.execute(_SELL, flight.key)
            session.commit()


def _kill_workers(world: World) -> None:
    doomed = world.processes.doomed
    for name, (fault, where) in _FAULTS.items():
        pid = world.processes.start(doomed[name], fault=fault)
        world.screen.say(
            f"The worker of {name} (pid {pid}) will die by SIGKILL: [italic]{where}[/]."
        )
    for name in _FAULTS:
        doomed[name].wait_killed(seconds=60)


def _check_half_way(before: dict[str, Count], killed: dict[str, Count]) -> None:
    """Check that each worker died at its fault point."""
    arrived = {name: killed[name].master - before[name].master for name in _FAULTS}
    require(arrived["jfk"] == 0, f"{arrived['jfk']} seats of jfk arrived.")
    require(arrived["lga"] == SEATS, f"{arrived['lga']} seats of lga arrived.")
    require(killed["lga"].queued == SEATS, "lga was told after all.")


def _count(world: World, site: str) -> Count:
    flight = cast(world, site).sold
    here, there = (
        value_of(world, where, "seats_sold", flight) for where in (site, MASTER)
    )
    waiting = queued(world, site).transactions
    assert isinstance(here, int)
    assert isinstance(there, int)
    return Count(here, there, waiting)


def _show(world: World, *moments: dict[str, Count]) -> None:
    names = (f"{SEATS} seats sold", "workers killed", "new worker done")
    world.screen.table(
        ["", *(f"{n}: {c}" for n in _FAULTS for c in ("sold", "at hq", "queued"))],
        [
            [
                name,
                *(
                    value
                    for site in _FAULTS
                    for value in (
                        moment[site].site,
                        moment[site].master,
                        moment[site].queued,
                    )
                ),
            ]
            for name, moment in zip(names, moments, strict=True)
        ],
    )
