"""Words about the history of a row, for terminals and pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from deferred import Event

Image = Mapping[str, str | None]


def key_of(values: Sequence[str]) -> Sequence[str] | Mapping[str, str]:
    """Read the key by column if each value has the form COLUMN=VALUE, else in order.

    Values in order may contain `=` themselves.
    """
    pairs = [value.partition("=") for value in values]
    by_name = {name: value for name, _, value in pairs}
    named = all(name.isidentifier() and equals for name, equals, _ in pairs)
    return by_name if named and len(by_name) == len(pairs) else values


def what(event: Event, at: Callable[[object], str]) -> str:
    """What happened, and who took part.

    Parameters:
        at: writes a time.
    """
    if event.kind == "settled":
        return (
            f"{event.conflict} conflict of {event.origin}'s {event.operation}, settled"
            f" by {event.method}: {event.decision}"
        )
    if event.kind == "parked":
        return f"{event.origin}'s {event.operation} parked as error {event.number}"
    if event.kind == "logged":
        return f"{event.operation} at the master, transaction {event.transaction}"
    return f"{event.operation}, {_propagation(event, at)}"


def _propagation(event: Event, at: Callable[[object], str]) -> str:
    if event.procedure is not None:
        return f"by procedure {event.procedure}, which {event.destination} runs too"
    if event.delivered_at is None:
        return f"waits for a push to {event.destination}"
    return f"answered by {event.destination} at {at(event.delivered_at)}"


def values(event: Event) -> str:
    """The values that changed, or that were in conflict."""
    if event.kind == "parked":
        return "; ".join(
            [_change(event.old, event.new), event.conflict or event.reason or ""]
        )
    if event.kind == "settled":
        return (
            f"{_change(event.old, event.new)}; master had {row_of(event.current)};"
            f" result {row_of(event.result)}"
        )
    return "" if event.kind == "logged" else _change(event.old, event.new)


def _change(old: Image | None, new: Image | None) -> str:
    """The columns that differ; the whole row if it was inserted or deleted."""
    if old is None or new is None:
        return row_of(new if old is None else old)
    names = dict.fromkeys([*old, *new])
    differing = [name for name in names if old.get(name) != new.get(name)]
    return ", ".join(
        f"{name}: {_value(old.get(name))} -> {_value(new.get(name))}"
        for name in differing
    )


def row_of(row: Image | None) -> str:
    """A row in one line."""
    if row is None:
        return "no row"
    return ", ".join(f"{name}: {_value(value)}" for name, value in row.items())


def _value(value: str | None) -> str:
    return "NULL" if value is None else value
