"""Imports the module of a command when the command runs, not when it is listed.

The program's help and a shell's completion need only a name and one line of each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from sites import collector


@dataclass(frozen=True, slots=True)
class Part:
    """A command, or a group of them.

    Parameters:
        help: the line that lists show.
        modules: relative to `snaptide.cli`; the first has the function of that name, or
            the group as `app`, to which importing the others adds commands.
        report: whether the command prints a report.
    """

    help: str
    modules: Sequence[str]
    report: bool = True


class Later(TyperCommand):
    """A placeholder in lists for a command that is not imported yet."""

    def __init__(self, name: str, part: Part) -> None:
        super().__init__(name, help=part.help)
        self._part = part

    def load(self) -> Any:
        """Import the command and return it."""
        from snaptide.cli.verbs import Verbs

        # Modules stay: looking through them would take a tenth of the imports' time.
        with collector.paused():
            main, *_ = [
                import_module(f".{m}", "snaptide.cli") for m in self._part.modules
            ]
        # The callback makes Typer keep the name of a command that is alone.
        around = Verbs(callback=lambda: None)
        if group := getattr(main, "app", None):
            around.add_typer(
                group, name=self.name, help=self._part.help, no_args_is_help=True
            )
        else:
            verb = around.command(self.name, report=self._part.report)
            verb(getattr(main, str(self.name)))
        made: Any = typer.main.get_command(around)
        return made.commands[self.name]


class LoadedLater(TyperGroup):
    """A group that imports a command when it runs; until then it knows its name."""

    #: by name, in the order of the list
    parts: ClassVar[Mapping[str, Part]]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, part in self.parts.items():
            self.add_command(Later(name, part))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that the first argument names, and return it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Later) else command, rest

    def loaded(self) -> dict[str, Any]:
        """Import all commands, and return them by name."""
        return {
            name: command.load() if isinstance(command, Later) else command
            for name, command in self.commands.items()
        }
