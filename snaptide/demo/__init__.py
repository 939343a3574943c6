"""`snaptide demo`: runs Snaptide's main job on embedded servers, with real flights."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from sites.extras import require
from snaptide.demo import farewell, place, story
from snaptide.demo.screen import Screen
from snaptide.demo.world import World
from snaptide.interrupt import interruptible

__all__ = ["run", "stop"]


def run(*, keep: bool = False, folder: Path | None = None) -> int:
    """Start everything, run all steps, stop everything.

    Parameters:
        keep: leave the servers running, and say what to try.
        folder: where servers and logs live; `.demo` here by default. The demo
            removes it at the end, but keeps it, with its logs, if a step failed.

    Returns:
        0 if every step did what it should.

    Raises:
        MissingExtra: `snaptide[demo]` is not installed.
        FolderNotOurs: the folder is not empty, and no demo made it.
        DemoFailed: a step failed, or took longer than it may.
    """
    for extra in ("demo", "embedded", "spark", "web"):
        require(extra)
    home = place.choose(folder)
    screen = Screen()
    with interruptible() as interrupted:
        stop(folder=home)
        place.claim(home)
        world = World(home, screen)
        try:
            _tell(world, interrupted)
            address = farewell.start_console(world) if keep else ""
        except KeyboardInterrupt:
            world.stop()
            screen.say(f"Interrupted; everything is stopped. Logs: {home}")
            raise
        except BaseException:
            world.stop()
            raise
        if keep:
            screen.headline("The demo keeps running. To try next:")
            screen.plain(farewell.next_steps(world, address))
            world.sites.close()
            return 0
        world.stop()
        place.remove(home)
    return 0


def stop(*, folder: Path | None = None) -> bool:
    """Stop a demo that was left running, and remove its folder.

    Returns:
        Whether there was one.
    """
    home = place.choose(folder)
    if not place.is_ours(home):
        return False
    World(home, Screen()).stop()
    place.remove(home)
    return True


def _tell(world: World, interrupted: Callable[[], bool]) -> None:
    started, before = time.monotonic(), os.times()
    taken = story.tell(world, interrupted)
    world.screen.headline("Done")
    world.screen.table(["step", "seconds"], taken)
    mine = os.times()
    seconds = time.monotonic() - started
    world.screen.say(
        f"{seconds:.1f} s in all; this process used"
        f" {mine.user - before.user:.1f} s of processor time."
    )
