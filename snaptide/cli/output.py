"""Prints reports: as tables for people, or as JSON for programs."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from snaptide.cli.program import Program
from snaptide.units import written

#: The width in columns if the output is no terminal.
WIDTH = 200


@runtime_checkable
class Printed(Protocol):
    """A report that says itself what is printed of it as JSON."""

    def printed(self) -> Mapping[str, object]:
        """What is printed, by name."""


def show(
    program: Program,
    report: object,
    human: Callable[[], RenderableType] | None = None,
) -> None:
    """Print a report.

    Parameters:
        report: a dataclass, or a list or mapping of them; `--json` prints it.
        human: makes the output for people; by default `facts`.
    """
    if program.json:
        sys.stdout.write(json.dumps(plain(report), ensure_ascii=False, indent=2) + "\n")
    else:
        console().print(facts(report) if human is None else human())


def show_facts(program: Program, **values: object) -> None:
    """Print what a command has done: facts by name."""
    show(program, values)


def console() -> Console:
    """A console on the standard output; new each time, because tests replace it."""
    seen = sys.stdout.isatty()
    return Console(
        file=sys.stdout,
        width=None if seen else WIDTH,
        soft_wrap=not seen,
        highlight=False,
    )


def plain(value: Any) -> Any:
    """Turn a value into JSON types: datetimes ISO, UUIDs text, dataclasses objects.

    What is `Printed` says itself what it becomes.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Printed):
        return plain(value.printed())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain(_fields(value))
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [plain(item) for item in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value.total_seconds() if isinstance(value, timedelta) else str(value)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = ""
) -> Table:
    """A table, with columns of numbers aligned to the right."""
    cells = [list(row) for row in rows]
    made = Table(
        title=Text(title) if title else None,
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    for at, name in enumerate(columns):
        numeric = bool(cells) and all(_is_number(row[at]) for row in cells)
        made.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        made.add_row(*(cell(value) for value in row))
    return made


def facts(report: object, names: Sequence[str] = ()) -> Table:
    """The fields of a dataclass, or the values of a mapping, one per line.

    Parameters:
        names: those to show; all if none is given.
    """
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(style="dim")
    made.add_column(overflow="fold")
    for name, value in _fields(report).items():
        if not names or name in names:
            made.add_row(name.replace("_", " "), cell(value))
    return made


def _fields(report: Any) -> Mapping[str, object]:
    if isinstance(report, Mapping):
        return report
    fields = dataclasses.fields(report)
    return {field.name: getattr(report, field.name) for field in fields}


def cell(value: object) -> str:
    """A value as people read it, with square brackets escaped from markup."""
    return written(value, _moment).replace("[", r"\[")


def _moment(at: datetime) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
