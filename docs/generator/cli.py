"""The page of all commands, as the program itself declares them."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import typer

from docs.generator.markdown import cell, code_cell, table
from snaptide.cli import app

_INTRO = """\
# Command line

This page lists every command and option of `snaptide`. `--help` says the same where
you are; `--install-completion` teaches your shell the commands and the names of your
sites.
"""


def page() -> str:
    """Every command, as the program itself declares it."""
    root: Any = typer.main.get_command(app)
    parts = [
        _INTRO.strip(),
        root.epilog,
        "## Before the command",
        _parameters(root.params),
    ]
    for name, command in sorted(root.loaded().items()):
        inner = getattr(command, "commands", None)
        if inner is None:
            parts += _command(command, ["snaptide", name], level=2)
            continue
        parts += [f"## snaptide {name}", command.help]
        for verb, part in sorted(inner.items()):
            parts += _command(part, ["snaptide", name, verb], level=3)
    return "\n\n".join(parts)


def _command(command: Any, path: list[str], level: int) -> list[str]:
    arguments = [p.metavar or p.name.upper() for p in command.params if _is_argument(p)]
    usage = " ".join([*path, "[OPTIONS]", *arguments])
    text, examples = _without_examples(inspect.cleandoc(command.help or ""))
    return [
        f"{'#' * level} {' '.join(path)}",
        text,
        "\n".join(["```console", f"$ {usage}", *(f"$ {e}" for e in examples), "```"]),
        _parameters(command.params),
    ]


def _without_examples(text: str) -> tuple[str, list[str]]:
    """A help text, and the commands that it gives as examples."""
    prose, examples = [], []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("Example: "):
            examples.append(" ".join(paragraph.removeprefix("Example: ").split()))
        else:
            prose.append(" ".join(paragraph.split()))
    return "\n\n".join(prose), examples


def _parameters(parameters: Iterable[Any]) -> str:
    rows = [
        (_shown(p), cell(p.help or ""), _default(p))
        for p in parameters
        if p.name != "help" and not p.hidden
    ]
    return table(["argument or option", "meaning", "default"], rows)


def _is_argument(parameter: Any) -> bool:
    return not parameter.opts[0].startswith("-")


def _shown(parameter: Any) -> str:
    if _is_argument(parameter):
        return f"`{parameter.metavar or parameter.name.upper()}`"
    names = ", ".join(f"`{name}`" for name in parameter.opts + parameter.secondary_opts)
    if parameter.is_flag:
        return names
    return f"{names} {code_cell(parameter.metavar or _kind(parameter))}"


def _kind(parameter: Any) -> str:
    annotation = parameter.type_descriptor.annotation
    kinds = [a for a in get_args(annotation) if a is not type(None)] or [annotation]
    kind = kinds[0]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return "|".join(str(member.value) for member in kind)
    named = {int: "NUMBER", float: "NUMBER", Path: "FILE"}
    return named.get(kind, "TEXT")


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = parameter.default
    if value is None or value is False:
        return ""
    return "yes" if value is True else f"`{value}`"
