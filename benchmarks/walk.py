"""`make walk`: what the main flows of the product walk through, counted exactly.

Each flow runs once to warm up, and is counted when it runs again: the files of ours
that it calls into, its calls from one of them to another, how deep these nest, and the
statements that it sends to databases. Nothing here is timed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from inspect import CO_GENERATOR
from pathlib import Path
from types import CodeType, FrameType
from typing import Annotated, Any

import psycopg
import typer
from rich.console import Console
from rich.table import Table

import deferred
import groups
import masters
import snapshots
import synchronous
from benchmarks import setting
from sites import Directory, Site
from sites.sessions import exchange
from sites.sessions.connections import ENDING
from snaptide_imports import PACKAGES

_ROOT = Path(__file__).parent.parent
_OURS = tuple(f"{_ROOT / package}/" for package in PACKAGES)

#: What sends a statement: each call of one of these is one statement. Neither begin
#: nor commit of a transaction is counted.
_SENDS = {
    method.__code__
    for method in (
        psycopg.Cursor.execute,
        psycopg.Cursor.executemany,
        psycopg.Cursor.copy.__wrapped__,  # type: ignore[attr-defined]
        psycopg.ClientCursor.execute,
        exchange._dumped,
    )
}


@dataclass(kw_only=True)
class Walk:
    """What one run of a flow walked through."""

    files: set[str] = field(default_factory=set)
    #: calls of a function by one in another file
    calls: int = 0
    #: most calls between files that were open at once
    depth: int = 0
    statements: list[str] = field(default_factory=list)

    def packages(self) -> Mapping[str, int]:
        """How many of the files each package has."""
        return {
            package: sum(file.startswith(f"{package}/") for file in self.files)
            for package in PACKAGES
        }


@contextmanager
def walked() -> Iterator[Walk]:
    """Count what the block walks through, in this thread and those that it starts."""
    walk = Walk()
    lock = threading.Lock()
    open_copies: list[FrameType] = []

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code in _SENDS and frame not in open_copies:
            if code.co_flags & CO_GENERATOR:
                open_copies.append(frame)  # it is called again when it goes on
            sent = str(
                frame.f_locals.get("statement", "") or frame.f_locals.get("query", "")
            )
            # The empty one asks if a session that was idle for long still answers.
            if sent not in ("", *ENDING):
                with lock:
                    walk.statements.append(sent)
        if not code.co_filename.startswith(_OURS) or code.co_name == "<module>":
            return
        caller = _caller(frame)
        with lock:
            walk.files.add(_short(code))
            if caller is not None and caller.f_code.co_filename != code.co_filename:
                walk.calls += 1
                walk.depth = max(walk.depth, _depth(frame))

    before = sys.getprofile()
    threading.setprofile(look)
    sys.setprofile(look)
    try:
        yield walk
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


def _short(code: CodeType) -> str:
    return str(Path(code.co_filename).relative_to(_ROOT))


def _caller(frame: FrameType) -> FrameType | None:
    """The nearest function of ours that a call comes from."""
    back = frame.f_back
    while back is not None and not back.f_code.co_filename.startswith(_OURS):
        back = back.f_back
    return back


def _depth(frame: FrameType) -> int:
    """How many of the open calls go from one file of ours to another."""
    depth, at = 0, frame
    while (caller := _caller(at)) is not None:
        depth += caller.f_code.co_filename != at.f_code.co_filename
        at = caller
    return depth


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Something that the product does, and what there has to be for it."""

    name: str
    run: Callable[[Directory], object]
    prepare: Callable[[Directory], object] = lambda _: None


def flows() -> Sequence[Flow]:
    """The flows of the table, in its order."""
    return (
        Flow(
            name="push of one call, no group anywhere",
            prepare=lambda sites: _write(sites["jfk"]),
            run=lambda sites: deferred.push(sites["jfk"]),
        ),
        Flow(
            name="refresh of one key",
            prepare=lambda sites: _write(sites["hq"]),
            run=lambda sites: snapshots.refresh(sites["jfk"], "shop"),
        ),
        Flow(
            name="refresh of nothing",
            run=lambda sites: snapshots.refresh(sites["jfk"], "shop"),
        ),
        Flow(
            name="one change over three masters, two pushes",
            prepare=lambda sites: _write(sites["one"]),
            run=lambda sites: (
                deferred.push(sites["one"], "two"),
                deferred.push(sites["two"], "three"),
            ),
        ),
        Flow(name="one synchronous write", run=_write_at_once),
    )


def measure() -> dict[str, Walk]:
    """Run each flow twice, and count the second run.

    Returns:
        By the name of the flow, what it walked through.
    """
    found = {}
    with _world() as sites:
        for flow in flows():
            for _ in range(2):
                flow.prepare(sites)
                with walked() as walk:
                    flow.run(sites)
            found[flow.name] = walk
    return found


@contextmanager
def _world() -> Iterator[Directory]:
    """A master with a site, and three masters of a group in a row."""
    with ExitStack() as stack:
        sites = stack.enter_context(
            setting.directory("hq", "jfk", "lon", "one", "two", "three")
        )
        for name in ("hq", "one", "two", "three"):
            with sites[name].transaction() as connection:
                setting.create_orders(connection, 100)
        masters.create_snapshot_log(sites["hq"], "orders")
        for name in ("jfk", "lon"):
            snapshots.create(
                sites[name], "orders", master="hq", group="shop", updatable=True
            )
            snapshots.refresh(sites[name], "shop")
        snapshots.alter_propagation(sites["lon"], "orders", synchronous=True)
        groups.create_group(sites["one"], "sales")
        groups.add_table(sites["one"], "sales", "orders")
        groups.add_master(sites["one"], "sales", "two")
        groups.add_master(sites["one"], "sales", "three", via="two")
        yield sites


def _write(site: Site) -> None:
    with site.transaction() as connection:
        connection.exec_driver_sql(f"{_CHANGE} 7")


def _write_at_once(sites: Directory) -> None:
    with synchronous.begin(sites["lon"]) as connection:
        # No other flow changes this row, which would be a conflict.
        connection.exec_driver_sql(f"{_CHANGE} 8")


_CHANGE = "UPDATE public.orders SET qty = qty + 1 WHERE id ="


def main(
    flow: Annotated[
        str, typer.Option(help="Show the files and statements of one flow.")
    ] = "",
) -> None:
    """Count what the main flows walk through: files, calls, depth, statements."""
    console = Console(width=max(Console().width, 120))
    table = Table("flow", "files", "calls between files", "depth", "statements")
    found = measure()
    for name, walk in found.items():
        numbers = (len(walk.files), walk.calls, walk.depth, len(walk.statements))
        table.add_row(name, *(f"{number:,}" for number in numbers))
    console.print(table)
    for name, walk in found.items():
        if flow and flow in name:
            console.print(f"{name}: {dict(walk.packages())}")
            console.print("\n".join(sorted(walk.files)), highlight=False)
            for number, statement in enumerate(walk.statements, 1):
                console.print(
                    f"{number:3} {' '.join(statement.split())[:200]}",
                    markup=False,
                    highlight=False,
                )


if __name__ == "__main__":
    typer.run(main)
