"""Step: schedules pushes in the catalog, which beat asks for and a worker runs."""

from __future__ import annotations

import time

import deferred
from snaptide.demo.queue import all_delivered, queued
from snaptide.demo.servers import MASTER
from snaptide.demo.world import World

EVERY = "2s"


def tell(world: World) -> None:
    """Start worker and beat, schedule pushes, and wait until the queues are empty."""
    processes, screen = world.processes, world.screen
    before = {site.name: queued(world, site.name) for site in world.airports}
    worker = processes.start(processes.worker)
    beat = processes.start(processes.beat)
    screen.say(f"snaptide worker runs (pid {worker}), snaptide beat too (pid {beat}).")
    started = time.monotonic()
    for site in ("jfk", "lga"):
        world.command("schedule", "set", site, "push", MASTER, "--every", EVERY)
    processes.wait("all queues are empty", lambda: all_delivered(world), seconds=60)
    seconds = time.monotonic() - started
    parked = len(deferred.list_errors(world.hq))
    screen.table(
        ["pushed from", "transactions", "calls"],
        [(name, q.transactions, q.calls) for name, q in before.items() if q.calls],
    )
    screen.say(
        f"Delivered {seconds:.1f} s after the schedules were set, the start of the"
        f" worker included; {parked} stands in the error queue of {MASTER}."
    )
