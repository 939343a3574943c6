"""Gives commands the options that a model declares."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import wraps
from typing import Annotated, Any

import typer

from deferred.options import Options
from snaptide.cli.program import Program

Command = Callable[..., None]


def takes(
    model: type[Options], *, settings: type[Options] | None = None, **written: str
) -> Callable[[Command], Command]:
    """Give a command the fields of a model; its `**options` are those that were given.

    Parameters:
        settings: the fields whose defaults snaptide.toml decides.
        **written: how an option is written, if not as its name.
    """

    def decorated(command: Command) -> Command:
        @wraps(command)
        def run(program: Program, **values: Any) -> None:
            chosen = {name: values.pop(name) for name in model.model_fields}
            given = {n: v for n, v in chosen.items() if program.is_given(n)}
            command(program, **values, **model.of(given).given)

        own = inspect.signature(command, eval_str=True)
        parts = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        made = _parameters(model, settings.model_fields if settings else (), written)
        # Stable: arguments of the command, options of the model, its own options.
        order = sorted([*made, *parts], key=lambda part: part.kind)
        vars(run)["__signature__"] = own.replace(parameters=order)
        return run

    return decorated


def _parameters(
    model: type[Options], in_settings: Collection[str], written: Mapping[str, str]
) -> Iterator[inspect.Parameter]:
    said = meanings(model)
    for name, field in model.model_fields.items():
        first_sentence = re.split(r"(?<=\.) ", said[name])[0]
        # What is off unless asked for needs no word for that.
        flag = f"--{name.replace('_', '-')}" if field.default is False else None
        names = [one for one in (written.get(name, flag),) if one]
        option = typer.Option(*names, help=first_sentence)
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=Annotated[field.annotation, option],
            default=None if name in in_settings else field.default,
        )


def meanings(model: type) -> dict[str, str]:
    """The `#:` comments above the fields of a class and its bases, by field."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if kind.__module__ == model.__module__:
            found |= _comments(inspect.getsource(kind))
    return found


def _comments(source: str) -> dict[str, str]:
    found: dict[str, str] = {}
    pending: list[str] = []
    for line in source.splitlines():
        text = line.strip()
        if text.startswith("#:"):
            pending.append(text.removeprefix("#:").strip())
            continue
        name = re.match(r"(\w+)\s*:", text)
        if name and pending:
            found[name[1]] = " ".join(pending)
        pending = []
    return found
