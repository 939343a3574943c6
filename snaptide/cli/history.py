"""`snaptide history`: tells the life of a row over all sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

import deferred
from deferred import Event, History
from snaptide.cli.arguments import Json, complete_site
from snaptide.cli.failures import ExitCode
from snaptide.cli.output import cell, show, table
from snaptide.cli.program import Program

Image = Mapping[str, str | None]


def history(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(metavar="TABLE", help="The master's table, as schema.table."),
    ],
    key: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...", help="The key's values in order, or COLUMN=VALUE."
        ),
    ],
    master: Annotated[
        str | None,
        typer.Option(
            help="Only changes that go to this master.", autocompletion=complete_site
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show the history of a row at all sites; ends with 3 if a site was away.

    Example: snaptide history flights 2013-01-01 JFK UA
    """
    program = Program.of(ctx)
    sites = program.directory.values()
    told = deferred.history(sites, name, _key(key), master=master)
    show(program, told, lambda: _whole(told))
    if told.away:
        raise typer.Exit(ExitCode.ATTENTION)


def _key(values: Sequence[str]) -> Sequence[str] | Mapping[str, str]:
    """Read the key by column if each value has the form COLUMN=VALUE, else in order.

    Values in order may contain `=` themselves.
    """
    pairs = [value.partition("=") for value in values]
    by_name = {name: value for name, _, value in pairs}
    named = all(name.isidentifier() and equals for name, equals, _ in pairs)
    return by_name if named and len(by_name) == len(pairs) else values


def _whole(told: History) -> Group:
    keys = "; ".join(", ".join(key) for key in told.keys)
    parts: list[Text | Table] = [
        Text(f"{told.table}, {', '.join(told.key_columns)}: {keys}", style="bold"),
        table(
            ["when", "site", "who", "what", "values"],
            [
                (one.at, one.site, one.user, _what(one), _values(one))
                for one in told.events
            ],
        ),
        Text(),
        Text("Now:", style="bold"),
        table(
            ["site", "table", "row"],
            [(one.site, one.name, _row(one.row)) for one in told.now],
        ),
    ]
    if told.away:
        away = f"These sites did not answer: {', '.join(told.away)}"
        parts += [Text(), Text(away, style="bold red")]
    return Group(*parts)


def _what(event: Event) -> str:
    if event.kind == "settled":
        return (
            f"{event.conflict} conflict of {event.origin}'s {event.operation}, settled"
            f" by {event.method}: {event.decision}"
        )
    if event.kind == "parked":
        return f"{event.origin}'s {event.operation} parked as error {event.number}"
    if event.kind == "logged":
        return f"{event.operation} at the master, transaction {event.transaction}"
    return f"{event.operation}, {_propagation(event)}"


def _propagation(event: Event) -> str:
    if event.procedure is not None:
        return f"by procedure {event.procedure}, which {event.destination} runs too"
    if event.delivered_at is None:
        return f"waits for a push to {event.destination}"
    when = cell(event.delivered_at)
    return f"answered by {event.destination} at {when}"


def _values(event: Event) -> str:
    if event.kind == "parked":
        return "; ".join(
            [_change(event.old, event.new), event.conflict or event.reason or ""]
        )
    if event.kind == "settled":
        return (
            f"{_change(event.old, event.new)}; master had {_row(event.current)};"
            f" result {_row(event.result)}"
        )
    return "" if event.kind == "logged" else _change(event.old, event.new)


def _change(old: Image | None, new: Image | None) -> str:
    """The columns that differ; the whole row if it was inserted or deleted."""
    if old is None or new is None:
        return _row(new if old is None else old)
    names = dict.fromkeys([*old, *new])
    differing = [name for name in names if old.get(name) != new.get(name)]
    return ", ".join(
        f"{name}: {_value(old.get(name))} -> {_value(new.get(name))}"
        for name in differing
    )


def _row(row: Image | None) -> str:
    if row is None:
        return "no row"
    return ", ".join(f"{name}: {_value(value)}" for name, value in row.items())


def _value(value: str | None) -> str:
    return "NULL" if value is None else value
