"""The benchmarks by name."""

from __future__ import annotations

from collections.abc import Callable

import typer

from benchmarks import (
    capture,
    check,
    columns,
    commands,
    conflicts,
    first_refresh,
    folder,
    granted,
    group,
    image,
    load,
    memory,
    numbers,
    overview,
    push,
    push_size,
    refresh,
    released,
    scale_out,
    sites,
    spark_floor,
    streams,
    subsets,
    sync,
    table_size,
    until_equal,
    visible,
    worker_start,
)
from benchmarks.pairs import Result

#: What runs, and with how many rows unless told.
BENCHMARKS: dict[str, tuple[Callable[[int], list[Result]], int]] = {
    "capture": (capture.run, 1_000_000),
    "check": (check.run, 1_000_000),
    "check-gently": (check.run_gently, 1_000_000),
    "check-memory": (check.run_memory, 10_000_000),
    "columns": (columns.run, 1_000_000),
    "commands": (commands.run, 15),
    "conflicts": (conflicts.run, 5_000),
    "first-refresh": (first_refresh.run, 5),
    "folder": (folder.run, 1_000),
    "granted": (granted.run, 100_000),
    "group": (group.run, 100_000),
    "image": (image.run, 10_000_000),
    "load": (load.run, 1_000_000),
    "memory": (memory.run, 1_000_000),
    "numbers": (numbers.run, 1_000),
    "overview": (overview.run, 200),
    "push": (push.run, 100_000),
    "push-size": (push_size.run, 100_000),
    "refresh": (refresh.run, 1_000_000),
    "released": (released.run, 1_000_000),
    "scale-out": (scale_out.run, 1_000_000),
    "sites": (sites.run, 1_000_000),
    "spark-floor": (spark_floor.run, 15),
    "streams": (streams.run, 100),
    "subsets": (subsets.run, 1_000_000),
    "sync": (sync.run, 500),
    "table-size": (table_size.run, 400_000),
    "until-equal": (until_equal.run, 10_000),
    "visible": (visible.run, 30),
    "worker-start": (worker_start.run, 7),
}

#: Takes minutes by itself, and runs only when it is asked for.
ON_REQUEST = {"check-gently", "check-memory", "image", "scale-out", "sites"}


def chosen(name: str) -> str:
    """A benchmark that exists.

    Raises:
        typer.BadParameter: there is none of that name.
    """
    if name not in BENCHMARKS:
        raise typer.BadParameter(f"{name}: one of {', '.join(BENCHMARKS)}")
    return name
